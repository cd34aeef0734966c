"""Predicted against measured errors of count queries on CENSUS: should agree within 10 %.

python -m benchmarks.prediction [QUESTIONS [WORKLOAD…]]; needs occ100k.parquet and sal500k.parquet
in $SFUMATO_DATA.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.measure import print_table
from sfumato.draws import Draws
from sfumato.engines.counting import count_cells, take_profile
from sfumato.engines.publishing import publish
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.outlook.prediction import error_by_count, workload_errors
from sfumato.profile import Histogram, Profile
from sfumato.table import Table, read
from sfumato.workloads import (
    KINDS,
    generate_workload,
    people_of,
    release_answers,
    size_classes,
    true_counts,
)

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
QUASI = "age,gender,education,marital,race,workclass,country"
RELEASES = 5
CASES = (
    ("uniform", "rho-privacy(0.075, 1/3)"),
    ("fine-grain(objective=counts)", "fine-rho-privacy(theta=8)"),
    ("fine-grain", "fine-rho-privacy(theta=8)"),
    ("partitioned", "rho-privacy(0.075, 1/3)"),
    ("splu", "small-sum(5)"),
    ("optimal", "l-diversity(5)"),
    ("optimal", "beta-likeness(3)"),
    ("sps(merge=none)", "reconstruction-privacy(0.3, 0.3)"),
)


def table_of(name: str, sensitive: str) -> Table:
    return read(
        DATA / f"{name}.parquet",
        quasi=QUASI,
        sensitive=sensitive,
        categorical="gender,marital,race,workclass,country",
    )


def main() -> None:
    warnings.simplefilter("ignore")
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    lines = []
    for name, sensitive in (("occ100k", "occupation"), ("sal500k", "salary_class")):
        if not (DATA / f"{name}.parquet").is_file():
            print(f"(no {name}.parquet in $SFUMATO_DATA)")
            continue
        table = table_of(name, sensitive)
        people, profile = people_of(table), take_profile(table)
        for kind in sys.argv[2:] or KINDS:
            workload = generate_workload(people, kind, count=questions, seed=0)
            truth = true_counts(workload, people)
            for way, promise in CASES:
                lines.append(
                    (
                        name,
                        kind,
                        way,
                        promise,
                        *_compared(table, profile, people, workload, truth, way, promise),
                    )
                )
    print_table(
        f"Mean absolute error of {questions} questions, predicted from the plan, and measured "
        f"({RELEASES} releases)",
        (
            "table",
            "workload",
            "mechanism",
            "guarantee",
            "predicted",
            "measured",
            "predicted / measured",
            "small",
            "middle",
            "large",
            "ms a question",
        ),
        lines,
    )
    _speed()


def _compared(table, profile, people, workload, truth, way, promise):  # type: ignore[no-untyped-def]
    mechanism, guarantee = parse_mechanism(way), parse_guarantee(promise)
    if mechanism.needs_cells:
        (histogram,) = profile.histograms.values()
        cells = count_cells(table, histogram.column, histogram.values)
        profile = Profile(profile.rows, profile.histograms, cells)
    plan = mechanism.plan(profile, guarantee, Draws.from_seed(1))
    begin = time.perf_counter()
    predicted = workload_errors(plan, profile, people, workload)
    spent = time.perf_counter() - begin
    errors = []
    for seed in range(RELEASES):  # the answers of one release go wrong together
        with tempfile.TemporaryDirectory() as folder:
            publish(table, guarantee, to=Path(folder) / "r", mechanism=mechanism, seed=seed)
            answers = release_answers(workload, Path(folder) / "r")
        errors.append(np.abs(answers.estimates - truth))
    measured = np.mean(errors, axis=0)
    known = np.isfinite(measured) & np.isfinite(predicted)
    ratios = []
    for size in size_classes(people.rows):
        inside = known & size.holds(truth)
        ratios.append(
            float(
                (predicted[inside] / truth[inside]).mean()
                / (measured[inside] / truth[inside]).mean()
            )
            if inside.any()
            else None
        )
    whole = float(predicted[known].mean()), float(measured[known].mean())
    return (*whole, whole[0] / whole[1], *ratios, 1000 * spent / len(workload))


def _speed() -> None:
    """The live prediction: 13 sizes for 1,000 values."""
    counts = np.maximum(200_000 / (np.arange(1000) + 5.0) ** 1.1, 3).astype(np.int64)
    histogram = Histogram("s", tuple(range(1000)), counts)
    profile = Profile(histogram.rows, {"s": histogram})
    lines = []
    for way, promise in (*CASES[:5], ("optimal", "l-diversity(3)")):
        plan = parse_mechanism(way).plan(profile, parse_guarantee(promise), Draws.from_seed(1))
        begin = time.perf_counter()
        error_by_count(plan, profile)
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        error_by_count(plan, profile)
        lines.append((way, promise, 1000 * first, 1000 * (time.perf_counter() - begin)))
    print_table(
        "error_by_count with 1,000 values",
        ("mechanism", "guarantee", "first, ms", "again, ms"),
        lines,
    )


if __name__ == "__main__":
    main()
