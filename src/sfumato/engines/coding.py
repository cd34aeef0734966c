"""Codes of sensitive values, and what ties a draw to a person."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value, value_to_json
from sfumato.draws import IntArray
from sfumato.table import Table
from sfumato.table.staging import without_nan


class SensitiveCoder:
    """Codes of one sensitive column: the index of each value in the domain.

    A missing value has the code of None where the domain holds it; what the domain lacks has −1.
    """

    def __init__(self, table: Table, column: str, values: tuple[Value, ...]) -> None:
        missing = len(values) - 1 if values and values[-1] is None else -1
        listed = [value for value in values if value is not None]
        self._values, self._missing = pa.array(listed, table.type_of(column)), missing
        self._dictionary: pa.Array | None = None
        self._codes: IntArray = np.empty(0, np.int64)

    def __call__(self, array: pa.Array) -> IntArray:
        if not pa.types.is_dictionary(array.type):
            array = without_nan(array).dictionary_encode()
        if self._dictionary is None or not self._dictionary.equals(array.dictionary):
            self._dictionary = array.dictionary
            codes = pc.index_in(array.dictionary, value_set=self._values, skip_nulls=True)
            self._codes = np.append(codes.fill_null(-1).to_numpy().astype(np.int64), self._missing)
        indices = array.indices
        if indices.null_count:  # the place after the last stands for them
            indices = indices.fill_null(len(array.dictionary))
        return np.asarray(self._codes[indices.to_numpy()])


def person_keys(keys: pa.Array, codes: IntArray, values: tuple[Any, ...]) -> list[bytes]:
    """What identifies a draw that belongs to a person: the key and the true value.

    The value itself stands there, not its code: codes change when the domain does.
    """
    texts = [repr(value_to_json(value)) for value in values]
    return [
        f"{key}\x00{texts[code]}".encode()
        for key, code in zip(keys.to_pylist(), codes.tolist(), strict=True)
    ]
