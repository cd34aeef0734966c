"""The types in which values travel through the program, whatever they came as."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import DataError

_EPOCH = datetime.date(1970, 1, 1)
_FIRST_DAY = (datetime.date.min - _EPOCH).days
_LAST_DAY = (datetime.date.max - _EPOCH).days


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
    """The named columns in plain types and spellings; text may stay coded, with int32 codes."""
    arrays = [usual_texts(_normal(batch.column(name))) for name in columns]
    for name, array in zip(columns, arrays, strict=True):
        _require_calendar(name, array)
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _require_calendar(name: str, array: pa.Array) -> None:
    """Dates that no calendar of this program has are refused, wherever they come from."""
    if not pa.types.is_date(array.type) and not pa.types.is_timestamp(array.type):
        return
    is_date = pa.types.is_date(array.type)
    per_day = 1 if is_date else 86_400 * {"s": 1, "ms": 10**3, "us": 10**6}[array.type.unit]
    ends = pc.min_max(array.view(pa.int32() if is_date else pa.int64())).as_py()
    low, high = ends["min"], ends["max"]
    if low is not None and not (_FIRST_DAY * per_day <= low and high < (_LAST_DAY + 1) * per_day):
        raise DataError(
            f"Column {name!r} has dates before the year 1 or after the year 9999. Repair them, for "
            "example as missing values, or drop the column."
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
    array = array if array.type == plain else array.cast(plain)
    return _usual_numbers(array) if pa.types.is_floating(plain) else array


def usual_texts(array: pa.Array) -> pa.Array:
    """Texts without blanks around them and in one Unicode form: two that look alike would count as
    different values in a bucket.

    >>> usual_texts(pa.array([" HIV", "HIV", "cafe\u0301"])).to_pylist()
    ['HIV', 'HIV', 'café']
    """
    coded = pa.types.is_dictionary(array.type)
    texts = array.dictionary if coded else array
    if not pa.types.is_string(texts.type):
        return array
    usual = pc.utf8_trim_whitespace(pc.utf8_normalize(texts, form="NFC"))
    if not coded:
        return usual
    return array if usual.equals(texts) else usual.take(array.indices).dictionary_encode()


def _usual_numbers(array: pa.Array) -> pa.Array:
    """Zero without a sign and one "not a number": other spellings of them could mark people.

    >>> _usual_numbers(pa.array([-0.0, 1.5, None]))[0].as_py().hex()
    '0x0.0p+0'
    """
    array = pc.add(array, pa.scalar(0.0, array.type))
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
