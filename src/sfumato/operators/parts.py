"""Partitioned perturbation: each sub-table has its own few values and its own operator.

The release shows, for each record, the number of its sub-table and a value of that sub-table. So
the operator works on *symbols*, pairs (part, value): P is block diagonal over them, its inverse
too, and an estimate for a value is the sum over the parts that hold it (thesis, Section 4.4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.columns import Count, Counts, ManifestPart
from sfumato.draws import Address, Draws, IntArray
from sfumato.operators.base import DYADIC, FloatArray, Operator
from sfumato.operators.inverse import Inverse
from sfumato.operators.retention import FineGrain, Uniform


class SubTable(ManifestPart, frozen=True):
    """A sub-table: the codes of its values, and the operator that works on their places."""

    codes: Counts
    operator: Uniform | FineGrain


class Parts(Operator, frozen=True, tag="parts", rename={"domain": "values"}):
    """One operator per sub-table; `domain` is the number of values of the whole column.

    >>> half = Uniform(2, Fraction(1, 2))
    >>> parts = Parts(3, (SubTable((0, 1), half), SubTable((0, 2), half)))
    >>> parts.symbol_codes.tolist(), parts.symbol_parts.tolist()
    ([0, 1, 0, 2], [0, 0, 1, 1])
    >>> parts.total(np.array([5.0, 1.0, 2.0, 4.0])).tolist()
    [7.0, 1.0, 4.0]
    """

    domain: Count
    parts: tuple[SubTable, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("A parts operator needs at least one part")
        for number, part in enumerate(self.parts):
            if len({code for code in part.codes if code < self.domain}) != len(part.codes):
                raise ValueError(f"Part {number} names values that the column does not have")
            if part.operator.values != len(part.codes):
                raise ValueError(
                    f"Part {number} has {len(part.codes)} values, its operator "
                    f"{part.operator.values}"
                )

    @property
    def values(self) -> int:
        """How many symbols there are."""
        return sum(len(part.codes) for part in self.parts)

    @property
    def domain_size(self) -> int:
        return self.domain

    @cached_property
    def starts(self) -> IntArray:
        """The first symbol of each part."""
        sizes = [len(part.codes) for part in self.parts]
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    @cached_property
    def symbol_codes(self) -> IntArray:
        return np.array([code for part in self.parts for code in part.codes], np.int64)

    @cached_property
    def symbol_parts(self) -> IntArray:
        return np.repeat(np.arange(len(self.parts)), [len(part.codes) for part in self.parts])

    @cached_property
    def lookup(self) -> IntArray:
        """Symbol by (part, code); −1 where the part does not have the value."""
        table = np.full((len(self.parts), self.domain), -1, np.int64)
        table[self.symbol_parts, self.symbol_codes] = np.arange(self.values)
        return table

    def total(self, by_symbol: FloatArray) -> FloatArray:
        """Sums by value over the parts."""
        return np.asarray(
            np.bincount(self.symbol_codes, by_symbol, minlength=self.domain), np.float64
        )

    def matrix(self) -> FloatArray:
        return self._diagonal([part.operator.matrix() for part in self.parts])

    def weights(self) -> FloatArray:
        """W by symbol, so that P·W = 1; `inverse` weighs values."""
        return self._diagonal([part.operator.weights() for part in self.parts])

    @staticmethod
    def _diagonal(blocks: Sequence[FloatArray]) -> FloatArray:
        from scipy.linalg import block_diag

        return np.asarray(block_diag(*blocks), np.float64)

    def inverse(self) -> Inverse:
        inside = [(np.array(part.codes), part.operator.inverse()) for part in self.parts]
        return Inverse.joined(self.domain, inside)

    def push(self, counts: FloatArray) -> FloatArray:
        by_part = np.split(counts, self.starts[1:], axis=-1)
        shown = [part.operator.push(n) for part, n in zip(self.parts, by_part, strict=True)]
        return np.concatenate(shown, axis=-1)

    def odds_gains(self) -> list[Fraction | None]:
        """Within a part; across parts the part number itself tells them apart (errata T11)."""
        return [gain for part in self.parts for gain in part.operator.odds_gains()]

    def condition(self) -> float:
        return max(part.operator.condition() for part in self.parts)

    @cached_property
    def _drawing(self) -> tuple[IntArray, IntArray, IntArray]:
        """Per symbol: numerator of its retention, values of its part, first symbol of its part."""
        kept = np.concatenate([part.operator.numerators() for part in self.parts])
        sizes = np.array([len(part.codes) for part in self.parts], np.int64)[self.symbol_parts]
        return kept, sizes, self.starts[self.symbol_parts]

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        """Here `codes` are symbols, and so are the published codes."""
        kept, sizes, starts = self._drawing
        words = draws.words(purpose, address)
        halves = words & np.uint64(DYADIC - 1)
        anything = draws.below_small(purpose, address, halves, sizes[codes])
        anything += starts[codes]
        stays = (words >> np.uint64(32)).view(np.int64) < kept[codes]
        np.copyto(anything, codes, where=stays)
        return anything
