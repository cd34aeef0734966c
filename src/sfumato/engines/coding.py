"""From Arrow values to small integers: sensitive values to codes, and their counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Range, Value, Values, value_to_json
from sfumato.draws import IntArray
from sfumato.errors import DataError
from sfumato.table import Table

MOST_VALUES = 100_000  # a sensitive column with more different values needs bins
_LOOKUP_SPAN = 1 << 20  # integers within such a span are coded by a plain table


class ValueCounter:
    """Counts the values of one sensitive column, batch by batch; None counts the missing ones."""

    def __init__(self, table: Table, column: str) -> None:
        self.column, self.label = column, table.label
        self.counts: dict[Value, int] = {}

    def add(self, array: pa.Array) -> None:
        array = without_nan(array)
        if pa.types.is_dictionary(array.type):
            values = array.dictionary.to_pylist()
            indices = array.indices.drop_null().to_numpy(zero_copy_only=False)
            found = np.bincount(indices, minlength=len(values)).tolist()
            pairs = [(v, n) for v, n in zip(values, found, strict=True) if n]
            pairs.append((None, array.indices.null_count))
        else:
            counted = pc.value_counts(array)
            pairs = zip(  # type: ignore[assignment]
                counted.field("values").to_pylist(),
                counted.field("counts").to_pylist(),
                strict=True,
            )
        for value, count in pairs:
            if count:
                self.counts[value] = self.counts.get(value, 0) + count
        self.check_number()

    def check_number(self) -> None:
        """Refuse columns with too many different values."""
        if len(self.counts) > MOST_VALUES:
            raise DataError(
                f"Column {self.column!r} of {self.label} has more than {MOST_VALUES:,} different "
                "values. Give it bins (--bins COLUMN=0,100,1000), or coarsen it first."
            )


def sensitive_domain(table: Table, column: str, counts: Mapping[Value, int]) -> tuple[Value, ...]:
    """The ordered domain of a sensitive column: what is stated, else what occurs; missing last."""
    occurring = [value for value in counts if value is not None]
    stated = table.domains.get(column)
    if isinstance(stated, Range):
        values = _range_values(table, column, stated)
    elif isinstance(stated, Values):
        values = stated.values
    else:
        values = tuple(sorted(occurring))
    strangers = set(occurring) - set(values)
    if strangers:
        rows = sum(counts[value] for value in strangers)
        raise DataError(
            f"Column {column!r} of {table.label} has {rows:,} rows with values outside the stated "
            "domain. State them too, or drop the rows."
        )
    missing = counts.get(None, 0)
    if missing and table.missing == "refuse":
        raise DataError(
            f"Column {column!r} of {table.label} has {missing:,} rows without a sensitive value. "
            "Choose --missing value (missing counts as a value of its own) or --missing drop."
        ).repaired_by(missing="value")
    own = missing and table.missing == "value" and None not in values
    return (*values, None) if own else values


def _range_values(table: Table, column: str, stated: Range) -> tuple[Value, ...]:
    low, high = stated.low, stated.high
    if not isinstance(low, int) or not isinstance(high, int) or high - low >= MOST_VALUES:
        raise DataError(
            f"The domain stated for the sensitive column {column!r} must be a list of values or a "
            f"range of at most {MOST_VALUES:,} integers. For other numbers give bins."
        )
    return tuple(range(low, high + 1))


class SensitiveCoder:
    """Codes of one sensitive column: the index of each value in the domain.

    A missing value has the code of None where the domain holds it; what the domain lacks has −1.
    """

    def __init__(self, table: Table, column: str, values: tuple[Value, ...]) -> None:
        self.missing = len(values) - 1 if values and values[-1] is None else -1
        present = [value for value in values if value is not None]
        self._dictionary: pa.Array | None = None
        self._mapping: IntArray = np.empty(0, np.int64)
        self._lookup: IntArray | None = None
        kind = table.type_of(column)
        self._values = pa.array(present, kind)
        if pa.types.is_integer(kind) and present and max(present) - min(present) < _LOOKUP_SPAN:
            low = min(present)
            self._low = low
            # one place more, for every number outside
            self._lookup = np.full(max(present) - low + 2, -1, np.int64)
            self._lookup[[value - low for value in present]] = np.arange(len(present))

    def __call__(self, array: pa.Array) -> IntArray:
        if pa.types.is_dictionary(array.type):
            if self._dictionary is None or not self._dictionary.equals(array.dictionary):
                self._dictionary = array.dictionary
                found = pc.index_in(array.dictionary, value_set=self._values)
                known = found.fill_null(-1).to_numpy().astype(np.int64)
                self._mapping = np.append(known, self.missing)
            # the place after the last stands for null indices
            indices = (
                array.indices.fill_null(len(array.dictionary))
                if array.null_count
                else (array.indices)
            )
            codes: IntArray = self._mapping[indices.to_numpy()]
        elif self._lookup is not None:
            numbers = (array.fill_null(self._low) if array.null_count else array).to_numpy()
            # modulo 2**64, so that a number below the lowest lies far outside as well
            places = numbers.astype(np.int64).view(np.uint64) - np.uint64(self._low % (1 << 64))
            np.minimum(places, np.uint64(len(self._lookup) - 1), out=places)
            codes = self._lookup[places.view(np.int64)]
            if array.null_count:
                codes[array.is_null().to_numpy(zero_copy_only=False)] = self.missing
        else:
            array = without_nan(array)
            found = pc.index_in(array, value_set=self._values, skip_nulls=True)
            codes = found.fill_null(-1).to_numpy().astype(np.int64)
            if array.null_count:
                codes[array.is_null().to_numpy(zero_copy_only=False)] = self.missing
        return codes


def without_nan(array: pa.Array) -> pa.Array:
    """A sensitive NaN counts as missing, and minus zero as zero."""
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))
        return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    return array


def person_keys(keys: pa.Array, codes: IntArray, values: tuple[Any, ...]) -> list[bytes]:
    """What identifies a draw that belongs to a person: the key and the true value.

    The value itself stands there, not its code: codes change when the domain does.
    """
    texts = [repr(value_to_json(value)) for value in values]
    return [
        f"{key}\x00{texts[code]}".encode()
        for key, code in zip(keys.to_pylist(), codes.tolist(), strict=True)
    ]
