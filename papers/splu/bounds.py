"""The chance that a sum over many people is wrong: exactly, and by the paper's bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

import numpy as np

from sfumato.guarantees.small_sum_tails import FloatArray, wrong_sum, wrong_sums

Bound = Literal["exact", "chebyshev", "paper"]


def wrong_sum_bound(count: int, groups: int, error: Fraction, bound: Bound) -> float:
    """The chance of a wrong sum, exactly or by one of the bounds, at most 1.

    >>> wrong_sum_bound(400, 10, Fraction(1, 10), "paper")  # Theorem 3 as printed: false
    6.25e-05
    >>> round(wrong_sum_bound(400, 10, Fraction(1, 10), "exact"), 4)
    0.0373
    """
    if bound == "exact":
        return float(wrong_sums([count], groups, error)[0])
    if bound == "chebyshev":
        return min(1.0, float((1 - Fraction(1, groups)) / (error**2 * count)))
    return min(1.0, float(1 / (groups * error**2 * count**2)))


def large_sum_curve(
    groups: int, error: Fraction, counts: Iterable[int], bound: Bound = "exact"
) -> list[tuple[int, float]]:
    """(T_f, T_E) along the counts: the paper's Figure 4, which inherits errata S1 in `paper`."""
    return [(count, wrong_sum_bound(count, groups, error, bound)) for count in counts]


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
