"""How much sharper are answers with the model, and do their intervals hold?

Publishes rows of CENSUS, or of another table of `benchmarks.coverage`, and asks for every sensitive
value within conditions that random people satisfy, with the default estimator and with `model`:
median relative error of counts by size, how many true counts the 95 % intervals hold, by size and
by how far a count lies from independence, and how long intervals are. The model's constants were
chosen on the first 50,000 rows of CENSUS (occ100k) and of `sal500k`.

    .venv/bin/python -m benchmarks.model [--table occ100k] [--rows N] [--first N]
        [--publications N] [--conditions N] [NAME …]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.coverage import FEWEST, SOURCES, STRATA, Source, condition
from benchmarks.measure import print_table

RELEASES = {
    "buckets": ("l-diversity(5)", "optimal"),
    "local": ("l-diversity(5)", "local"),
    "partitioned": ("rho-privacy(0.08, 1/3, reader=shares)", "partitioned"),
    "uniform": ("rho-privacy(0.08, 1/3)", "uniform"),
}
SIZES = ((0, 0), (1, 10), (11, 50), (51, 200), (11, 200), (201, 500), (501, 2_000), (2_001, 10**9))
COLUMNS = (
    "truth",
    "independent",
    *("default", "default held", "its length"),
    *("model", "model held", "its length"),
)


def asked(people: pa.Table, source: Source, name: str, seed: int, conditions: int) -> np.ndarray:
    """For every answer: `COLUMNS`."""
    guarantee, mechanism = RELEASES[name]
    sensitive = source.sensitive
    quasi = [column for column in people.column_names if column != sensitive]
    counted = people[sensitive].value_counts().to_pylist()
    shares = {each["values"]: each["counts"] / len(people) for each in counted}
    raw = duckdb.connect()
    raw.register("release", people)
    draw = np.random.default_rng(seed)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SFUMATO_CACHE"] = folder + "/models"
        place = Path(folder) / "release"
        sf.publish(
            people, guarantee, to=place, mechanism=mechanism, quasi=quasi, sensitive=sensitive
        )
        release = sf.open(place)
        started = time.process_time()
        asked_first = next(iter(shares))
        where = f"{sensitive} = {asked_first!r}"
        release.sql(f"SELECT COUNT(*) FROM release WHERE {where}", estimator="model")
        print(
            f"{name}: the first answer took {time.process_time() - started:.1f} CPU s", flush=True
        )
        spent = dict.fromkeys((None, "model"), 0.0)
        for _ in range(conditions):
            where = condition(people, source, draw)
            sql = (
                f"SELECT {sensitive} AS x, COUNT(*) AS n FROM release WHERE {where} "
                f"GROUP BY {sensitive}"
            )
            truth = dict(raw.execute(sql).fetchall())
            by_value: dict[Any, list[float]] = {}
            for estimator in spent:
                started = time.process_time()
                rows = release.sql(sql, estimator=estimator).rows()
                spent[estimator] += time.process_time() - started
                for row in rows:
                    true = truth.get(row["x"], 0)
                    held = row["n_low"] - 1e-6 <= true <= row["n_high"] + 1e-6
                    length = row["n_high"] - row["n_low"]
                    by_value.setdefault(row["x"], []).extend((row["n"], held, length))
            matching = sum(truth.values())
            found += [
                (truth.get(x, 0), matching * shares[x], *rest)
                for x, rest in by_value.items()
                if len(rest) == 6
            ]
        milliseconds = [f"{1000 * each / conditions:.0f}" for each in spent.values()]
        print(f"{name}: CPU ms by question, default and model: {', '.join(milliseconds)}")
    return np.array(found)


def show(name: str, answers: np.ndarray) -> None:
    truth, independent, default, default_held, long, model, held, length = answers.T
    ratio = truth / np.maximum(independent, 1e-9)
    groups = {
        f"counts {low:,} to {high:,}": (truth >= low) & (truth <= high) for low, high in SIZES
    }
    for low, high in STRATA:
        label = f"{low:.2g} to {high:.2g} × independence"
        groups[label] = (ratio >= low) & (ratio < high) & (truth > 0)
    lines = []
    for label, chosen in groups.items():
        if chosen.sum() < FEWEST:
            continue
        errors = [
            float(np.median(np.abs(each - truth)[chosen] / np.maximum(truth[chosen], 1)))
            for each in (default, model)
        ]
        inside = [float(each[chosen].mean()) for each in (default_held, held)]
        shorter = float(np.median((length / np.maximum(long, 1e-9))[chosen]))
        lines.append(
            (
                label,
                int(chosen.sum()),
                *(f"{each:.1%}" for each in errors),
                f"{errors[1] / max(errors[0], 1e-9):.2f}",
                *(f"{each:.1%}" for each in inside),
                f"{shorter:.2f}",
            )
        )
    held_by = ("default holds", "model holds", "length, model over default")
    headings = ("answers", "number", "default", "model", "ratio", *held_by)
    print_table(f"{name}: median error, and truth inside 95 %", headings, lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(RELEASES))
    parser.add_argument("--table", choices=list(SOURCES), default="occ100k")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=50_000)
    parser.add_argument("--publications", type=int, default=1)
    parser.add_argument("--conditions", type=int, default=120)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    source = SOURCES[given.table]
    people = source.read()[given.first : given.first + given.rows]
    for name in given.names:
        answers = [
            asked(people, source, name, seed, given.conditions)
            for seed in range(given.publications)
        ]
        show(name, np.concatenate(answers))


if __name__ == "__main__":
    main()
