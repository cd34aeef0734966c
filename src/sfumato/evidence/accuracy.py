"""How far answers are from the truth over a workload: by size of count, by value, in a figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.results import Interval
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


@dataclass(frozen=True, eq=False)
class Accuracy:
    """What a release's answers were worth."""

    questions: int
    mean_absolute_error: float
    median_relative_error: Interval  # of the counts of at least `counts_from`
    median_relative_width: float  # of their 95 % intervals; one without an end is infinitely wide
    counts_from: int
    covered: float | None
    by_count: tuple[ClassError, ...]
    by_value: dict[str, float]  # median relative errors


def measure_accuracy(
    truth: IntArray, answers: WorkloadAnswers, values: Sequence[str], rows: int
) -> Accuracy:
    """Compare answers with the truth; `values` names what each question asked for.

    A true count of 0 has no relative error and counts for the absolute one alone. The one figure
    is over large counts, at least half a per cent of the records, where there are 20 such
    questions, else over all.

    >>> answers = WorkloadAnswers(*np.repeat([[100.0], [5.0], [90.0], [109.0]], 30, axis=1))
    >>> found = measure_accuracy(np.repeat([110], 30), answers, ["flu"] * 30, 1000)
    >>> round(found.median_relative_error.value, 3), found.covered, found.by_count[0].questions
    (0.091, 0.0, 30)
    """
    answered = np.isfinite(answers.estimates)
    errors = np.abs(answers.estimates - truth)
    there = answered & (truth > 0)
    relative = np.divide(errors, truth, out=np.full(len(truth), np.nan), where=there)
    near = 1e-9 * np.maximum(np.abs(answers.high), 1.0)  # what the release shows exactly
    inside = np.where(
        np.isfinite(answers.low) & np.isfinite(answers.high),
        (answers.low - near <= truth) & (truth <= answers.high + near),
        np.nan,
    )
    widths = np.divide(answers.high - answers.low, truth, out=np.full(len(truth), np.inf),
                       where=np.isfinite(inside) & (truth > 0))  # fmt: skip
    classes = []
    for least, above in itertools.pairwise(EDGES):
        chosen = there & (truth >= least) & (truth < above)
        if chosen.any():
            counts = truth[chosen]
            classes.append(
                ClassError(
                    least,
                    min(above - 1, int(counts.max())),
                    int(chosen.sum()),
                    float(np.exp(np.log(counts).mean())),
                    float(relative[chosen].mean()),
                    float(np.median(relative[chosen])),
                    _share(inside[chosen]),
                )
            )
    large = max(math.ceil(rows / 200), 1)
    if int((there & (truth >= large)).sum()) < 20:
        large = 1
    counted = there & (truth >= large)
    named = np.array(list(values), dtype=object)
    by_value = {value: relative[there & (named == value)] for value in sorted(set(values))}
    return Accuracy(
        len(truth),
        float(errors[answered].mean()) if answered.any() else math.nan,
        median_figure(relative[counted]),
        float(np.median(widths[counted])) if counted.any() else math.nan,
        large,
        _share(inside[answered]),
        tuple(classes),
        {value: float(np.median(some)) for value, some in by_value.items() if len(some)},
    )


def _share(inside: FloatArray) -> float | None:
    return float(np.nanmean(inside)) if np.isfinite(inside).any() else None


def median_figure(numbers: FloatArray) -> Interval:
    """The median with a 95 % interval from order statistics: no shape of the errors is assumed.

    >>> median_figure(np.arange(101.0))
    Interval(value=50.0, low=40.0, high=60.0)
    """
    ordered, count = np.sort(numbers), len(numbers)
    if not count:
        return Interval(math.nan, math.nan, math.nan)
    half = Z95 * math.sqrt(count) / 2
    low, high = math.floor((count - 1) / 2 - half), math.ceil((count - 1) / 2 + half)
    low, high = max(low, 0), min(high, count - 1)
    return Interval(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))
