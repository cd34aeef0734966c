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
    row: int


def k_anonymity(cells: ClassCounts) -> Worst:
    """The smallest class (Samarati, Sweeney)."""
    return _worst(cells, cells.sizes, smallest=True)


def distinct_l(cells: ClassCounts) -> Worst:
    """The fewest different values in a class (Machanavajjhala et al., Section 4)."""
    return _worst(cells, np.bincount(cells.classes), smallest=True)


def frequency_l(cells: ClassCounts) -> Worst:
    """One over the largest share of a value in a class: the `l-diversity(l)` of sfumato."""
    largest = np.maximum.reduceat(cells.counts, cells.starts)
    return _worst(cells, cells.sizes / largest, smallest=True)


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
