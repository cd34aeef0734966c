"""Phase 3: neighbouring groups become sub-tables, by dynamic programming (thesis, Figure 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.partitioning.coupling import coupled_variance
from sfumato.operators.base import FloatArray

DELTA = 0.05


@dataclass(frozen=True)
class Merging:
    """Sub-tables as lists of group numbers, and the bound that they reach."""

    parts: tuple[tuple[int, ...], ...]
    bound: float


def error_bound(size: int, values: int, gamma: float, delta: float = DELTA) -> float:
    """Equation 21: a/√|T|·(m/(γ−1) + 1), a = 2√ln(2/δ); a yardstick, not a promise (T10).

    >>> round(error_bound(36, 6, 4.0), 2), round(error_bound(6, 6, 10.0), 2)
    (1.92, 2.61)
    """
    if gamma <= 1:
        return math.inf  # errata T9: the promise cannot be kept in such a sub-table
    a = 2 * math.sqrt(math.log(2 / delta))
    return a / math.sqrt(size) * (values / (gamma - 1) + 1)


def best_merging(
    groups: IntArray,
    protected: BoolArray,
    rho2: Fraction,
    orders: Sequence[Sequence[int]],
    *,
    coupled: bool = False,
) -> Merging:
    """The best cut of the best of the given orders (T8); all groups together always compete.

    `coupled` minimizes the total variance instead of the thesis's bound, and counts with what the
    records of a sub-table tell about one another: small ones have less retention left.
    """
    return min(
        (_cut(groups, protected, rho2, order, coupled) for order in orders),
        key=lambda found: found.bound,
    )


def _cut(
    groups: IntArray,
    protected: BoolArray,
    rho2: Fraction,
    order: Sequence[int],
    coupled: bool,
) -> Merging:
    """Dynamic programming over t groups of m values: O(t²·m)."""
    arranged = groups[list(order)]
    t, rows = len(arranged), float(arranged.sum())
    best = np.full(t + 1, math.inf)
    best[0] = 0.0
    came_from = np.zeros(t + 1, np.int64)
    totals = np.cumsum(arranged, axis=0)  # of the groups from `first` on, up to each
    for first in range(t):
        size, values = totals.sum(axis=1), np.count_nonzero(totals, axis=1)
        excess = _excess(size, totals[:, protected].max(axis=1), rho2)
        if coupled:
            cost = best[first] + coupled_variance(size, values, excess)
        else:
            cost = best[first] + size / rows * _bounds(size, values, excess)
        better = np.flatnonzero(cost < best[first + 1 :])
        best[first + 1 + better] = cost[better]
        came_from[first + 1 + better] = first
        totals = totals[1:] - arranged[first]
    parts: list[tuple[int, ...]] = []
    end = t
    while end > 0 and not math.isinf(best[t]):
        parts.append(tuple(order[int(came_from[end]) : end]))
        end = int(came_from[end])
    return Merging(tuple(reversed(parts)), float(best[t]))


def _excess(size: IntArray, commonest: IntArray, rho2: Fraction) -> FloatArray:
    """γ − 1 of many sub-tables, its sign decided in exact arithmetic (T9)."""
    above, below = rho2.numerator, rho2.denominator
    # γ − 1 = (ρ₂·|T| − c)/(c·(1 − ρ₂)) for c records of the commonest covered value
    exact = object if below * int(size.max()) >= 1 << 62 else np.int64
    room = above * size.astype(exact) - below * commonest.astype(exact)
    with np.errstate(divide="ignore"):
        return np.asarray(room.astype(np.float64) / (commonest * float(below - above)))


def _bounds(size: IntArray, values: IntArray, excess: FloatArray) -> FloatArray:
    """`error_bound` for many sub-tables; infinite where γ ≤ 1 (T9)."""
    with np.errstate(divide="ignore"):
        bound = 2 * math.sqrt(math.log(2 / DELTA)) / np.sqrt(size) * (values / excess + 1)
    return np.where(excess > 0, bound, math.inf)


def part_gamma(commonest: int, size: int, rho2: Fraction) -> Fraction:
    """Equation 9 with ρ₁ᵢ = commonest/size, exactly. Every group holds covered records (T9).

    >>> part_gamma(12, 36, Fraction(2, 3))
    Fraction(4, 1)
    """
    above, below = rho2.numerator, rho2.denominator
    return Fraction((size - commonest) * above, commonest * (below - above))
