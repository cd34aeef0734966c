"""Any operator at all, written down as integers (thesis, Figure 8a)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.columns import Count, Counts
from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import SingularOperator
from sfumato.operators.base import DYADIC, FloatArray, Operator
from sfumato.operators.inverse import DenseInverse

CONDITION_LIMIT = 1e9  # beyond it float64 weights have lost their meaning


class General(Operator, frozen=True, tag="general"):
    """P[x, y] = `rows[x][y]` / 2³²; every row sums to 2³² exactly.

    >>> half = 1 << 31
    >>> General.of([(half, half), (0, 2 * half)]).matrix().tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """

    values: Count
    denominator: Literal[4294967296]  # DYADIC
    rows: tuple[Counts, ...]

    def __post_init__(self) -> None:
        widths = {len(self.rows), *map(len, self.rows)}
        if not self.values or widths != {self.values} or {*map(sum, self.rows)} != {DYADIC}:
            raise ValueError(
                "A general operator needs at least one value, and as many rows of as many integers "
                f"that sum to {DYADIC}"
            )

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> General:
        """The operator with these rows."""
        listed = tuple(tuple(row) for row in rows)
        return cls(len(listed), DYADIC, listed)

    def matrix(self) -> FloatArray:
        return np.array(self.rows, np.float64) / DYADIC

    def inverse(self) -> DenseInverse:
        return self._inverse

    @cached_property
    def _inverse(self) -> DenseInverse:
        matrix = self.matrix()
        if np.linalg.cond(matrix) > CONDITION_LIMIT:
            raise SingularOperator(
                "The operator cannot be inverted: some values are published alike whatever they "
                "were. Publish again with another mechanism or objective."
            )
        return DenseInverse(np.asarray(np.linalg.inv(matrix)))

    def odds_gains(self) -> list[Fraction | None]:
        gains: list[Fraction | None] = [Fraction(1)] * self.values
        for column in zip(*self.rows, strict=True):
            lowest, second = sorted(column)[:2] if self.values > 1 else (column[0], column[0])
            for x, entry in enumerate(column):
                other = second if entry == lowest else lowest
                known = gains[x]
                if known is not None and entry:
                    gains[x] = max(known, Fraction(entry, other)) if other else None
        return gains

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        # row x of the cumulative table lies in [x·2³², (x+1)·2³²): one search serves all rows
        cumulative = np.cumsum(np.array(self.rows, np.int64), axis=1)
        offsets = np.arange(self.values, dtype=np.int64) * DYADIC
        edges = (cumulative + offsets[:, None]).reshape(-1)
        words = (draws.words(purpose, address) >> np.uint64(32)).view(np.int64)
        index = np.searchsorted(edges, words + codes * DYADIC, side="right")
        return np.asarray(index - codes * self.values)
