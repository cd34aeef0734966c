"""Factorize and count: the classes of people who look alike, and the values each class holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.table.sources import Source

SmallCodes = npt.NDArray[np.signedinteger[Any]]

_BATCH_ROWS = 1 << 17
_RADIX_LIMIT = 1 << 62


@dataclass(frozen=True, eq=False)
class Factor:
    """A column as codes 0 … len(values)−1; every value occurs, and missing is a value."""

    codes: IntArray
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Records by class and value of one sensitive column: the non-empty cells, class by class.

    `classes`, `codes` and `counts` run over the cells, sorted by class, then by value; `sizes` and
    `rows` (the first row of each class, from 0) over the classes; `totals` over the values.
    """

    column: str
    values: tuple[Value, ...]
    ordered: bool  # whether the order of the values means something
    classes: IntArray
    codes: IntArray
    counts: IntArray
    sizes: IntArray
    rows: IntArray
    totals: IntArray

    @property
    def starts(self) -> IntArray:
        """Where each class begins among the cells."""
        return np.flatnonzero(np.r_[True, self.classes[1:] != self.classes[:-1]])


def read_columns(source: Source, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """The named columns as dictionary codes, in one pass over the source."""
    pieces: dict[str, list[pa.Array]] = {name: [] for name in names}
    for batch in source.batches(tuple(names), _BATCH_ROWS):
        for name in names:
            pieces[name].append(_encoded(batch.column(name)))
    return {
        name: pa.chunked_array(
            chunks, pa.dictionary(pa.int32(), source.schema.field(name).type)
        ).unify_dictionaries()
        for name, chunks in pieces.items()
    }


def _encoded(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        if len(pc.unique(array.dictionary)) == len(array.dictionary):
            return array
        array = array.dictionary_decode()  # one value under two codes
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))  # minus zero is zero
    return array.dictionary_encode()


def factor(column: pa.ChunkedArray, order: Sequence[Value] | None = None) -> Factor:
    """Codes in the order of the values, missing last; values that do not occur are left out.

    >>> coded = factor(pa.chunked_array([["b", None, "a"]]).dictionary_encode())
    >>> coded.codes.tolist(), coded.values
    ([1, 2, 0], ('a', 'b', None))
    """
    raw, values = raw_codes(column)
    # not a number says no more than missing does: counted as two values they would look diverse
    absent = [v is None or (isinstance(v, float) and v != v) for v in values]
    index_of = {value: number for number, value in enumerate(order or ())}
    present = [k for k, gone in enumerate(absent) if not gone]
    if order is None:
        present.sort(key=lambda k: values[k])
    else:
        present.sort(key=lambda k: index_of[values[k]])
    occurs = np.bincount(raw, minlength=len(values)) > 0
    present = [k for k in present if occurs[k]]
    mapping = np.full(len(values), len(present), np.int64)
    mapping[present] = np.arange(len(present))
    lacking = any(gone and occurs[k] for k, gone in enumerate(absent))
    kept = tuple(values[k] for k in present)
    return Factor(mapping[raw], (*kept, None) if lacking else kept)


def raw_codes(column: pa.ChunkedArray) -> tuple[SmallCodes, list[Any]]:
    """Codes into the list of values, which has None at its end; unordered."""
    chunks = column.chunks
    values = chunks[0].dictionary.to_pylist() if chunks else []
    codes = [
        chunk.indices.fill_null(len(values)).to_numpy(zero_copy_only=False) for chunk in chunks
    ]
    whole = np.concatenate(codes) if codes else np.empty(0, np.int32)
    return whole, [*values, None]


def class_ids(columns: Sequence[tuple[SmallCodes, int]], rows: int) -> tuple[IntArray, IntArray]:
    """The class of every row and the first row of every class.

    `columns` are codes with the number of their values: one mixed-radix key, made dense where it
    would overflow. Without columns all rows are one class.

    >>> ids, first = class_ids([(np.array([1, 0, 1]), 2), (np.array([0, 0, 0]), 1)], 3)
    >>> ids.tolist(), first.tolist()
    ([1, 0, 1], [1, 0])
    """
    key, radix = np.zeros(rows, np.int64), 1
    for codes, values in columns:
        if radix * values >= _RADIX_LIMIT:
            _, key = np.unique(key, return_inverse=True)
            radix = int(key.max()) + 1
        key *= values
        key += codes
        radix *= values
    order = np.argsort(key, kind="stable")
    ranked = key[order]
    new = np.r_[True, ranked[1:] != ranked[:-1]] if rows else np.empty(0, np.bool_)
    ids = np.empty(rows, np.int64)
    ids[order] = np.cumsum(new) - 1
    return ids, order[new]


def count_classes(
    column: str, coded: Factor, ordered: bool, ids: IntArray, first: IntArray
) -> ClassCounts:
    """Count the records of every (class, value)."""
    values = len(coded.values)
    keys, counts = np.unique(ids * values + coded.codes, return_counts=True)
    classes, codes = np.divmod(keys, values)
    return ClassCounts(
        column=column,
        values=coded.values,
        ordered=ordered,
        classes=classes,
        codes=codes,
        counts=counts,
        sizes=np.bincount(ids, minlength=len(first)),
        rows=first,
        totals=np.bincount(coded.codes, minlength=values),
    )
