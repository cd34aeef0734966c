"""The types in which values travel through the program, whatever they came as."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values travel and are published: one that a Parquet file gives back.

    Dictionaries count as their values; there is one text type instead of three, one type for
    bytes, microseconds at most, and instants are told in UTC.

    >>> plain_type(pa.dictionary(pa.int32(), pa.large_string()))
    DataType(string)
    >>> plain_type(pa.timestamp("s", "Europe/Berlin"))
    TimestampType(timestamp[ms, tz=UTC])
    """
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_date64(kind):
        return pa.date32()
    if types.is_timestamp(kind):
        unit = {"s": "ms", "ns": "us"}.get(kind.unit, kind.unit)
        return pa.timestamp(unit, None if kind.tz is None else "UTC")
    if types.is_time(kind):
        return pa.time32("ms") if types.is_time32(kind) else pa.time64("us")
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def normalize(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The named columns in their plain types; text may stay coded, with int32 codes."""
    return pa.RecordBatch.from_arrays(
        [_normal(batch.column(name)) for name in columns], names=list(columns)
    )


def _normal(array: pa.Array) -> pa.Array:
    plain = plain_type(array.type)
    if pa.types.is_dictionary(array.type):
        # a null among the values, or values that are no text, would need care everywhere else
        if plain != pa.string() or array.dictionary.null_count:
            return array.dictionary_decode().cast(plain)
        if array.type.value_type != plain or array.type.index_type != pa.int32():
            return pa.DictionaryArray.from_arrays(
                array.indices.cast(pa.int32()), array.dictionary.cast(plain)
            )
        return array
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    return array if array.type == plain else array.cast(plain)
