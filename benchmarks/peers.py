"""sfumato beside MST, PrivBayes, Mondrian, full-domain generalization and Anatomy.

    SFUMATO_DATA=… SFUMATO_DPMM_PYTHON=… python -m benchmarks.peers [census] [adult] [--write]
        [--rows 5000] [--questions 120] [--targets 5000] [--only MST]

All publish the same records, are asked the same counts and attacked by the same readers. Errors are
the sum of |estimate − truth| over the sum of counts of 11 and more, by number of conditions, and
the median relative error of range counts over three columns. `own record` is what the strongest
attack gains from the person's own record: its right guesses minus those on a publication without
the person. MST and PrivBayes are skipped by name where the variable names no Python with dpmm.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.measure import CENSUS_QUASI, DATA, adult, census, own_cpu, report
from benchmarks.other_programs import FullDomain, Mondrian, Synthesizer, domains_of, why_no_dpmm
from papers.range_questions import RangeCounts, RangeQuestion
from sfumato import datasets
from sfumato.attacks import Outcome, attack
from sfumato.attacks.protocol import Attack
from sfumato.attacks.registry import attacks_for
from sfumato.draws import BoolArray, IntArray
from sfumato.errors import DataError, SfumatoError
from sfumato.guarantees.words import Known
from sfumato.mechanisms import MECHANISMS
from sfumato.operators.base import FloatArray
from sfumato.release import Release
from sfumato.workloads import CountQuestion, generate_workload, people_of, true_counts

NAMES = ("census", "adult")
ADULT = ("age", "workclass", "education", "marital_status", "race", "sex", "hours_per_week")
NUMERIC = ("age", "education", "hours_per_week")
SENSITIVE = "occupation"
CONDITIONS, COLUMNS = (1, 2, 3), 3
LARGE, SEED = 11, 23
OURS = (
    ("l-diversity(5)", "local"),
    ("l-diversity(5)", "optimal"),
    ("beta-likeness(3)", "optimal"),
    ("rho-privacy(0.08, 1/3)", "uniform"),
    ("rho-privacy(0.08, 1/3)", "partitioned"),
    ("small-sum(groups=5)", "splu"),
    ("l-diversity(5)", "heterogeneous"),
)
THEIRS = (
    ("l-diversity(5)", Mondrian.name),
    ("l-diversity(5)", FullDomain.name),
)
SYNTHETIC = (("MST", 1.0), ("PrivBayes", 1.0))
HEADS = (
    *("publication", "1 condition", "2 conditions", "3 conditions", "ranges, 3 columns"),
    *("intervals hold", "best attack right", "without the person", "own record", "prior", "CPU s"),
)


def records(name: str, rows: int) -> tuple[str, pa.Table]:
    """What it is, and the first so many records; generated ones where the files are missing."""
    if name == "adult" and (DATA / "adult.data").is_file():
        return "ADULT", adult().select([*ADULT, SENSITIVE]).slice(0, rows)
    if (DATA / "occ100k.parquet").is_file():
        return "CENSUS", census(rows=rows)
    made = datasets.census(rows, seed=1).select([*CENSUS_QUASI, SENSITIVE])
    texts = [c.cast("string") if pa.types.is_dictionary(c.type) else c for c in made.columns]
    return "generated census", pa.table(dict(zip(made.column_names, texts, strict=True)))


def declared(table: pa.Table) -> sf.Table:
    quasi = [name for name in table.column_names if name != SENSITIVE]
    numbers = [name for name in quasi if pa.types.is_integer(table.schema.field(name).type)]
    numeric = [name for name in numbers if name in NUMERIC]
    others = [name for name in (*quasi, SENSITIVE) if name not in numeric]
    return sf.read(table, quasi=quasi, sensitive=SENSITIVE, numeric=numeric, categorical=others)


@dataclass(frozen=True, eq=False)
class Asked:
    """Counts of one value under one to three conditions, then range counts over three columns."""

    questions: tuple[CountQuestion | RangeQuestion, ...]
    truth: IntArray
    ranges: BoolArray  # which of them are range counts

    @classmethod
    def of(cls, table: sf.Table, count: int) -> Asked:
        people = people_of(table)
        single = generate_workload(people, count=count, seed=SEED)
        ranges = RangeCounts.of(table, "ranges", count=count // 4, seed=SEED, columns=COLUMNS)
        truth = np.concatenate([true_counts(single, people), ranges.truth])
        questions: tuple[CountQuestion | RangeQuestion, ...]
        questions = (*single.questions, *ranges.questions)
        return cls(questions, truth, np.arange(len(questions)) >= len(single))


def ask_release(asked: Asked, path: Path) -> FloatArray:
    """Estimates and ends of intervals, (3, question); not a number where there are none."""
    release = sf.open(path)
    answers = np.full((3, len(asked.questions)), np.nan)
    for number, question in enumerate(asked.questions):
        ((value, _, *ends),) = [row.values() for row in release.sql(question.sql()).rows()]
        parts = (value, *ends)
        answers[:, number] = [np.nan if part is None else part for part in parts]
    return answers


def ask_records(asked: Asked, table: pa.Table) -> FloatArray:
    """Synthetic records answer with their own counts, and say nothing of the error."""
    answers = np.full((3, len(asked.questions)), np.nan)
    with duckdb.connect() as asking:
        asking.register("release", table)
        answers[0] = [asking.execute(q.sql()).fetchall()[0][0] for q in asked.questions]
    return answers


def accuracy(asked: Asked, answers: FloatArray) -> list[float]:
    """Errors by number of conditions, of range counts, and the share of intervals that hold."""
    (value, low, high), truth = answers, asked.truth
    off, width = np.abs(value - truth), np.array([len(q.conditions) for q in asked.questions])
    large = ~asked.ranges & (truth >= LARGE)
    errors = [
        off[chosen].sum() / truth[chosen].sum() if chosen.any() else np.nan
        for chosen in (large & (width == number) for number in CONDITIONS)
    ]
    ranges = float(np.median((off / np.maximum(truth, 1))[asked.ranges]))
    stated = ~np.isnan(low)
    inside = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
    return [*errors, ranges, float(inside[stated].mean()) if stated.any() else np.nan]


def risk(outcomes: Sequence[Outcome]) -> list[str | float]:
    """The best attack that has the publication alone, and what the person's own record gave."""
    best = max(outcomes, key=lambda outcome: outcome.success.value)
    if best.fresh is None or best.over_fresh is None:
        raise DataError(f"no baseline without the person: {best.note}")
    right = f"{100 * best.success.value:.1f} ({best.attack})"
    return [right, best.fresh.value, best.over_fresh.value, best.prior]


def measured(table: pa.Table, questions: int, targets: int, only: str = "") -> Iterator[list[str]]:
    """Line by line, of the publications whose names have a text."""
    people = declared(table)
    asked = Asked.of(people, questions)
    # an attack publishes tables without the person, by the name of the mechanism
    with mock.patch.dict(MECHANISMS, {cls.name: cls for cls in (Mondrian, FullDomain)}):
        for guarantee, mechanism in (*OURS, *THEIRS):
            title = f"`{guarantee}`, {mechanism}"
            if only in title:
                yield _line(title, partial(_release, people, asked, guarantee, mechanism, targets))
    for model, epsilon in SYNTHETIC:
        maker = Synthesizer(model, epsilon, domains_of(table))
        if only in maker.title:
            yield _line(maker.title, partial(_synthesized, people, table, asked, maker, targets))


def _line(title: str, measure: Callable[[], list[str | float]]) -> list[str]:
    try:
        cells = measure()
    except SfumatoError as error:
        return [title, f"skipped: {error}", *[""] * (len(HEADS) - 2)]
    return [title, *(cell if isinstance(cell, str) else _percent(cell) for cell in cells)]


def _percent(share: float) -> str:
    return "–" if share != share else f"{100 * share:.1f}"


def _alone(release: type[Release]) -> list[Attack]:
    nothing = (Known.NOTHING, Known.LEARNED)
    return [each for each in attacks_for(release) if each.knows in nothing]


def _release(
    people: sf.Table, asked: Asked, guarantee: str, mechanism: str, targets: int
) -> list[str | float]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path, began = Path(folder, "release"), own_cpu()
        sf.publish(people, guarantee, to=path, mechanism=mechanism, seed=1)
        seconds = f"{own_cpu() - began:.1f}"
        answers = ask_release(asked, path)
        release = Release(path)
        outcomes = attack(people, release, attacks=_alone(type(release)), targets=targets)
        return [*accuracy(asked, answers), *risk(outcomes), seconds]


def _synthesized(
    people: sf.Table, table: pa.Table, asked: Asked, synthesizer: Synthesizer, targets: int
) -> list[str | float]:
    if why := why_no_dpmm():
        raise DataError(why)
    made = synthesizer(table)
    attacks = _alone(Release)
    outcomes = attack(
        people, None, shown=made, remake=synthesizer, attacks=attacks, targets=targets
    )
    seconds = f"{synthesizer.seconds[0]:.1f}"
    return [*accuracy(asked, ask_records(asked, made)), *risk(outcomes), seconds]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--targets", type=int, default=5_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    for name in options.names:
        title, table = records(name, options.rows)
        lines = []
        for line in measured(table, options.questions, options.targets, options.only):
            lines.append(line)
            print(*line, sep=" | ", flush=True)
        note = f"The first {options.rows:,} complete records of {title}; figures in percent."
        report(f"Beside the peers: {name}", note, HEADS, lines, options.write)


if __name__ == "__main__":
    main()
