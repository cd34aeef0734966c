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


def small_sum_curve(groups: int, error: Fraction, up_to: int) -> list[tuple[int, float]]:
    """(sum, chance of being off by `error` or more) for the sums 1 … `up_to`: Figure 5."""
    return [(f, float(wrong_sum(f, groups, error))) for f in range(1, up_to + 1)]


def wrong_condition_sum(
    matching: int,
    count: int,
    *,
    value_count: int,
    rows: int,
    groups: int,
    error: Fraction,
    clipped: bool = True,
) -> float:
    """Pr(|n̂ − n| ≥ e·n) for the count n of a value among the `matching` records of a condition.

    Small-sum privacy is promised for single values; for (condition, value) the paper's Theorem 4
    is false (errata S7), and the chance depends on n_A = `matching`, n = `count`,
    o_x = `value_count`, N = `rows` and c. The records of the condition that publish the value are
    Binomial(n, 1/c) + Binomial(n_A − n, r), r = o_x(c−1)/(c(N−o_x)), for well-mixed groups and
    n_A ≪ N. `clipped` lets the reader know that a count lies in 0 … n_A, which helps them most
    where a condition selects people who are all alike.

    >>> three = dict(value_count=1000, rows=100_000, groups=5, error=Fraction(3, 10))
    >>> round(wrong_condition_sum(3, 3, **three), 3)  # 0.8³, below T_P = 0.59
    0.512
    >>> round(wrong_condition_sum(3, 1, **three), 3)
    1.0
    """
    if not 0 < count <= min(matching, value_count) or value_count * groups >= rows:
        raise ValueError("needs 0 < count <= matching, value_count and groups·value_count < rows")
    own_chance = Fraction(1, groups)
    other = Fraction(value_count * (groups - 1), groups * (rows - value_count))
    published = np.convolve(
        _binomial(count, float(own_chance)), _binomial(matching - count, float(other))
    )
    # n̂ = (y − n_A·r)/(1/c − r) is within (n − e·n, n + e·n); clipping to n_A only matters where
    # n_A itself is inside, and then no y is too large; the same at 0
    low = matching * other + (1 - error) * count * (own_chance - other)
    high = matching * other + (1 + error) * count * (own_chance - other)
    first = max(0, math.floor(low) + 1)
    last = min(matching, math.ceil(high) - 1)
    if clipped and (1 + error) * count > matching:
        last = matching
    if clipped and error > 1:
        first = 0
    return float(max(0.0, 1 - published[first : last + 1].sum())) if last >= first else 1.0


def _binomial(trials: int, chance: float) -> FloatArray:
    """Probabilities of 0 … trials successes."""
    if trials == 0:
        return np.ones(1)
    from scipy.special import gammaln

    x = np.arange(trials + 1)
    log = gammaln(trials + 1) - gammaln(x + 1) - gammaln(trials - x + 1)
    return np.asarray(np.exp(log + x * math.log(chance) + (trials - x) * math.log1p(-chance)))
