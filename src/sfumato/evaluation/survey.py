"""A first look at a table, before its columns have roles: types, missing values, histograms.

Three passes at most, in DuckDB under its memory limit, whatever the number of rows. Histograms
count values; single records are never shown, and a column that nearly identifies people shows no
values at all.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.columns import value_to_json
from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import DataError
from sfumato.evaluation.report_tables import ReportTable
from sfumato.scratch import scratch_database
from sfumato.table import is_number
from sfumato.table.sources import ParquetSource, Source, find_source

MOST_COLUMNS = 1000
MOST_ROWS = 1_000_000_000  # a file that states more is no table of people
MOST_PACKED = 500  # times its size that a file may unpack to
MOST_VALUES = 10_000  # a column with more different values is shown in bins, or not at all
MOST_BARS = 24
BINS = 20
FEW_VALUES = 50  # a text column with so few values may be the sensitive one
_SMALL = 1 << 30  # bytes that every file may unpack to
_LONGEST = 80  # letters of a value that are shown
_IDENTIFYING = 0.5  # different values per record from which on values tell who it is


@dataclass(frozen=True)
class Suggestion:
    """A role that a column may have: marked as a guess, never taken by itself."""

    role: str
    why: str


@dataclass(frozen=True)
class Bars:
    """A histogram: `kind` is values or bins; `others` records are in no bar."""

    kind: str
    bars: tuple[tuple[str, int], ...]
    others: int


@dataclass(frozen=True)
class SurveyedColumn:
    """What a first look tells of a column; `exact` is False where `distinct` is an estimate."""

    name: str
    type: str
    nulls: int
    distinct: int
    exact: bool
    suggestion: Suggestion | None
    histogram: Bars

    def to_json(self) -> dict[str, Any]:
        suggested = self.suggestion
        return {
            "name": self.name,
            "type": self.type,
            "nulls": self.nulls,
            "distinct": self.distinct,
            "exact": self.exact,
            "suggestion": None
            if suggested is None
            else {"role": suggested.role, "why": suggested.why},
            "histogram": {
                "kind": self.histogram.kind,
                "bars": [{"label": label, "count": count} for label, count in self.histogram.bars],
                "others": self.histogram.others,
            },
        }


@dataclass(frozen=True)
class Survey:
    """A table as it is found."""

    label: str
    rows: int
    columns: tuple[SurveyedColumn, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "rows": self.rows,
            "columns": [column.to_json() for column in self.columns],
        }

    def __str__(self) -> str:
        rows = [
            (
                column.name,
                column.type,
                column.nulls,
                f"{'' if column.exact else 'about '}{column.distinct:,}",
                "" if column.suggestion is None else f"{column.suggestion.role}?",
                "" if column.suggestion is None else column.suggestion.why,
            )
            for column in self.columns
        ]
        return ReportTable(
            "Columns",
            f"{self.label}, {self.rows:,} rows",
            ("column", "type", "missing", "different", "perhaps", "why"),
            rows,
            note="Roles are yours to give: --quasi, --sensitive, --key, --drop. Nothing is taken "
            "from the suggestions.",
        ).to_text()


def survey(origin: Any, *, progress: Progress = no_progress) -> Survey:
    """Look at every column of a table.

    >>> people = pa.table({"name": ["Ann", "Bob", "Cid"], "disease": ["flu", None, "flu"]})
    >>> for column in survey(people).columns:
    ...     print(column.name, column.nulls, column.distinct, column.suggestion.role)
    name 0 3 key
    disease 1 1 sensitive
    """
    source = find_source(origin)
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
    rows, seen = _first_pass(source, progress)
    if rows == 0:
        raise DataError(f"{source.label} has no rows.")
    bars = _second_pass(source, seen, progress)
    unique = _third_pass(source, seen, progress)
    columns = []
    for place, name in enumerate(names):
        summary, shown = seen[place], bars.get(place)
        nulls = rows - summary.present
        exact, distinct = place in unique, unique.get(place, summary.distinct)
        columns.append(
            SurveyedColumn(
                name,
                str(source.schema.field(name).type),
                nulls,
                distinct,
                exact,
                _suggested(source.schema.field(name).type, summary.present, distinct, exact),
                shown or Bars("values", (), summary.present),
            )
        )
    return Survey(source.label, rows, tuple(columns))


def _refuse_bombs(source: Source) -> None:
    """A tiny file can state any number of rows: look before unpacking."""
    if not isinstance(source, ParquetSource):
        return
    import pyarrow.parquet as pq

    found = [pq.read_metadata(path) for path in source.paths]
    rows = sum(metadata.num_rows for metadata in found)
    stored = sum(path.stat().st_size for path in source.paths)
    unpacked = sum(
        metadata.row_group(group).total_byte_size
        for metadata in found
        for group in range(metadata.num_row_groups)
    )
    if rows > MOST_ROWS or unpacked > max(MOST_PACKED * stored, _SMALL):
        raise DataError(
            f"{source.label} has {stored:,} bytes and states {rows:,} rows that unpack to "
            f"{unpacked:,}. It may be damaged, or made to fill this machine's memory: make the "
            "file again from the data."
        )


@dataclass
class _Summary:
    """What the first pass tells of a column."""

    present: int
    distinct: int
    low: float | None
    high: float | None


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
    """Whether values can be compared and counted; lists and structures cannot."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _ask(source: Source, places: Sequence[int], parts: Sequence[str], progress: Progress) -> Any:
    """One pass: aggregates over the named columns, which SQL knows as c0, c1, …"""
    import duckdb

    names = [source.schema.names[place] for place in places]
    failures: list[Exception] = []

    def renamed() -> Iterator[pa.RecordBatch]:
        read = 0
        try:
            for batch in source.batches(names, 1 << 17):
                read += batch.num_rows
                progress("looking", read, 0)
                yield pa.RecordBatch.from_arrays(
                    [_decoded(array) for array in batch.columns], names=list(aliases)
                )
        except Exception as error:
            failures.append(error)  # DuckDB would tell it in its own words
            raise

    aliases = [f"c{place}" for place in places]
    schema = pa.schema(
        [
            pa.field(alias, source.schema.field(name).type)
            for alias, name in zip(aliases, names, strict=True)
        ]
    )
    with scratch_database() as connection:
        connection.register("people", pa.RecordBatchReader.from_batches(schema, renamed()))
        try:
            return connection.execute(f"SELECT {', '.join(parts)} FROM people").fetchall()[0]
        except duckdb.Error as error:
            if failures:
                raise failures[0] from None
            raise DataError(
                f"{source.label} cannot be looked at ({type(error).__name__}). It may be damaged, "
                "or need more memory than there is."
            ) from None


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _first_pass(source: Source, progress: Progress) -> tuple[int, list[_Summary]]:
    kinds = [source.schema.field(name).type for name in source.schema.names]
    parts = ["count(*)"]
    for place, kind in enumerate(kinds):
        name = f"c{place}"
        parts.append(f"count({name})")
        parts.append(f"approx_count_distinct({name})" if _plain(kind) else "0")
        if _sql_type(kind) == "other":
            parts += ["NULL", "NULL"]
        else:
            number = _number(name, kind)
            parts += [f"min({number})", f"max({number})"]
    found = _ask(source, range(len(kinds)), parts, progress)
    cells = list(found[1:])
    return int(found[0]), [_Summary(*cells[4 * i : 4 * i + 4]) for i in range(len(kinds))]


def _second_pass(source: Source, seen: list[_Summary], progress: Progress) -> dict[int, Bars]:
    """The histograms: of values where there are few, of bins where numbers are many."""
    parts: dict[int, str] = {}
    bins: dict[int, tuple[float, float]] = {}
    for place, summary in enumerate(seen):
        kind = source.schema.field(source.schema.names[place]).type
        if not summary.present or not _plain(kind) or _identifies(summary):
            continue
        if _sql_type(kind) != "other" and summary.distinct > MOST_BARS:
            low, high = summary.low, summary.high
            if low is None or high is None or not high > low:
                continue
            bins[place] = (float(low), _width(float(low), float(high), kind))
            number = _number(f"c{place}", kind)
            parts[place] = (
                f"histogram(least(floor(({number} - ({low!r}::DOUBLE)) / "
                f"{bins[place][1]!r}), {BINS - 1})::INTEGER)"
            )
        elif summary.distinct <= MOST_VALUES:
            parts[place] = f"histogram(c{place})"
    if not parts:
        return {}
    counted = _ask(source, list(parts), list(parts.values()), progress)
    found: dict[int, Bars] = {}
    for place, counts in zip(parts, counted, strict=True):
        kind = source.schema.field(source.schema.names[place]).type
        if place in bins:
            low, width = bins[place]
            last = int((float(seen[place].high or 0.0) - low) / width)
            bars = tuple(
                (_span(low, width, number, kind), int((counts or {}).get(number, 0)))
                for number in range(min(last + 1, BINS))
            )
            others = seen[place].present - sum(count for _, count in bars)
            found[place] = Bars("bins", bars, others)
        else:
            found[place] = _value_bars(counts or {}, kind, seen[place].present)
    return found


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
        start = datetime.datetime(1970, 1, 1)
        days = [(start + datetime.timedelta(seconds=end)).isoformat(" ", "minutes") for end in ends]
        return " … ".join(day.removesuffix(" 00:00") for day in days)
    if pa.types.is_integer(kind):
        return f"{ends[0]:,.0f} … {ends[1] - 1:,.0f}" if width > 1 else f"{ends[0]:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(width))) if width < 10 else 0
    return " … ".join(f"{end:,.{min(digits, 12)}f}" for end in ends)


def _identifies(summary: _Summary) -> bool:
    return summary.distinct > FEW_VALUES and summary.distinct > _IDENTIFYING * summary.present


def _third_pass(source: Source, seen: list[_Summary], progress: Progress) -> dict[int, int]:
    """Exactly how many different values columns have: those with few, and those with so many
    that they may identify people."""
    places = [
        place
        for place, summary in enumerate(seen)
        if _plain(source.schema.field(source.schema.names[place]).type)
        and (summary.distinct <= MOST_VALUES or summary.distinct > 0.9 * summary.present)
    ]
    if not places:
        return {}
    parts = [f"count(DISTINCT c{place})" for place in places]
    counted = _ask(source, places, parts, progress)
    return {place: int(count) for place, count in zip(places, counted, strict=True)}


def _suggested(kind: pa.DataType, present: int, distinct: int, exact: bool) -> Suggestion | None:
    if not present:
        return Suggestion("drop", "Every value is missing.")
    identifier = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_binary(kind)
    if exact and distinct == present and present > 1 and identifier:
        return Suggestion("key", "No two records have the same value, so it may name a person.")
    text = pa.types.is_string(kind) or pa.types.is_boolean(kind)
    if text and exact and distinct <= FEW_VALUES:
        values = "1 different value" if distinct == 1 else f"{distinct} different values"
        return Suggestion("sensitive", f"It has only {values}, so it could be a sensitive one.")
    return None
