"""A first look at a table, before its columns have roles: types, missing values, histograms.

The table is read once, into DuckDB under its memory limit, which then counts. Histograms count
values; single records are never shown, and a column that nearly identifies people shows no values
at all.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import value_to_json
from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import DataError
from sfumato.outlook.suggestions import Bars, SurveyedColumn, suggest
from sfumato.results import Result, ResultTable
from sfumato.scratch import scratch_database
from sfumato.table import is_number, reading_errors
from sfumato.table.reading import MARKERS, Reading
from sfumato.table.sources import ParquetSource, Source, find_source

if TYPE_CHECKING:
    import duckdb

MOST_COLUMNS = 1000
MOST_ROWS = 1_000_000_000  # a file that states more is no table of people
MOST_PACKED = 500  # times its size that a file may unpack to
MOST_VALUES = 10_000  # a column with more different values is shown in bins, or not at all
MOST_BARS = 24
BINS = 20
_SMALL = 1 << 30  # bytes that every file may unpack to
_LONGEST = 80  # letters of a value that are shown
_IDENTIFYING = 0.5  # different values per record from which on values tell who it is
_EPOCH = datetime.datetime(1970, 1, 1)
_LATEST = (datetime.datetime.max - _EPOCH).total_seconds() - 1
_MARKED = ", ".join(f"'{text}'" for text in sorted(MARKERS))


@dataclass(frozen=True, repr=False, eq=False)
class Description(Result):
    """Tables and sentences about a table of people, or about a release of one."""

    rows: int
    tables: Sequence[ResultTable]
    notes: Sequence[str]

    def parts(self) -> Sequence[ResultTable | str]:
        return [*self.tables, *self.notes]


@dataclass(frozen=True, repr=False, eq=False)
class Survey(Description):
    """A table as it is found."""

    kept = ("tables", "notes")
    label: str
    columns: tuple[SurveyedColumn, ...]


def survey(
    origin: Any, reading: Reading | None = None, *, progress: Progress = no_progress
) -> Survey:
    """Look at every column of a table.

    >>> import pyarrow as pa
    >>> ills = ["flu", None, "cold", "flu"]
    >>> people = pa.table({"name": ["Ann", "Bob", "Cid", "Dan"], "disease": ills})
    >>> for column in survey(people).columns:
    ...     print(column.name, column.nulls, column.distinct, column.role)
    name 0 4 key
    disease 1 2 sensitive
    """
    source = find_source(origin, reading)
    _refuse_bombs(source)
    names = source.schema.names
    if len(names) > MOST_COLUMNS or len(set(names)) != len(names):
        raise DataError(
            f"{source.label} has {len(names):,} columns"
            + (
                f"; at most {MOST_COLUMNS:,} can be shown. Keep those that you need."
                if len(names) > MOST_COLUMNS
                else ", some with the same name. Rename them so that each has one of its own."
            )
        )
    with scratch_database(columns=len(names), counting=True) as connection:
        rows = _load(source, connection, progress)
        if rows == 0:
            raise DataError(f"{source.label} has no rows.")
        columns = []
        for index, field in enumerate(source.schema):
            progress("looking", index, len(names))
            columns.append(_look(connection, f"c{index}", field, rows))
    suggested = zip(columns, suggest(columns), strict=True)
    looked = tuple(replace(column, suggestion=suggestion) for column, suggestion in suggested)
    lines = [
        (c.name, str(c.type), c.nulls, f"{c.distinct:,}", f"{c.role}?", c.suggestion.why)
        for c in looked
    ]
    note = (
        "Roles are yours to give: --quasi, --sensitive, --person, --key, --drop. Nothing is "
        "taken from the suggestions."
    )
    heads = ("column", "type", "missing", "different", "perhaps", "why")
    table = ResultTable("Columns", f"{source.label}, {rows:,} rows", heads, lines, note=note)
    notes = marker_notes({c.name: c.markers for c in looked})
    return Survey(rows, (table,), notes, source.label, looked)


def marker_notes(markers: Mapping[str, Sequence[str]]) -> list[str]:
    """Values, by column, that may stand for what is not known."""
    return [
        f"Column {name!r} has the value {', '.join(map(repr, marks))}. If it stands for what is "
        f"not known, say --missing-markers '{','.join(marks)}'."
        for name, marks in markers.items()
        if marks
    ]


def _refuse_bombs(source: Source) -> None:
    """A tiny file can state any number of rows: look before unpacking."""
    if not isinstance(source, ParquetSource):
        return
    import pyarrow.parquet as pq

    footers = [pq.read_metadata(path) for path in source.paths]
    rows = sum(metadata.num_rows for metadata in footers)
    stored = sum(path.stat().st_size for path in source.paths)
    unpacked = sum(
        metadata.row_group(group).total_byte_size
        for metadata in footers
        for group in range(metadata.num_row_groups)
    )
    if rows > MOST_ROWS or unpacked > max(MOST_PACKED * stored, _SMALL):
        raise DataError(
            f"{source.label} has {stored:,} bytes and states {rows:,} rows that unpack to "
            f"{unpacked:,}. It may be damaged, or made to fill this machine's memory: make the "
            "file again from the data."
        )


def _load(source: Source, connection: duckdb.DuckDBPyConnection, progress: Progress) -> int:
    """The table as `people`, its columns c0, c1, …; the number of its rows."""
    names = [f"c{index}" for index in range(len(source.schema))]
    types = [_countable(pa.nulls(0, kind)).type for kind in source.schema.types]
    rows = 0

    def renamed() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in source.batches(source.schema.names, 1 << 17):
            rows += batch.num_rows
            progress("reading", rows, 0)
            yield pa.RecordBatch.from_arrays(list(map(_countable, batch.columns)), names)

    schema = pa.schema(list(zip(names, types, strict=True)))
    with reading_errors() as watched:
        stream = pa.RecordBatchReader.from_batches(schema, watched(renamed()))
        connection.register("incoming", stream)
        connection.execute("CREATE TABLE people AS SELECT * FROM incoming")
    connection.unregister("incoming")
    return rows


def _plain(kind: pa.DataType) -> bool:
    """Whether values can be compared and counted; lists, structures and the like cannot."""
    types = pa.types
    basic = types.is_string(kind) or types.is_boolean(kind) or types.is_binary(kind)
    return bool(
        basic
        or (is_number(kind) and not types.is_decimal256(kind))
        or (types.is_temporal(kind) and not types.is_duration(kind))
    )


def _countable(array: pa.Array) -> pa.Array:
    """The values; of those that cannot be counted, only whether they are there."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp(array.type.unit))  # in UTC: DuckDB's rows need pytz else
    if _plain(array.type):
        return array
    return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))


def _look(
    connection: duckdb.DuckDBPyConnection, name: str, field: pa.Field, rows: int
) -> SurveyedColumn:
    """What DuckDB counts of a column: how many values, between which ends, and of which."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    number = _number(name, kind)
    texts = f"list(DISTINCT {name}) FILTER (lower({name}) IN ({_MARKED}))"
    texts = texts if pa.types.is_string(kind) else "NULL"
    fifths = "NULL" if number == "NULL" else f"quantile_cont({number}, [0.2, 0.4, 0.6, 0.8])"
    query = (
        f"SELECT count({name}), count(DISTINCT {name}), min({number}), max({number}), {texts}, "
        f"{fifths} FROM people"
    )
    present, distinct, low, high, texts, fifths = connection.execute(query).fetchall()[0]
    distinct = distinct if _plain(kind) else 0
    column = SurveyedColumn(
        field.name, field.type, rows, present, distinct, low, high, tuple(fifths or ()),
        Bars("values", (), present), tuple(sorted(texts or ())),
    )  # fmt: skip
    if not distinct or distinct > _IDENTIFYING * present:
        return column
    if number != "NULL" and distinct > MOST_BARS:
        if low is None or not 0 < high - low < math.inf:
            return column
        width = max(1, math.ceil((high - low + 1) / BINS)) if _whole(kind) else (high - low) / BINS
        shown = f"least(floor(({number} - ({low!r}::DOUBLE)) / {width!r}), {BINS - 1})"
        order, most = "1", BINS
    elif distinct <= MOST_VALUES:
        shown, order, most = name, "2 DESC, 1", MOST_BARS
    else:
        return column
    query = f"SELECT {shown} AS v, count(*) FROM people WHERE {name} IS NOT NULL GROUP BY 1"
    ordered = f"SELECT * FROM ({query}) WHERE v IS NOT NULL ORDER BY {order} LIMIT {most}"
    counts = connection.execute(ordered).fetchall()
    if most == BINS:
        by_bin = {int(place): count for place, count in counts}
        last = min(int((high - low) / width), BINS - 1)
        bars = [(_span(low, width, k, kind), by_bin.get(k, 0)) for k in range(last + 1)]
    else:
        counts = sorted(counts, key=lambda pair: pair[0]) if number != "NULL" else counts
        bars = [(_shown(value), count) for value, count in counts]
    others = present - sum(count for _, count in bars)
    return replace(column, bars=Bars("bins" if most == BINS else "values", tuple(bars), others))


def _number(name: str, kind: pa.DataType) -> str:
    """The expression that bins are cut by: a number, a day or an instant; NULL for others."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return f"epoch({name}::TIMESTAMP)"
    if pa.types.is_floating(kind):
        return f"CASE WHEN isfinite({name}) THEN {name}::DOUBLE END"
    return f"{name}::DOUBLE" if is_number(kind) and _plain(kind) else "NULL"


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _shown(value: Any) -> str:
    text = str(value_to_json(value))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _span(low: float, width: float, number: int, kind: pa.DataType) -> str:
    ends = [low + width * number, low + width * (number + 1)]
    if pa.types.is_temporal(kind):
        # the last bin may end after the last day that a calendar has
        days = [_EPOCH + datetime.timedelta(seconds=min(end, _LATEST)) for end in ends]
        return " … ".join(day.isoformat(" ", "minutes").removesuffix(" 00:00") for day in days)
    if _whole(kind):
        return f"{ends[0]:,.0f} … {ends[1] - 1:,.0f}" if width > 1 else f"{ends[0]:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(width))) if width < 10 else 0
    return " … ".join(f"{end:,.{min(digits, 12)}f}" for end in ends)
