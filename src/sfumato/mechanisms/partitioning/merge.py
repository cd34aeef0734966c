"""Phase 3: neighbouring groups become sub-tables, by dynamic programming (thesis, Figure 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import BoolArray, IntArray

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
    groups: IntArray, protected: BoolArray, rho2: Fraction, orders: Sequence[Sequence[int]]
) -> Merging:
    """The best cut of the best of the given orders (T8); all groups together always compete.

    t² sub-tables are scored per order, each from the one before it: only the values of the group
    that joins are touched.
    """
    return min(
        (_cut(groups, protected, rho2, order) for order in orders), key=lambda found: found.bound
    )


def _cut(groups: IntArray, protected: BoolArray, rho2: Fraction, order: Sequence[int]) -> Merging:
    total, t = int(groups.sum()), len(order)
    members = [np.flatnonzero(groups[g]) for g in order]
    amounts = [groups[g][held] for g, held in zip(order, members, strict=True)]
    best = [0.0] + [math.inf] * t
    came_from = [0] * (t + 1)
    for first in range(t):
        if math.isinf(best[first]):
            continue
        counts = np.zeros(groups.shape[1], np.int64)
        size = values = commonest = 0
        for last in range(first, t):
            held, amount = members[last], amounts[last]
            values += int((counts[held] == 0).sum())
            counts[held] += amount
            size += int(amount.sum())
            covered = held[protected[held]]
            if len(covered):
                commonest = max(commonest, int(counts[covered].max()))
            gamma = part_gamma(commonest, size, rho2)
            cost = best[first] + size / total * error_bound(size, values, float(gamma))
            if cost < best[last + 1]:
                best[last + 1], came_from[last + 1] = cost, first
    parts: list[tuple[int, ...]] = []
    end = t
    while end > 0 and not math.isinf(best[t]):
        parts.append(tuple(order[came_from[end] : end]))
        end = came_from[end]
    return Merging(tuple(reversed(parts)), best[t])


def part_gamma(commonest: int, size: int, rho2: Fraction) -> Fraction:
    """Equation 9 with ρ₁ᵢ = commonest/size, exactly. Every group holds covered records (T9).

    >>> part_gamma(12, 36, Fraction(2, 3))
    Fraction(4, 1)
    """
    return Fraction(size - commonest, commonest) * rho2 / (1 - rho2)
