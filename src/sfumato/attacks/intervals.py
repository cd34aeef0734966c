"""Wilson's interval for a share, and what Newcombe makes of it for a paired difference."""

from __future__ import annotations

import math

from sfumato.draws import BoolArray
from sfumato.results import Interval


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
