"""The values of a release: from JSON to their own type, and held against the stated domains."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Range, Values, value_to_json
from sfumato.draws import IntArray


def typed_values(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """Values as they stand in JSON, back in their own type; those that have it already, too.

    >>> typed_values(("2026-11-15", None), pa.date32()).to_pylist()
    [datetime.date(2026, 11, 15), None]
    """
    texts = [None if v is None else v if isinstance(v, str) else str(v) for v in values]
    if pa.types.is_boolean(kind):
        return pa.array(values, kind)
    if pa.types.is_binary(kind):
        return pa.array([bytes.fromhex(v) if isinstance(v, str) else v for v in values], kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array([float(v) if isinstance(v, str) else v for v in values], kind)
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        read = (time if pa.types.is_time(kind) else datetime).fromisoformat
        return pa.array([None if text is None else read(text) for text in texts], kind)
    return pa.array(texts, pa.string()).cast(kind)


def codes_of(values: pa.Array | pa.ChunkedArray, domain: pa.Array) -> IntArray:
    """The place of every value in the domain, −1 for a value outside it."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    codes = pc.index_in(values, value_set=domain.cast(values.type))
    return np.asarray(pc.fill_null(codes, -1).to_numpy(), np.int64)


def in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants as a release tells them: DuckDB gives them in the zone of this machine."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column


def count_strangers(
    connection: Any, source: str, column: str, domain: Values | Range | None
) -> int:
    """How many values of a column lie outside its domain; different ones, where it is a list.

    `source` is a table of the DuckDB behind `connection`, `column` a name inside it.
    """
    if isinstance(domain, Values):
        distinct = connection.sql(f"SELECT DISTINCT {column} AS v FROM {source}").to_arrow_table()
        values = {value_to_json(v) for v in in_utc(distinct.column("v")).to_pylist()}
        return len(values - set(domain.values))
    if domain is None or domain.low is None:
        return 0
    row = connection.execute(
        f"SELECT count(*) FILTER (WHERE NOT isnan({column}::DOUBLE) AND "
        f"({column} < ? OR {column} > ?)) FROM {source}",
        [domain.low, domain.high],
    ).fetchall()[0]
    return int(row[0])
