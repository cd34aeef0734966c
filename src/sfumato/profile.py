"""The counts that planning needs, and nothing else of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.columns import Value
from sfumato.draws import IntArray

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
class Kinds:
    """People by the combination of values that they have in all sensitive columns.

    `held[t]` are the codes of combination t by column, `counts[t]` people have it.

    >>> Kinds(("ill", "job"), np.array([[0, 1], [2, 1]]), np.array([3, 2])).people
    5
    """

    columns: tuple[str, ...]
    held: IntArray
    counts: IntArray

    @property
    def people(self) -> int:
        return int(self.counts.sum())


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

    def quasi_codes(self) -> dict[str, IntArray]:
        """The code of every quasi column, per cell."""
        rest, codes = self.keys, {}
        for column, domain in zip(reversed(self.columns), reversed(self.domains), strict=True):
            rest, codes[column] = np.divmod(rest, len(domain))
        return {column: codes[column] for column in self.columns}


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A quasi column in few bins: numbers by `edges`, other values one by one.

    Bin i of numbers reaches from edge i − 1 to below edge i, a missing one stands in bin 0; bin i
    of values is `values[i]`, as JSON has it, and the bin after the last everything else.
    """

    column: str
    edges: tuple[float, ...] = ()
    values: tuple[Value, ...] | None = None

    @property
    def number(self) -> int:
        return len(self.edges) + 1 if self.values is None else len(self.values) + 1


@dataclass(frozen=True, eq=False)
class BinnedCounts:
    """Counts by (bins of quasi columns, sensitive value), non-empty ones only.

    `codes[c][i]` is the bin of column c in cell i, `values` and `counts` are by cell.
    """

    columns: tuple[ColumnBins, ...]
    codes: tuple[SmallArray, ...]
    values: IntArray
    counts: IntArray

    def thinned(self, most: int) -> BinnedCounts:
        """Every so manieth cell, so that there are at most so many, standing for the others."""
        step = max(1, -(-len(self.counts) // most))
        if step == 1:
            return self
        codes = tuple(each[::step] for each in self.codes)
        return BinnedCounts(self.columns, codes, self.values[::step], self.counts[::step] * step)


@dataclass(frozen=True, eq=False)
class Profile:
    """What a mechanism may look at. `dropped` rows, without a sensitive value, are not counted."""

    rows: int
    histograms: Mapping[str, Histogram]
    cells: Cells | None = None
    binned: BinnedCounts | None = None
    dropped: int = 0
    kinds: Kinds | None = None
