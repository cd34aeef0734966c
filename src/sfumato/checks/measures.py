"""What a table of classes promises, one function per measure, each in O(cells).

Every function gives the worst class: the measured figure and the first row of that class. Shares
are q (within the class) and p (in the whole table).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.checks.counting import ClassCounts
from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray


@dataclass(frozen=True)
class Worst:
    """The worst figure of a measure and the first row of the class where it is, from 0."""

    figure: Any  # a number: a fraction where it is exact
    row: int | None


def k_anonymity(cells: ClassCounts) -> Worst:
    """The smallest class (Samarati, Sweeney)."""
    return _worst(cells, cells.sizes, smallest=True)


def distinct_l(cells: ClassCounts) -> Worst:
    """The fewest different values in a class (Machanavajjhala et al., Section 4)."""
    return _worst(cells, np.bincount(cells.classes), smallest=True)


def entropy_l(cells: ClassCounts) -> Worst:
    """exp of the smallest entropy of a class (Machanavajjhala et al., Definition 4.1)."""
    share = cells.counts / cells.sizes[cells.classes]
    entropy = -np.add.reduceat(share * np.log(share), cells.starts)
    return _worst(cells, np.exp(entropy), smallest=True)


def frequency_l(cells: ClassCounts) -> Worst:
    """One over the largest share of a value in a class: the `l-diversity(l)` of sfumato."""
    largest = np.maximum.reduceat(cells.counts, cells.starts)
    return _worst(cells, cells.sizes / largest, smallest=True)


def recursive_c(cells: ClassCounts, l: int) -> Worst:  # noqa: E741
    """Recursive (c, l)-diversity holds for every c *above* the first number, and no other.

    r₁ < c·(r_l + … + r_m) in every class (Machanavajjhala et al., Definition 4.2): the inequality
    is strict. Infinite where a class has fewer than l values: then no c is enough.
    """
    counts, rank = cells.ranked
    first = counts[cells.starts]
    tail = np.add.reduceat(np.where(rank >= l - 1, counts, 0), cells.starts)
    if not tail.all():
        return Worst(float("inf"), int(cells.rows[int(np.flatnonzero(tail == 0)[0])]))
    ratio = first / tail
    near = np.flatnonzero(ratio >= ratio.max() * (1 - 1e-12))  # decide rounding in integers
    best = max(near.tolist(), key=lambda k: Fraction(int(first[k]), int(tail[k])))
    return Worst(Fraction(int(first[best]), int(tail[best])), int(cells.rows[best]))


def basic_beta(cells: ClassCounts) -> Worst:
    """Largest (q − p)/p of a value that a class has more often (Cao & Karras, Definition 2)."""
    return _worst_cell(cells, np.maximum(_gains(cells), 0.0))


def enhanced_beta(cells: ClassCounts) -> Worst:
    """The least beta with (q − p)/p ≤ min(beta, −ln p) throughout (Cao & Karras, Definition 3).

    Infinite where (q − p)/p exceeds −ln p: no beta allows that. A class with one value only is
    always such a case, unless the whole table has no other.
    """
    gain = np.maximum(_gains(cells), 0.0)
    limit = -np.log(cells.totals[cells.codes] / cells.totals.sum())
    return _worst_cell(cells, np.where(gain > limit, np.inf, gain))


def t_equal(cells: ClassCounts) -> Worst:
    """Largest Σ|q − p|/2: t-closeness with the equal distance (Li et al., Section 3.1)."""
    share, prior = _shares(cells)
    return _worst(cells, np.add.reduceat(np.maximum(share - prior, 0.0), cells.starts))


def t_ordered(cells: ClassCounts) -> Worst | None:
    """Largest Σᵢ|Qᵢ − Pᵢ|/(m−1) of the cumulated shares: t-closeness with the ordered distance
    (Li et al., Section 3.2); 0 where the column is constant, None where it has no order.

    Q is a step function with a step at each value of the class, and P rises from value to value,
    so between two steps the sum is a difference of prefix sums: O(cells), not O(classes · m).
    """
    values = len(cells.values)
    if not cells.ordered:
        return None
    if values == 1:
        return Worst(0.0, int(cells.rows[0]))
    rows = int(cells.totals.sum())
    cumulated = np.cumsum(cells.totals) / rows  # P at values 0 … m−1; the last is 1 on both sides
    prefix = np.concatenate([[0.0], np.cumsum(cumulated)])
    starts = cells.starts
    last = np.r_[starts[1:] - 1, len(cells.counts) - 1]
    running = np.cumsum(cells.counts)
    before = np.concatenate([[0], running])[starts]
    steps = (running - before[cells.classes]) / cells.sizes[cells.classes]
    until = np.r_[cells.codes[1:], values]
    until[last] = values
    area = _between(cumulated, prefix, steps, cells.codes, until)
    total = np.add.reduceat(area, starts) + prefix[cells.codes[starts]]  # Q = 0 before a first step
    return _worst(cells, total / (values - 1))


def _between(
    cumulated: FloatArray, prefix: FloatArray, level: FloatArray, low: np.ndarray, high: np.ndarray
) -> FloatArray:
    """Σ |level − P_i| for low ≤ i < high."""
    cross = np.clip(np.searchsorted(cumulated, level), low, high)
    below = level * (cross - low) - (prefix[cross] - prefix[low])
    above = (prefix[high] - prefix[cross]) - level * (high - cross)
    return np.asarray(below + above)


def delta_disclosure(cells: ClassCounts) -> Worst:
    """Largest |ln(q/p)| over all values (Brickell & Shmatikov, Definition 2, natural logarithm).

    Infinite where a class lacks a value: it is then ruled out for everybody in the class.
    """
    counts = np.bincount(cells.classes)
    lacking = np.flatnonzero(counts < len(cells.values))
    if len(lacking):
        return Worst(float("inf"), int(cells.rows[lacking].min()))
    share, prior = _shares(cells)
    return _worst_cell(cells, np.abs(np.log(share / prior)))


def largest_posteriors(cells: ClassCounts) -> list[tuple[Fraction, int]]:
    """Per value, its largest share in any class, exactly, and the first row of that class."""
    share = cells.counts / cells.sizes[cells.classes]
    order = np.lexsort((-share, cells.codes))
    first = order[np.searchsorted(cells.codes[order], np.arange(len(cells.values)))]
    return [
        (
            Fraction(int(cells.counts[cell]), int(cells.sizes[cells.classes[cell]])),
            int(cells.rows[cells.classes[cell]]),
        )
        for cell in first.tolist()
    ]


def _shares(cells: ClassCounts) -> tuple[FloatArray, FloatArray]:
    share = cells.counts / cells.sizes[cells.classes]
    return share, (cells.totals / cells.totals.sum())[cells.codes]


def _gains(cells: ClassCounts) -> FloatArray:
    """(q − p)/p per cell: exactly 0 where q = p, from one division of integers."""
    expected = cells.totals[cells.codes] * cells.sizes[cells.classes]
    return np.asarray((cells.counts * cells.totals.sum() - expected) / expected)


def _worst(cells: ClassCounts, figures: FloatArray | IntArray, smallest: bool = False) -> Worst:
    index = int(figures.argmin() if smallest else figures.argmax())
    return Worst(figures[index].item(), int(cells.rows[index]))


def _worst_cell(cells: ClassCounts, figures: FloatArray) -> Worst:
    return _worst(cells, np.maximum.reduceat(figures, cells.starts))
