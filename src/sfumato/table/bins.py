"""Bins turn a numeric column into a few values, in the order of the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import bin_labels, edge_text
from sfumato.errors import DataError, UsageError
from sfumato.table.recode import Recode


@dataclass(frozen=True)
class Bins(Recode):
    """Half-open bins between ascending edges; the last one includes its upper edge.

    >>> Bins((0, 100, 1000)).labels
    ('[0, 100)', '[100, 1000]')
    >>> Bins((0, 100, 1000)).codes(np.array([0.0, 99.9, 100.0, 1000.0])).tolist()
    [0, 0, 1, 1]
    >>> Bins((-math.inf, 1000000.5, 1000001)).labels
    ('(-inf, 1000000.5)', '[1000000.5, 1000001]')
    >>> str(Bins.from_arguments(["0", "18", "inf"], {}))
    'bins(0, 18, inf)'
    """

    edges: tuple[float, ...]

    name: ClassVar[str] = "bins"
    takes: ClassVar[str] = "numbers"
    example: ClassVar[str] = "bins(0, 18, 65, inf)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        if len(self.edges) < 3 or any(
            not low < high for low, high in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise UsageError(
                "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
                f"(inf and -inf are allowed). Got {', '.join(edge_text(e) for e in self.edges)}."
            )

    @staticmethod
    def parse(edges: str | Sequence[float]) -> Bins:
        parts = edges.split(",") if isinstance(edges, str) else list(edges)
        try:
            return Bins(tuple(float(part) for part in parts))
        except ValueError:
            raise UsageError(f"Bins need numbers between commas. Got {edges!r}.") from None

    @classmethod
    def from_arguments(cls, positional: list[str], keywords: dict[str, str]) -> Bins:
        if keywords:
            raise UsageError(f"bins takes edges only: {cls.example}.")
        return cls.parse(",".join(positional))

    def __str__(self) -> str:
        return f"bins({', '.join(edge_text(edge) for edge in self.edges)})"

    @property
    def labels(self) -> tuple[str, ...]:
        return bin_labels(self.edges)

    @property
    def domain(self) -> tuple[str, ...]:
        return self.labels

    def codes(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The bin of each number; -1 where it lies outside."""
        code = np.searchsorted(np.asarray(self.edges), numbers, side="right") - 1
        code[numbers == self.edges[-1]] = len(self.edges) - 2
        code[code > len(self.edges) - 2] = -1
        return code

    def fits(self, kind: pa.DataType) -> bool:
        return is_number(kind)

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.string()

    def apply(self, array: pa.Array) -> pa.Array:
        """The labels; what is missing, or not a number, is missing."""
        numbers = pc.cast(array, pa.float64(), safe=False).fill_null(math.nan).to_numpy()
        absent = np.isnan(numbers)
        codes = self.codes(numbers)
        outside = int((codes[~absent] < 0).sum())
        if outside:
            raise DataError(
                f"has values outside its bins, {outside:,} among {len(array):,} rows. Widen them; "
                "-inf and inf are allowed as edges."
            )
        indices = pa.array(codes.astype(np.int32), mask=absent)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.labels))


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
