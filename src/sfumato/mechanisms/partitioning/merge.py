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
    """Dynamic programming over t groups: O(t·h) for h non-empty (group, value) pairs.

    All sub-tables that start at one group are scored at once, from statistics that only grow with
    each further group: size, number of values, count of the commonest covered value.
    """
    arranged = groups[list(order)]
    sizes = np.concatenate([[0], np.cumsum(arranged.sum(axis=1))])
    pairs = _Pairs.of(arranged, protected)
    t = len(arranged)
    best = np.full(t + 1, math.inf)
    best[0] = 0.0
    came_from = np.zeros(t + 1, np.int64)
    for first in range(t):
        values, commonest = pairs.statistics(first)
        size = sizes[first + 1 :] - sizes[first]
        excess = _excess(size, commonest, rho2)
        if coupled:
            cost = best[first] + coupled_variance(size, values, excess)
        else:
            cost = best[first] + size / sizes[-1] * _bounds(size, values, excess)
        better = np.flatnonzero(cost < best[first + 1 :])
        best[first + 1 + better] = cost[better]
        came_from[first + 1 + better] = first
        pairs.leave(first)
    parts: list[tuple[int, ...]] = []
    end = t
    while end > 0 and not math.isinf(best[t]):
        parts.append(tuple(order[int(came_from[end]) : end]))
        end = int(came_from[end])
    return Merging(tuple(reversed(parts)), float(best[t]))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The non-empty (group, value) pairs, group by group."""

    start: IntArray  # first pair of each group
    group: IntArray
    value: IntArray
    amount: IntArray
    covered: BoolArray
    before: IntArray  # the previous group with the value, −1 if there is none
    running: IntArray  # records of the value up to and including the group
    left_behind: IntArray  # records of each value in the groups before the first

    @classmethod
    def of(cls, arranged: IntArray, protected: BoolArray) -> _Pairs:
        group, value = np.nonzero(arranged)
        amount = arranged[group, value]
        by_value = np.lexsort((group, value))
        v, g = value[by_value], group[by_value]
        same = np.concatenate([[False], v[1:] == v[:-1]])
        before = np.empty(len(value), np.int64)
        before[by_value] = np.where(same, np.concatenate([[-1], g[:-1]]), -1)
        running = np.cumsum(arranged, axis=0)[group, value]
        start = np.searchsorted(group, np.arange(len(arranged)))
        behind = np.zeros(arranged.shape[1], np.int64)
        return cls(start, group, value, amount, protected[value], before, running, behind)

    def statistics(self, first: int) -> tuple[IntArray, IntArray]:
        """For every last group: how many values, and the commonest covered value's records."""
        here = slice(int(self.start[first]), None)
        new = self.group[here][self.before[here] < first]
        values = np.cumsum(np.bincount(new - first, minlength=len(self.start) - first))
        protected_counts = self.running[here] - self.left_behind[self.value[here]]
        protected_counts = np.where(self.covered[here], protected_counts, 0)
        largest = np.maximum.reduceat(protected_counts, self.start[first:] - self.start[first])
        return values, np.maximum.accumulate(largest)

    def leave(self, first: int) -> None:
        end = self.start[first + 1] if first + 1 < len(self.start) else len(self.group)
        here = slice(int(self.start[first]), int(end))
        self.left_behind[self.value[here]] += self.amount[here]


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
