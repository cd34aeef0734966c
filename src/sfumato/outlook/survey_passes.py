"""The passes over a table behind its survey, in DuckDB under its memory limit.

The first counts, the second makes histograms of what the first found, and counts different values
exactly where that matters.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import value_to_json
from sfumato.engines.counting import Progress
from sfumato.errors import DataError
from sfumato.limits import limit_behind
from sfumato.scratch import scratch_database
from sfumato.table import is_number
from sfumato.table.reading import MARKERS
from sfumato.table.sources import ParquetSource, Source

MOST_ROWS = 1_000_000_000  # a file that states more is no table of people
MOST_PACKED = 500  # times its size that a file may unpack to
MOST_VALUES = 10_000  # a column with more different values is shown in bins, or not at all
MOST_BARS = 24
BINS = 20
_SMALL = 1 << 30  # bytes that every file may unpack to
_TOGETHER = 32  # columns that are looked at in one reading of the table
_LONGEST = 80  # letters of a value that are shown
_IDENTIFYING = 0.5  # different values per record from which on values tell who it is
_EPOCH = datetime.datetime(1970, 1, 1)
_MARKED = ", ".join(f"'{text}'" for text in sorted(MARKERS))


@dataclass(frozen=True)
class Bars:
    """A histogram: `kind` is values or bins; `others` records are in no bar."""

    kind: str
    bars: tuple[tuple[str, int], ...]
    others: int


def refuse_bombs(source: Source) -> None:
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


@dataclass
class Summary:
    """What the first pass tells of a column."""

    present: int
    distinct: int
    low: float | None
    high: float | None
    markers: list[str] | None  # texts that may stand for what is not known


def _sql_type(kind: pa.DataType) -> str:
    """How a column is cut into bins: by its number, by its day or instant, or not at all."""
    if is_number(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "instant"
    return "other"


def _number(name: str, kind: pa.DataType) -> str:
    """The expression that bins are cut by."""
    if _sql_type(kind) == "instant":
        return f"epoch({name}::TIMESTAMP)"
    if pa.types.is_floating(kind):
        return f"CASE WHEN isfinite({name}) THEN {name}::DOUBLE END"
    return f"{name}::DOUBLE"


def _plain(kind: pa.DataType) -> bool:
    """Whether values can be compared and counted; lists, structures and the like cannot."""
    types = pa.types
    return bool(
        (is_number(kind) and not types.is_decimal256(kind))
        or types.is_string(kind)
        or types.is_boolean(kind)
        or types.is_binary(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    )


Asked = Mapping[int, Sequence[str]]  # by place of a column: what to compute of it


def _ask(source: Source, asked: Asked, progress: Progress) -> tuple[int, dict[int, list[Any]]]:
    """The number of rows, and what was asked of each column; SQL knows them as c0, c1, …

    A database keeps something for every value of every column at once, so a wide table is read
    several times, some columns each time.
    """
    rows, answers = 0, {}
    places = list(asked)
    for start in range(0, max(len(places), 1), _TOGETHER):
        some = places[start : start + _TOGETHER]
        rows, *cells = _one_pass(source, some, [sql for p in some for sql in asked[p]], progress)
        for index in some:
            answers[index] = [cells.pop(0) for _ in asked[index]]
    return int(rows), answers


def _one_pass(
    source: Source, places: Sequence[int], parts: Sequence[str], progress: Progress
) -> tuple[Any, ...]:
    import duckdb

    names = [source.schema.names[index] for index in places]
    failures: list[Exception] = []

    def renamed() -> Iterator[pa.RecordBatch]:
        read = 0
        try:
            for batch in source.batches(names, 1 << 17):
                read += batch.num_rows
                progress("looking", read, 0)
                yield pa.RecordBatch.from_arrays(
                    [_countable(array) for array in batch.columns], names=aliases
                )
        except Exception as error:
            failures.append(error)  # DuckDB would tell it in its own words
            raise

    aliases = [f"c{index}" for index in places]
    kinds = [source.schema.field(name).type for name in names]
    types = [_countable(pa.nulls(0, kind)).type for kind in kinds]
    schema = pa.schema(list(zip(aliases, types, strict=True)))
    with scratch_database(columns=len(aliases)) as connection:
        connection.register("people", pa.RecordBatchReader.from_batches(schema, renamed()))
        try:
            query = f"SELECT {', '.join(('count(*)', *parts))} FROM people"
            row: tuple[Any, ...] = connection.execute(query).fetchall()[0]
            return row
        except duckdb.Error as error:
            if failures:
                raise failures[0] from None
            reached = limit_behind(error)
            if reached is not None:
                raise reached from None
            raise DataError(
                f"{source.label} cannot be looked at ({type(error).__name__}). It may be damaged, "
                "or need more memory than there is."
            ) from None


def _countable(array: pa.Array) -> pa.Array:
    """The values; of those that cannot be counted, only whether they are there."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp(array.type.unit))  # in UTC: DuckDB's rows need pytz else
    if _plain(array.type):
        return array
    return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))


def first_pass(source: Source, progress: Progress) -> tuple[int, list[Summary]]:
    kinds = [source.schema.field(name).type for name in source.schema.names]
    asked: dict[int, list[str]] = {}
    for index, kind in enumerate(kinds):
        name = f"c{index}"
        parts = asked[index] = [f"count({name})"]
        parts.append(f"approx_count_distinct({name})" if _plain(kind) else "0")
        if _sql_type(kind) == "other" or not _plain(kind):
            parts += ["NULL", "NULL"]
        else:
            number = _number(name, kind)
            parts += [f"min({number})", f"max({number})"]
        marked = f"list(DISTINCT trim({name})) FILTER (lower(trim({name})) IN ({_MARKED}))"
        parts.append(marked if pa.types.is_string(_values_of(kind)) else "NULL")
    rows, answers = _ask(source, asked, progress)
    return rows, [Summary(*answers[index]) for index in range(len(kinds))]


def _values_of(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def second_pass(
    source: Source, seen: list[Summary], progress: Progress
) -> tuple[dict[int, Bars], dict[int, int]]:
    """The histograms: of values where there are few, of bins where numbers are many; and how many
    different values columns have, exactly, where these are few or so many that they may identify
    people."""
    asked: dict[int, list[str]] = {}
    bins: dict[int, tuple[float, float]] = {}
    for index, summary in enumerate(seen):
        kind = source.schema.field(source.schema.names[index]).type
        if not _plain(kind):
            continue
        few = summary.distinct <= MOST_VALUES
        counted = f"count(DISTINCT c{index})"
        parts = ["NULL", counted if few or summary.distinct > 0.9 * summary.present else "NULL"]
        if not summary.present or _identifies(summary):
            pass
        elif _sql_type(kind) != "other" and summary.distinct > MOST_BARS:
            low, high = summary.low, summary.high
            if low is not None and high is not None and 0 < high - low < math.inf:
                bins[index] = (float(low), _width(float(low), float(high), kind))
                number = _number(f"c{index}", kind)
                parts[0] = (
                    f"histogram(least(floor(({number} - ({low!r}::DOUBLE)) / "
                    f"{bins[index][1]!r}), {BINS - 1})::INTEGER)"
                )
        elif few:
            parts = [f"histogram(c{index})", "NULL"]  # which has every value
        if parts != ["NULL", "NULL"]:
            asked[index] = parts
    histograms: dict[int, Bars] = {}
    unique: dict[int, int] = {}
    _, answers = _ask(source, asked, progress) if asked else (0, {})
    for index, (counts, different) in answers.items():
        kind = source.schema.field(source.schema.names[index]).type
        if index in bins:
            low, width = bins[index]
            last = int((float(seen[index].high or 0.0) - low) / width)
            bars = tuple(
                (_span(low, width, number, kind), int((counts or {}).get(number, 0)))
                for number in range(min(last + 1, BINS))
            )
            others = seen[index].present - sum(count for _, count in bars)
            histograms[index] = Bars("bins", bars, others)
        elif counts is not None:
            histograms[index] = _value_bars(counts, kind, seen[index].present)
            different = len(counts)
        if different is not None:
            unique[index] = int(different)
    return histograms, unique


def _width(low: float, high: float, kind: pa.DataType) -> float:
    """Whole numbers are cut between whole numbers."""
    if pa.types.is_integer(kind):
        return float(max(1, math.ceil((high - low + 1) / BINS)))
    return (high - low) / BINS


def _value_bars(counts: dict[Any, int], kind: pa.DataType, present: int) -> Bars:
    """The commonest values; numbers and dates in their order."""
    common = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:MOST_BARS]
    if _sql_type(kind) != "other":
        common.sort(key=lambda pair: pair[0])
    bars = tuple((_shown(value), int(count)) for value, count in common)
    return Bars("values", bars, present - sum(count for _, count in bars))


def _shown(value: Any) -> str:
    text = str(value_to_json(value))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _span(low: float, width: float, number: int, kind: pa.DataType) -> str:
    ends = [low + width * number, low + width * (number + 1)]
    if _sql_type(kind) == "instant":
        # the last bin may end after the last day that a calendar has
        latest = (datetime.datetime.max - _EPOCH).total_seconds() - 1
        days = [_EPOCH + datetime.timedelta(seconds=min(end, latest)) for end in ends]
        return " … ".join(day.isoformat(" ", "minutes").removesuffix(" 00:00") for day in days)
    if pa.types.is_integer(kind):
        return f"{ends[0]:,.0f} … {ends[1] - 1:,.0f}" if width > 1 else f"{ends[0]:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(width))) if width < 10 else 0
    return " … ".join(f"{end:,.{min(digits, 12)}f}" for end in ends)


def _identifies(summary: Summary) -> bool:
    return summary.distinct > _IDENTIFYING * summary.present
