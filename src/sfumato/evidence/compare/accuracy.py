"""How far answers are from the truth over a workload: by size of count, by value, in a figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.pages.charts import Figure
from sfumato.workloads import WorkloadAnswers
from sfumato.workloads.answers import Z95

LOW = 0.93  # of the truths that 95 % intervals should hold: below it a class is marked
EDGES = (1, 11, 31, 101, 301, 1001, 3001, 10_001, 30_001, 100_001, 1_000_001, 1 << 62)


@dataclass(frozen=True)
class ClassError:
    """Relative errors of the questions whose true count lies in a class."""

    least: int
    most: int
    questions: int
    count: float  # the geometric mean of the true counts
    mean: float
    median: float
    covered: float | None  # how often the 95 % interval holds the truth

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def held_by_class(classes: Sequence[tuple[int, int | None, float | None]]) -> str:
    """What intervals held by size of the count, with a mark where that is too little.

    >>> held_by_class([(1, 10, 0.91), (11, 50, 0.95), (51, None, None)])
    ' By size: 1 to 10 91 % (low), 11 to 50 95 %.'
    """
    texts = []
    for least, most, covered in classes:
        if covered is not None:
            size = f"from {least:,}" if most is None else f"{least:,} to {most:,}"
            texts.append(
                f"{size} {covered:.0%}".replace("%", " %") + (" (low)" if covered < LOW else "")
            )
    return f" By size: {', '.join(texts)}." if texts else ""


@dataclass(frozen=True, eq=False)
class Accuracy:
    """What a release's answers were worth."""

    questions: int
    mean_absolute: float
    median: Figure  # of the relative errors of the counts of at least `least`
    least: int
    covered: float | None
    by_class: tuple[ClassError, ...]
    by_value: tuple[tuple[str, int, float], ...]  # value, questions, median relative error

    def to_json(self) -> dict[str, Any]:
        return {
            "questions": self.questions,
            "mean_absolute_error": self.mean_absolute,
            "median_relative_error": {**vars(self.median), "counts_from": self.least},
            "covered": self.covered,
            "by_count": [size_class.to_json() for size_class in self.by_class],
            "by_value": [
                {"value": value, "questions": asked, "median_relative_error": error}
                for value, asked, error in self.by_value
            ],
        }


def measure_accuracy(
    truth: IntArray, answers: WorkloadAnswers, values: Sequence[str], rows: int
) -> Accuracy:
    """Compare answers with the truth; `values` names what each question asked for.

    A true count of 0 has no relative error and counts for the absolute one alone. The one figure
    is over large counts, at least half a per cent of the records, where there are 20 such
    questions, else over all.

    >>> answers = WorkloadAnswers(*np.repeat([[100.0], [5.0], [90.0], [109.0]], 30, axis=1))
    >>> found = measure_accuracy(np.repeat([110], 30), answers, ["flu"] * 30, 1000)
    >>> round(found.median.value, 3), found.covered, found.by_class[0].questions
    (0.091, 0.0, 30)
    """
    answered = np.isfinite(answers.estimates)
    errors = np.abs(answers.estimates - truth)
    there = answered & (truth > 0)
    relative = np.divide(errors, truth, out=np.full(len(truth), np.nan), where=there)
    near = 1e-9 * np.maximum(np.abs(answers.high), 1.0)  # what the release shows exactly
    inside = (answers.low - near <= truth) & (truth <= answers.high + near)
    barred = np.isfinite(answers.low) & np.isfinite(answers.high)
    classes = []
    for least, above in itertools.pairwise(EDGES):
        chosen = there & (truth >= least) & (truth < above)
        if chosen.any():
            classes.append(
                ClassError(
                    least,
                    min(above - 1, int(truth[chosen].max())),
                    int(chosen.sum()),
                    float(np.exp(np.log(truth[chosen]).mean())),
                    float(relative[chosen].mean()),
                    float(np.median(relative[chosen])),
                    _share(inside[chosen & barred]),
                )
            )
    large = max(math.ceil(rows / 200), 1)
    if int((there & (truth >= large)).sum()) < 20:
        large = 1
    named = np.array(list(values), dtype=object)
    by_value = []
    for value in sorted(set(values)):
        of_value = there & (named == value)
        if of_value.any():
            by_value.append((value, int(of_value.sum()), float(np.median(relative[of_value]))))
    return Accuracy(
        len(truth),
        float(errors[answered].mean()) if answered.any() else math.nan,
        median_figure(relative[there & (truth >= large)]),
        large,
        _share(inside[answered & barred]),
        tuple(classes),
        tuple(by_value),
    )


def _share(inside: BoolArray) -> float | None:
    return float(inside.mean()) if len(inside) else None


def median_figure(numbers: FloatArray) -> Figure:
    """The median with a 95 % interval from order statistics: no shape of the errors is assumed.

    >>> median_figure(np.arange(101.0))
    Figure(value=50.0, low=40.0, high=60.0)
    """
    ordered, count = np.sort(numbers), len(numbers)
    if not count:
        return Figure(math.nan, math.nan, math.nan)
    half = Z95 * math.sqrt(count) / 2
    low, high = math.floor((count - 1) / 2 - half), math.ceil((count - 1) / 2 + half)
    low, high = max(low, 0), min(high, count - 1)
    return Figure(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))
