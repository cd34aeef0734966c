"""Which quasi values say the same about the sensitive column (Section 3.4).

Two values whose sensitive counts could come from one distribution are merged, because an
adversary who knows that they do not differ would pool their records. The test is Pearson's
chi-square of homogeneity on the 2 × m table of the two, with one degree of freedom less than the
table has non-empty columns: the paper's m is wrong and merges too much (errata R6).

The test is not transitive, merging is (errata R7): inside a connected component there can be
pairs that the same test tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.columns import Value, label, value_to_json
from sfumato.draws import BoolArray, IntArray
from sfumato.errors import DataError
from sfumato.mechanisms.reconstruction.tails import FloatArray

_MOST_COMPARED = 12_000  # values of a column: every pair of them is in memory
_LONGEST = 60  # letters of a label


@dataclass(frozen=True, eq=False)
class Merge:
    """The classes of one column's values: `classes[v]` is the class of the value with code v."""

    column: str
    domain: tuple[Value, ...]
    classes: IntArray

    @property
    def count(self) -> int:
        return int(self.classes.max()) + 1 if len(self.classes) else 0

    @property
    def changes(self) -> bool:
        return self.count < len(self.domain)

    def members(self) -> list[list[Value]]:
        """The values of each class."""
        by_class: list[list[Value]] = [[] for _ in range(self.count)]
        for value, number in zip(self.domain, self.classes.tolist(), strict=True):
            by_class[number].append(value)
        return by_class

    def labels(self) -> tuple[str, ...]:
        """A short name for each class, different from every other.

        >>> codes = np.array([0, 0, 0, 1, 0])
        >>> Merge("age", (16, 17, 18, 19, 20), codes).labels()
        ('16..18 | 20', '19')
        """
        names: list[str] = []
        for number in range(self.count):
            inside = np.flatnonzero(self.classes == number)
            runs = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1)
            name = " | ".join(self._run(run) for run in runs)
            if len(name) > _LONGEST:
                name = f"{name[: _LONGEST - 16].rstrip(' |')} … ({len(inside)} values)"
            names.append(name if name not in names else f"{name} #{number}")
        return tuple(names)

    def _run(self, run: IntArray) -> str:
        texts = [label(self.domain[code]) for code in run.tolist()]
        return f"{texts[0]}..{texts[-1]}" if len(texts) > 2 else " | ".join(texts)

    def to_json(self) -> list[dict[str, Any]]:
        """The mapping, class by class: what the release calls it, and the values in it."""
        return [
            {"label": label, "values": [value_to_json(value) for value in values]}
            for label, values in zip(self.labels(), self.members(), strict=True)
        ]


def merge_values(
    column: str,
    domain: tuple[Value, ...],
    table: IntArray,
    significance: Fraction,
) -> Merge:
    """Merge the values of one column; `table[v, x]` counts records. O(V²m), O(V²) bits of memory.

    >>> counts = np.array([[50, 50], [48, 52], [90, 10]])
    >>> merge_values("job", ("a", "b", "c"), counts, Fraction(1, 20)).labels()
    ('a | b', 'c')
    """
    if len(domain) > _MOST_COMPARED:
        raise DataError(
            f"Column {column!r} has {len(domain):,} values; merge=components compares at most "
            f"{_MOST_COMPARED:,}. Coarsen the column, or choose merge=none."
        )
    alike = pair_ratios(table, significance) <= 1
    return Merge(column, domain, _in_order(_components(alike)))


def pair_ratios(table: IntArray, significance: Fraction) -> FloatArray:
    """χ² of every pair of rows over its critical value, symmetric: above 1 the two differ.

    χ² = Σ_x (√(n'/n) o_x − √(n/n') o'_x)²/(o_x + o'_x) (Equation 4); columns empty in both rows
    drop out. An empty row, or a pair with a single column between them, never differs.
    """
    from scipy import stats

    counts = table.astype(np.float64)
    totals = counts.sum(axis=1)
    n, m = counts.shape
    critical = np.ones(m + 1)  # by the number of non-empty columns; 1 where nothing is tested
    critical[2:] = stats.chi2.isf(float(significance), np.arange(1, m))
    present = (counts > 0).astype(np.float32)
    shared = present @ present.T
    used = present.sum(axis=1)
    ratio = np.zeros((n, n), np.float32)
    for row in range(n - 1):
        size, both = totals[row + 1 :], totals[row] + totals[row + 1 :]
        # χ² = (n + n')²/(n n') · (Σ_x o²/(o + o') − n²/(n + n')), over the columns of one row only
        occurs = counts[row] > 0
        mixed = (counts[row, occurs] ** 2 / (counts[row, occurs] + counts[row + 1 :, occurs])).sum(
            axis=1
        )
        excess = mixed - totals[row] ** 2 / np.maximum(both, 1.0)
        scale = both**2 / np.maximum(totals[row] * size, 1.0)
        columns = (used[row] + used[row + 1 :] - shared[row, row + 1 :]).astype(np.int64)
        ratios = np.where(totals[row] * size > 0, scale * excess / critical[columns], 0.0)
        ratios[columns < 2] = 0.0
        ratio[row, row + 1 :] = ratios
        ratio[row + 1 :, row] = ratios
    return np.asarray(ratio)


def _components(alike: BoolArray) -> IntArray:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = np.nonzero(alike)
    graph = coo_array((np.ones(len(first), np.int8), (first, second)), shape=alike.shape)
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def _in_order(classes: IntArray) -> IntArray:
    """Classes numbered by their first value."""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.reshape(-1)])
