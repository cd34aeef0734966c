"""The counts that planning needs, and nothing else of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.blocks import ColumnBins
from sfumato.columns import Value
from sfumato.draws import IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SmallArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many records have each value of a sensitive column; the index of a value is its code.

    >>> Histogram("disease", ("flu", "HIV"), np.array([3, 1])).shares
    [Fraction(3, 4), Fraction(1, 4)]
    """

    column: str
    values: tuple[Value, ...]
    counts: IntArray

    @cached_property
    def rows(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def shares(self) -> list[Fraction]:
        rows = max(self.rows, 1)
        return [Fraction(int(count), rows) for count in self.counts]


@dataclass(frozen=True, eq=False)
class Holders(Histogram):
    """How many people have each value in one of their rows: some people may have several values.

    >>> Holders("disease", ("flu", "HIV"), np.array([3, 2]), people=4).shares
    [Fraction(3, 4), Fraction(1, 2)]
    """

    people: int

    @property
    def rows(self) -> int:
        return self.people


@dataclass(frozen=True, eq=False)
class Holdings:
    """What people have: combinations of sensitive values, how many people have each, and marks.

    A *mark* is what has a limit: a value of a view. Views are the sensitive columns and, under a
    joint promise, all of them together, whose values are the combinations. `of[t, v]` is the code
    of combination t in view v, so a combination has as many marks as there are views. With one
    sensitive column a combination is its value.

    >>> ill = Histogram("ill", ("flu", "HIV"), np.array([3, 2]))
    >>> job = Histogram("job", ("cook", "nurse"), np.array([1, 4]))
    >>> both = Holdings((ill, job), np.array([[0, 0], [0, 1], [1, 1]]), np.array([1, 2, 2]))
    >>> both.marks.toarray().tolist(), (both.counts @ both.marks).tolist()
    ([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]], [3, 2, 1, 4])
    """

    views: tuple[Histogram, ...]
    of: IntArray
    counts: IntArray
    joint: bool = False  # whether the last view has the combinations

    @classmethod
    def one(cls, histogram: Histogram) -> Holdings:
        """Of a single sensitive column."""
        return cls((histogram,), np.arange(len(histogram.values))[:, None], histogram.counts)

    @property
    def columns(self) -> tuple[Histogram, ...]:
        return self.views[:-1] if self.joint else self.views

    @property
    def people(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def starts(self) -> IntArray:
        """The first mark of every view, and how many there are in all."""
        return np.cumsum([0, *(len(view.values) for view in self.views)])

    @cached_property
    def mark(self) -> IntArray:
        """The marks of every combination, one of each view."""
        return self.of + self.starts[:-1]

    @cached_property
    def marks(self) -> csr_array:
        """Combinations by marks, sparse."""
        from scipy.sparse import csr_array

        rows, views = self.of.shape
        ones = np.ones(self.of.size, np.int64)
        edges = np.arange(0, self.of.size + 1, views)
        return csr_array((ones, self.mark.reshape(-1), edges), (rows, int(self.starts[-1])))

    def by_mark(self, counts: IntArray) -> IntArray:
        """Of people by combination, along the last axis, those by mark."""
        return counts if len(self.views) == 1 else np.asarray(counts @ self.marks)

    @cached_property
    def _flat(self) -> IntArray:
        """A number of every combination, ascending."""
        sizes = tuple(len(view.values) for view in self.columns)
        return np.asarray(np.ravel_multi_index(tuple(self.of[:, : len(sizes)].T), sizes))

    def numbers(self, codes: Mapping[str, IntArray]) -> IntArray:
        """The combination of every record with these codes by column; −1 where nobody has it."""
        arrays = [codes[view.column] for view in self.columns]
        if len(arrays) == 1:
            return np.asarray(arrays[0])
        sizes = tuple(len(view.values) for view in self.columns)
        present = np.logical_and.reduce([code >= 0 for code in arrays])
        flat = np.ravel_multi_index(tuple(np.where(present, code, 0) for code in arrays), sizes)
        position = np.minimum(np.searchsorted(self._flat, flat), len(self._flat) - 1)
        return np.asarray(np.where(present & (self._flat[position] == flat), position, -1))

    def jointly(self) -> Holdings:
        """With the combinations as marks, too."""
        names = [view.column for view in self.columns]
        texts = tuple(
            tuple(view.values[code] for view, code in zip(self.columns, combination, strict=True))
            for combination in self.of.tolist()
        )
        whole = Histogram(" and ".join(names), texts, self.counts)
        of = np.c_[self.of, np.arange(len(self.of))]
        return Holdings((*self.views, whole), of, self.counts, joint=True)


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts by (quasi values, sensitive value), non-empty ones only.

    `keys[i]` codes the quasi values of cell i in mixed radix, first column slowest; `values` are
    sensitive codes; sorted by (key, value).
    """

    columns: tuple[str, ...]
    domains: tuple[tuple[Value, ...], ...]
    keys: IntArray
    values: IntArray
    counts: IntArray


@dataclass(frozen=True, eq=False)
class QuasiCells:
    """People by the bins of quasi-identifiers, and by nothing else; non-empty cells only.

    `codes[c][i]` is the bin of column c in cell i. `weights` are what cuts of a column count for,
    in units of 2⁻³² (methods, section 7).
    """

    columns: tuple[ColumnBins, ...]
    codes: tuple[SmallArray, ...]
    people: IntArray
    weights: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BinnedCounts:
    """What people have in every cell: `counts` of them have `values`, entry by entry."""

    cells: QuasiCells
    cell: IntArray
    values: IntArray
    counts: IntArray


@dataclass(frozen=True, eq=False)
class Profile:
    """What a mechanism may look at. `dropped` rows, without a sensitive value, are not counted."""

    rows: int
    histograms: Mapping[str, Histogram]
    cells: Cells | None = None
    binned: BinnedCounts | None = None
    dropped: int = 0
    holdings: Holdings | None = None  # of several sensitive columns
