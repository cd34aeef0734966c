"""The count questions that every program is asked, and how far off it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.workloads import (
    CountQuestion,
    SizeClass,
    generate_workload,
    people_of,
    size_classes,
    true_counts,
)

CONDITIONS = (1, 2, 3)
COLUMNS = (1, 2, 3, 4, 5, 6)  # quasi columns of range counts
SEED = 23


@dataclass(frozen=True, eq=False)
class Asked:
    """Counts of one value under 1 to 3 conditions, then range counts over 1 to 6 columns."""

    questions: tuple[CountQuestion, ...]
    truth: IntArray
    ranges: BoolArray  # which of them are range counts
    classes: tuple[SizeClass, ...]

    @classmethod
    def of(cls, table: sf.Table, count: int) -> Asked:
        """`count` of the first, a quarter of that for every number of columns of the second."""
        people = people_of(table)
        single = generate_workload(people, "conjunctions", count=count, seed=SEED)
        ranges = [
            generate_workload(people, "ranges", count=count // 4, seed=SEED, columns=columns)
            for columns in COLUMNS
            if columns <= len(people.quasi)
        ]
        truth = [true_counts(workload, people) for workload in (single, *ranges)]
        questions = [q for workload in (single, *ranges) for q in workload.questions]
        first = np.arange(len(questions)) < len(single)
        return cls(tuple(questions), np.concatenate(truth), ~first, size_classes(people.rows))

    @property
    def width(self) -> IntArray:
        return np.array([len(question.conditions) for question in self.questions])


@dataclass(frozen=True, eq=False)
class Answers:
    """Question by question: the answer and its 95 % interval, not a number where there is none."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


def ask_release(asked: Asked, place: Path) -> Answers:
    """What anybody gets who asks the release, by its default way to answer."""
    opened = sf.open(place)
    found = np.full((3, len(asked.questions)), np.nan)
    for number, question in enumerate(asked.questions):
        (row,) = opened.sql(question.sql()).rows()
        parts = (row["count"], row.get("count_low"), row.get("count_high"))
        found[:, number] = [np.nan if part is None else part for part in parts]
    return Answers(*found)


def ask_records(asked: Asked, records: pa.Table) -> Answers:
    """Synthetic records answer with their own counts, and say nothing of the error."""
    import duckdb

    with duckdb.connect() as asking:
        asking.register("release", records)
        counts = [asking.execute(q.sql()).fetchall()[0][0] for q in asked.questions]
    nothing = np.full(len(counts), np.nan)
    return Answers(np.array(counts, np.float64), nothing, nothing)


@dataclass(frozen=True)
class Accuracy:
    """Errors as shares: of the people counted where counts are single values, and the median of
    the relative errors where they are ranges; and how many intervals hold."""

    by_class: tuple[float, ...]
    by_conditions: tuple[float, ...]
    ranges: tuple[float, ...]
    held: float | None

    @classmethod
    def of(cls, asked: Asked, answers: Answers) -> Accuracy:
        truth, off = asked.truth, np.abs(answers.value - asked.truth)
        single, width = ~asked.ranges, asked.width
        large = single & (truth >= asked.classes[1].least)
        given = ~np.isnan(answers.low)
        inside = (answers.low - 1e-9 <= truth) & (truth <= answers.high + 1e-9)
        return cls(
            tuple(_share(off, truth, single & each.holds(truth)) for each in asked.classes),
            tuple(_share(off, truth, large & (width == number)) for number in CONDITIONS),
            tuple(_medians(off, truth, asked.ranges, width)),
            float(inside[given].mean()) if given.any() else None,
        )


def _share(off: FloatArray, truth: IntArray, chosen: BoolArray) -> float:
    return float(off[chosen].sum() / truth[chosen].sum()) if chosen.any() else float("nan")


def _medians(
    off: FloatArray, truth: IntArray, ranges: BoolArray, width: Sequence[int] | IntArray
) -> Iterator[float]:
    for columns in COLUMNS:
        chosen = ranges & (np.asarray(width) == columns)
        if chosen.any():
            yield float(np.median(off[chosen] / truth[chosen]))
