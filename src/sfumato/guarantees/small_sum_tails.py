"""How wrong a small sum is, and how right a large one (SPLU, Section 4; errata S1, S7, S8).

In groups of c the published count of a value with count f is Binomial(c·f, 1/c): mean f, variance
f·(1 − 1/c). Everything here follows from that law. Windows are evaluated in rationals, because
(1 ± e)·f in binary floating point is not safe; `wrong_sum` is exact throughout.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_NEAR = 1e-9  # a float tail this close to its threshold is decided in rationals


@lru_cache(maxsize=4096)
def wrong_sum(count: int, groups: int, error: Fraction) -> Fraction:
    """Pr(|F − f| ≥ e·f), exactly: the chance that a published sum is off by e or more.

    (Definitions 1, 2 and 4 say "≥", Lemma 2 sums for ">": errata S8; we keep the definitions.)
    O(c·f) additions of large integers at most.

    >>> round(float(wrong_sum(5, 10, Fraction(3, 10))), 2)  # Example 1
    0.48
    """
    low, high = right_sums(count, error)
    trials = groups * count
    term = math.comb(trials, low) * (groups - 1) ** (trials - low)
    inside = 0
    for x in range(low, high + 1):
        inside += term
        term = term * (trials - x) // ((x + 1) * (groups - 1))
    return 1 - Fraction(inside, groups**trials)


def right_sums(count: int, error: Fraction) -> tuple[int, int]:
    """The published counts x with |x − f| < e·f: the first and the last."""
    low = max(0, math.floor((1 - error) * count) + 1)
    return low, math.ceil((1 + error) * count) - 1


def small_sum_privacy(groups: int, error: Fraction, up_to: int) -> Fraction:
    """T_P: the least chance, over all sums from 1 to `up_to`, of being off by `error` or more.

    The chance is a sawtooth in the sum, so all of them are looked at (Lemma 2, errata S8).

    >>> round(float(small_sum_privacy(10, Fraction(3, 10), 3)), 2)  # Example 2
    0.61
    """
    return min(wrong_sum(count, groups, error) for count in range(1, up_to + 1))


def large_sum(groups: int, error: Fraction, probability: Fraction) -> int:
    """T_f: every sum of at least this many is off by `error` or more with at most `probability`.

    Found by going down from Chebyshev's sum to the last one that is wrong too often (errata S1).

    >>> large_sum(10, Fraction(1, 10), Fraction(1, 20))
    351
    """
    high = math.ceil((1 - Fraction(1, groups)) / (error**2 * probability))
    while high > 1:
        low = max(1, high - 4096)
        counts = np.arange(low, high)
        tails = wrong_sums(counts, groups, error)
        limit = float(probability)
        wrong = tails > limit
        for index in np.flatnonzero(np.abs(tails - limit) <= _NEAR):
            wrong[index] = wrong_sum(int(counts[index]), groups, error) > probability
        if wrong.any():
            return int(counts[np.flatnonzero(wrong)[-1]]) + 1
        high = low
    return 1


def wrong_sums(counts: npt.ArrayLike, groups: int, error: Fraction) -> FloatArray:
    """`wrong_sum` of many counts in floats (relative error about 1e-12), windows in rationals.

    >>> wrong_sums([5], 10, Fraction(3, 10)).round(2).tolist()
    [0.48]
    """
    from scipy.special import bdtr, bdtrc

    f = np.asarray(counts, np.int64)
    top, whole = error.numerator, error.denominator  # `right_sums` on integers
    low = np.maximum((whole - top) * f // whole + 1, 0)
    high = -(-(whole + top) * f // whole) - 1
    trials, chance = groups * f, 1 / groups
    below = np.where(low > 0, bdtr(np.maximum(low - 1, 0.0), trials, chance), 0.0)
    above = np.where(high < trials, bdtrc(np.minimum(high, trials - 1.0), trials, chance), 0.0)
    return np.asarray(below + above, np.float64)
