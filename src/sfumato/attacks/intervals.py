"""Shares of right guesses and their intervals, and confidence that means what it says."""

from __future__ import annotations

import math

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.results import Interval

_FOLDS = 5


def calibrated(confidence: FloatArray, right: BoolArray) -> FloatArray:
    """Confidence, corrected by how often it was right for *other* people: of those believed with
    30 %, three in ten are right.

    Isotonic regression of success on the confidence that was claimed, from four fifths of the
    people for the last fifth. A step of it that stands on few people is drawn towards the success
    among all, by the weight of one person. What it says of somebody so does not depend on whether
    the guess about that person was right. O(n log n).

    >>> right = np.arange(7000) % 7 < 2
    >>> calibrated(np.full(7000, 0.9), right)[:2].round(3).tolist()
    [0.286, 0.286]
    """
    from scipy.optimize import isotonic_regression

    calibrated_chances = np.full(len(right), right.mean() if len(right) else 0.0)
    fold = np.arange(len(right)) % _FOLDS
    for number in range(_FOLDS if len(right) >= 2 * _FOLDS else 0):
        others, those = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        claimed, inverse, people = np.unique(
            confidence[others], return_inverse=True, return_counts=True
        )
        hits = np.bincount(inverse, right[others])
        blocks = isotonic_regression(hits / people, weights=people).blocks
        hit, size = (np.add.reduceat(counts, blocks[:-1]) for counts in (hits, people))
        overall = right[others].mean()
        step = np.searchsorted(claimed[blocks[:-1]], confidence[those], side="right") - 1
        calibrated_chances[those] = ((hit + overall) / (size + 1))[np.maximum(step, 0)]
    return calibrated_chances


def wilson(right: int, trials: int, less: float = 0.0) -> Interval:
    """Wilson's score interval of a share, less a number that is known.

    >>> wilson(0, 10)
    Interval(value=0.0, low=0.0, high=0.2775...)
    """
    from scipy.stats import binomtest

    if trials == 0:
        return Interval(-less, -less, 1.0 - less)
    ends = binomtest(right, trials).proportion_ci(method="wilson")
    low, high = 0.0 if right == 0 else ends.low, 1.0 if right == trials else ends.high
    return Interval(right / trials - less, float(low) - less, float(high) - less)


def paired_difference(first: BoolArray, second: BoolArray) -> Interval:
    """How much more often the first is right, over the same people.

    Newcombe's square-and-add interval for paired shares (Statistics in Medicine 17, 1998, method
    10): Wilson's limits of both shares, with the correlation of the two.

    >>> import numpy as np
    >>> first = np.repeat([True, True, False, False], [20, 12, 2, 16])
    >>> second = np.repeat([True, False, True, False], [20, 12, 2, 16])
    >>> paired_difference(first, second)
    Interval(value=0.2, low=0.0561..., high=0.3292...)
    """
    trials = len(first)
    if trials == 0:
        return Interval(0.0, -1.0, 1.0)
    both = int((first & second).sum())
    one, two = int(first.sum()) - both, int(second.sum()) - both
    neither = trials - both - one - two
    p, q = wilson(both + one, trials), wilson(both + two, trials)
    margins = (both + one) * (two + neither) * (both + two) * (one + neither)
    cross = both * neither - one * two
    if cross > 0:
        cross = max(cross - trials // 2, 0)
    phi = cross / math.sqrt(margins) if margins else 0.0

    def gap(a: float, b: float) -> float:
        return math.sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))

    difference = (one - two) / trials
    down, up = gap(p.value - p.low, q.high - q.value), gap(p.high - p.value, q.value - q.low)
    return Interval(difference, difference - down, difference + up)
