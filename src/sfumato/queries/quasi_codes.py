"""Quasi columns as small numbers, for models: ranges of numbers, and the most frequent texts.

The codes follow from the release's own quasi columns. What is missing, not a number or rare has the
last code of its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

MOST_CODES = 100  # of a column, besides the last


@dataclass(frozen=True, eq=False)
class QuasiCode:
    """A column's codes: `edges` between ranges of numbers, or `texts` that have one each.

    >>> ages = pa.chunked_array([[20, 30, None, 30]])
    >>> QuasiCode.of(ages).codes(ages).tolist()
    [0, 1, 2, 1]
    >>> sexes = pa.chunked_array([["F", "M", "F"]])
    >>> QuasiCode.of(sexes).codes(pa.chunked_array([["M", "X"]])).tolist()
    [1, 2]
    """

    edges: FloatArray | None
    texts: npt.NDArray[np.str_] | None

    @classmethod
    def of(cls, values: pa.ChunkedArray, most: int = MOST_CODES) -> QuasiCode:
        """At quantiles where a column has more than `most` numbers, else number by number."""
        if is_number(values.type):
            numbers = numbers_in(values)
            distinct = np.unique(numbers[np.isfinite(numbers)])
            if len(distinct) > most:
                parts = np.arange(1, most) / most
                finite = numbers[np.isfinite(numbers)]
                return cls(np.unique(np.quantile(finite, parts, method="higher")), None)
            return cls(distinct[1:], None)
        counted = pc.value_counts(texts_in(values).drop_null())
        names, counts = counted.field("values"), counted.field("counts")
        order = np.lexsort((np.array(names.to_pylist(), str), -counts.to_numpy()))[:MOST_CODES]
        return cls(None, np.sort(np.array(names.take(pa.array(order)).to_pylist(), str)))

    @property
    def is_ordered(self) -> bool:
        return self.edges is not None

    @property
    def size(self) -> int:
        if self.edges is not None:
            return len(self.edges) + 2
        assert self.texts is not None
        return len(self.texts) + 1

    def codes(self, values: pa.ChunkedArray) -> IntArray:
        if self.edges is not None:
            if pa.types.is_integer(values.type) and not values.null_count and len(values):
                return self._codes_of_integers(values.to_numpy())
            numbers = numbers_in(values)
            codes = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isfinite(numbers), codes, self.size - 1).astype(np.int64)
        listed_texts = pa.array(self.texts, pa.string())
        codes = pc.index_in(texts_in(values), value_set=listed_texts)
        return np.asarray(pc.fill_null(codes, self.size - 1).to_numpy(), np.int64)

    def _codes_of_integers(self, numbers: IntArray) -> IntArray:
        """Where few integers are there many times, each is looked for once."""
        assert self.edges is not None
        low, high = int(numbers.min()), int(numbers.max())
        if high - low >= len(numbers):
            return np.searchsorted(self.edges, numbers, side="right")
        every = np.searchsorted(self.edges, np.arange(low, high + 1), side="right")
        return np.asarray(every[numbers.astype(np.int64) - low])


def codes_of_columns(
    columns: Sequence[pa.ChunkedArray], coded: Sequence[QuasiCode]
) -> tuple[IntArray, ...]:
    return tuple(coder.codes(values) for coder, values in zip(coded, columns, strict=True))


def is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_temporal(kind)
    )


def numbers_in(values: pa.ChunkedArray) -> FloatArray:
    """Numbers, and times as numbers; not a number where one is missing."""
    kind = values.type
    if pa.types.is_temporal(kind):
        narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
        values = values.cast(pa.int32() if narrow else pa.int64())
    numbers = pc.fill_null(values.cast(pa.float64(), safe=False), float("nan"))
    return np.asarray(numbers.to_numpy(), np.float64)


def texts_in(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.cast(pa.string())
