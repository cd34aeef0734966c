"""Any operator at all, written down as integers (thesis, Figure 8a)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import BundleError, SingularOperator
from sfumato.operators.base import DYADIC, FloatArray, Operator, largest
from sfumato.operators.inverse import DenseInverse

CONDITION_LIMIT = 1e9  # beyond it float64 weights have lost their meaning


@dataclass(frozen=True)
class General(Operator):
    """P[x, y] = `rows[x][y]` / 2³²; every row sums to 2³² exactly.

    >>> half = 1 << 31
    >>> General(((half, half), (0, 2 * half))).matrix().tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """

    rows: tuple[tuple[int, ...], ...]

    form: ClassVar[str] = "general"
    shrinks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        width = len(self.rows)
        for row in self.rows:
            if len(row) != width or min(row) < 0 or sum(row) != DYADIC:
                raise BundleError(
                    f"A general operator needs {width} rows of as many non-negative integers that "
                    f"sum to {DYADIC}."
                )
        if not self.rows:
            raise BundleError("A general operator needs at least one value.")

    @property
    def values(self) -> int:  # type: ignore[override]
        return len(self.rows)

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
                gains[x] = _larger(gains[x], entry, other)
        return gains

    def odds_losses(self) -> list[Fraction | None]:
        """Per true value x, max over y and x' ≠ x of P[x', y] / P[x, y]; None without bound."""
        losses: list[Fraction | None] = [Fraction(1)] * self.values
        for column in zip(*self.rows, strict=True):
            second, highest = sorted(column)[-2:] if self.values > 1 else (column[0], column[0])
            for x, entry in enumerate(column):
                other = second if entry == highest else highest
                losses[x] = _larger(losses[x], other, entry)
        return losses

    def amplification(self) -> Fraction:
        return largest(self.odds_gains())

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        # row x of the cumulative table lies in [x·2³², (x+1)·2³²): one search serves all rows
        cumulative = np.cumsum(np.array(self.rows, np.int64), axis=1)
        offsets = np.arange(self.values, dtype=np.int64) * DYADIC
        edges = (cumulative + offsets[:, None]).reshape(-1)
        words = (draws.words(purpose, address) >> np.uint64(32)).view(np.int64)
        index = np.searchsorted(edges, words + codes * DYADIC, side="right")
        return np.asarray(index - codes * self.values)

    def to_json(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "values": self.values,
            "denominator": DYADIC,
            "rows": [list(row) for row in self.rows],
        }

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Self:
        listed = described.get("rows")
        readable = isinstance(listed, list) and all(
            isinstance(row, list) and all(type(entry) is int for entry in row) for row in listed
        )
        if not readable or described.get("denominator") != DYADIC:
            raise BundleError(
                "The manifest's general operator is unreadable: expected 'rows' of integers over "
                f"the 'denominator' {DYADIC}."
            )
        assert isinstance(listed, list)
        return cls(tuple(tuple(row) for row in listed))


def _larger(known: Fraction | None, above: int, below: int) -> Fraction | None:
    """The larger of a known ratio and above/below; None, without bound, wins."""
    if known is None or above == 0:
        return known
    return max(known, Fraction(above, below)) if below else None
