"""The chance that a sum over many people is wrong: exactly, and by the paper's bounds."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from sfumato.guarantees.small_sum_tails import wrong_sums

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
