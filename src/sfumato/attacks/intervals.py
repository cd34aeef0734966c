"""Wilson's interval for a share, and what Newcombe makes of it for a paired difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.draws import BoolArray

Z95 = 1.959963984540054  # the normal quantile of 97.5 %


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __contains__(self, figure: float) -> bool:
        return self.low <= figure <= self.high

    def __str__(self) -> str:
        """
        >>> print(Interval(0.123, 0.1, 0.15))
        12.3 % (95 %: 10.0 … 15.0)
        """
        return f"{100 * self.value:.1f} % (95 %: {100 * self.low:.1f} … {100 * self.high:.1f})"


def wilson(right: int, trials: int) -> Interval:
    """Wilson's score interval of a share.

    >>> wilson(0, 10)
    Interval(value=0.0, low=0.0, high=0.2775...)
    """
    if trials == 0:
        return Interval(0.0, 0.0, 1.0)
    share, square = right / trials, Z95**2
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    half = Z95 * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    half /= 1 + square / trials
    low = 0.0 if right == 0 else middle - half
    high = 1.0 if right == trials else middle + half
    return Interval(share, low, high)


def above_constant(right: int, trials: int, constant: float) -> Interval:
    """A share less a number that is known: Wilson's interval, moved."""
    share = wilson(right, trials)
    return Interval(share.value - constant, share.low - constant, share.high - constant)


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
    difference = (one - two) / trials
    down = _add(p.value - p.low, q.high - q.value, phi)
    up = _add(p.high - p.value, q.value - q.low, phi)
    return Interval(difference, difference - down, difference + up)


def _add(a: float, b: float, phi: float) -> float:
    return math.sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))
