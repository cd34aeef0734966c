"""The raw table: a source of records and the role of every column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from sfumato.columns import Column, Kind, Range, Role, Values, list_some
from sfumato.errors import DataError, SfumatoError, UsageError
from sfumato.shown import html_table
from sfumato.table.bins import Bins, is_number
from sfumato.table.hierarchy import Hierarchy
from sfumato.table.quasi_k import Merged, merge_quasi
from sfumato.table.reading import Header, Reading
from sfumato.table.recode import Recodes
from sfumato.table.recodes import parse_recode
from sfumato.table.sources import Source, find_source, reading_errors
from sfumato.textform import rational

Missing = Literal["refuse", "value", "drop"]

MOST_ROWS_PER_PERSON = 250
_EXACT = 1 << 53  # up to here a float that is whole is the number that was written
_MOST_STATED = 1 << 20  # values that a range of whole numbers may list


@dataclass(frozen=True, eq=False)
class Table:
    """One row per person, or several where the column `person` says whose they are.

    Made by `read`; nothing of the data is held in memory.
    """

    source: Source
    quasi: tuple[str, ...]
    sensitive: tuple[str, ...]
    key: str | None = None
    person: str | None = None
    rows_per_person: int | None = None  # None: whatever loses least
    drop: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    domains: Mapping[str, Values | Range] = field(default_factory=dict)
    recodes: Mapping[str, Recodes] = field(default_factory=dict)
    missing: Missing = "refuse"
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    merged: Merged | None = None  # what became of the quasi columns, where they had to be merged

    @property
    def label(self) -> str:
        return self.source.label

    @property
    def declaration(self) -> tuple[tuple[str, object], ...]:
        """All that was said of the table, to tell it from another: everything but its records."""
        found = []
        for part in fields(self):
            said = getattr(self, part.name)
            if part.name != "source":
                ordered = sorted(said.items()) if isinstance(said, Mapping) else said
                found.append((part.name, ordered))
        return tuple(found)

    def type_of(self, column: str) -> pa.DataType:
        return self.source.schema.field(column).type

    def column(self, name: str, role: Role, domain: Values | Range | None) -> Column:
        """What a manifest says of a column with this domain."""
        recodes = self.recodes.get(name)
        last = recodes.steps[-1] if recodes else None
        return Column(
            name,
            role,
            self.kinds[name],
            str(self.type_of(name)),
            domain,
            last.edges if isinstance(last, Bins) else None,
            str(recodes or ""),
        )

    def batches(
        self, columns: Sequence[str], rows: int = 1 << 17, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.source.batches(columns, rows, threads)
        except (SfumatoError, KeyboardInterrupt) as error:
            # for `reading_errors`; a copy, which holds no frames and so no connections
            wrong = isinstance(error, SfumatoError)
            self.source.failure = DataError(str(error)) if wrong else KeyboardInterrupt()
            raise

    def __repr__(self) -> str:
        return (
            f"<Table {self.label}: quasi {', '.join(self.quasi) or '(none)'}; "
            f"sensitive {', '.join(self.sensitive)}>"
        )

    def _repr_html_(self) -> str:
        roles = dict.fromkeys(self.quasi, "quasi") | dict.fromkeys(self.sensitive, "sensitive")
        rows = [(name, role, str(self.type_of(name))) for name, role in roles.items()]
        return html_table(("column", "role", "type"), rows, title=self.label)


def as_table(origin: Any, roles: Mapping[str, Any]) -> Table:
    """A table as it is; anything else that `read` takes, with its roles.

    >>> as_table(pa.table({"age": [30], "ill": ["no"]}), {"quasi": "age", "sensitive": "ill"})
    <Table the given Table: quasi age; sensitive ill>
    """
    if isinstance(origin, Table):
        if roles:
            raise UsageError(
                f"The table has its roles already; {', '.join(roles)} cannot change them."
            )
        return origin
    if "sensitive" not in roles:
        raise UsageError(
            "Say what the columns are: quasi=…, sensitive=…, and key=… or drop=… where needed. "
            "'describe' without roles shows the columns there are."
        )
    return read(origin, **{"quasi": (), **roles})


def read(
    origin: Any,
    *,
    quasi: Sequence[str] | str,
    sensitive: Sequence[str] | str,
    key: str | None = None,
    person: str | None = None,
    rows_per_person: int | str | None = None,
    drop: Sequence[str] | str = (),
    numeric: Sequence[str] | str = (),
    categorical: Sequence[str] | str = (),
    domain: Mapping[str, str | Sequence[Any]] | None = None,
    bins: Mapping[str, str | Sequence[float]] | None = None,
    recode: Mapping[str, str | Recodes] | None = None,
    missing: Missing = "refuse",
    hierarchies: Mapping[str, str | Path | Hierarchy] | None = None,
    quasi_k: int | str | None = None,
    drop_rest: bool = False,
    missing_markers: Sequence[str] | str | None = None,
    trim: bool = False,
    header: Header = "guess",
    columns: Sequence[str] | str = (),
    separator: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Declare a table: where it is, and what every column is.

    `origin` is a path or glob (Parquet, CSV, Arrow IPC; workbooks, SPSS, SAS and Stata with the
    extra `files`), the address of a PostgreSQL table (`postgresql://host/database?table=NAME`), or
    a frame (pandas, Polars, pyarrow, DuckDB). Every column needs a role: undeclared columns are
    refused, so that nothing is published by accident; `drop_rest` leaves them out. What follows it
    says how a file is written, see `Reading`. `quasi_k` merges quasi values until so many people
    share every combination of them, see `table.quasi_k`.

    >>> people = pa.table({"age": [30, 41], "disease": ["flu", "HIV"]})
    >>> read(people, quasi="age", sensitive="disease")
    <Table the given Table: quasi age; sensitive disease>
    """
    wanted = _wanted(bins or {}, recode or {})
    reading = Reading.of(
        missing_markers=missing_markers,
        trim=trim,
        header=header,
        columns=columns,
        separator=separator,
        quote=quote,
        encoding=encoding,
        sheet=sheet,
        texts=tuple(column for column, recodes in wanted.items() if recodes.needs_text),
    )
    source = find_source(origin, reading)
    names = source.schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{source.label} has more than one column named {list_some([repr(n) for n in twice])}. "
            "Rename them so that every column has a name of its own."
        )
    roles = {
        "quasi": _names(quasi),
        "sensitive": _names(sensitive),
        "key": (key,) if key else (),
        "person": (person,) if person else (),
        "drop": _names(drop),
    }
    if drop_rest:
        named = {name for columns in roles.values() for name in columns}
        roles["drop"] += tuple(name for name in names if name not in named)
    _check_roles(roles, names, source.label)
    published = (*roles["quasi"], *roles["sensitive"])
    source, steps = _recoded(source, wanted, published)
    kinds = _kinds(source, published, _names(numeric), _names(categorical))
    if missing not in ("refuse", "value", "drop"):
        raise UsageError(f"'missing' must be refuse, value or drop. Got {missing!r} instead.")
    trees = {
        column: _hierarchy(column, path, roles["quasi"], kinds)
        for column, path in (hierarchies or {}).items()
    }
    merged = None
    if quasi_k is not None and roles["quasi"]:
        if person:
            raise UsageError(
                "'quasi_k' counts rows, and a person may have several. Keep one row of each, "
                "with --key instead of --person, or publish without --quasi-k."
            )
        least = rational(quasi_k, "quasi_k")
        if least.denominator != 1 or least < 2:
            raise UsageError(
                f"'quasi_k' must be a whole number, at least 2. Got {quasi_k} instead."
            )
        needed = roles["sensitive"] if missing == "drop" else ()
        given = {name: str(steps.pop(name, "")) for name in roles["quasi"]}
        own = {name: kinds.pop(name) for name in roles["quasi"]}
        source, roles["quasi"], loss = merge_quasi(
            source, own, int(least), hierarchies=trees, needed=needed
        )
        merged, trees = Merged(int(least), given, trees, loss), {}
        published = (*roles["quasi"], *roles["sensitive"])
        kinds = _kinds(source, roles["quasi"], (), ()) | kinds
    stated = {
        column: _domain(column, text, published, kinds, source)
        for column, text in (domain or {}).items()
    }
    for column, recodes in steps.items():
        if (values := recodes.steps[-1].domain) is not None:
            if column in stated:
                raise UsageError(
                    f"Column {column!r} has bins and a domain; the bins are its domain."
                )
            stated[column] = Values(values)
    return Table(
        source=source,
        quasi=roles["quasi"],
        sensitive=roles["sensitive"],
        key=key,
        person=person or None,
        rows_per_person=_rows_per_person(rows_per_person, person),
        drop=roles["drop"],
        kinds=kinds,
        domains=stated,
        recodes=steps,
        missing=missing,
        hierarchies=trees,
        merged=merged,
    )


def _rows_per_person(given: int | str | None, person: str | None) -> int | None:
    if given is None:
        return None
    if not person:
        raise UsageError(
            "How many rows of a person are published can be said where a column tells whose row it "
            "is: name it with --person."
        )
    rows = int(given) if str(given).isascii() and str(given).isdecimal() else 0
    if not 1 <= rows <= MOST_ROWS_PER_PERSON:
        raise UsageError(
            "'rows_per_person' must be a whole number from 1 to "
            f"{MOST_ROWS_PER_PERSON}. Got {given!r} instead."
        )
    return rows


def _wanted(
    bins: Mapping[str, str | Sequence[float]], recode: Mapping[str, str | Recodes]
) -> dict[str, Recodes]:
    """Every recode that was asked for; bins are one."""
    both = sorted(set(bins) & set(recode))
    if both:
        raise UsageError(f"Column {both[0]!r} has bins and a recode. Write one recode for both.")
    found = {column: Recodes((Bins.parse(edges),)) for column, edges in bins.items()}
    for column, text in recode.items():
        found[column] = parse_recode(text) if isinstance(text, str) else text
    return found


def _recoded(
    source: Source, wanted: Mapping[str, Recodes], published: tuple[str, ...]
) -> tuple[Source, dict[str, Recodes]]:
    done = {}
    for column, recodes in wanted.items():
        if column not in published:
            raise UsageError(f"A recode is given for {column!r}, which is not published.")
        source, done[column] = recodes.apply(source, column)
    return source, done


def _hierarchy(
    column: str, path: str | Path | Hierarchy, quasi: tuple[str, ...], kinds: Mapping[str, Kind]
) -> Hierarchy:
    if isinstance(path, Hierarchy):
        return path
    if column not in quasi or kinds[column] != "categorical":
        raise UsageError(f"Hierarchies are for categorical quasi columns; {column!r} is not one.")
    return Hierarchy.read(path)


def _publishable(kind: pa.DataType) -> bool:
    """Whether a Parquet file gives this type back, and SQL can compare it."""
    types = pa.types
    if types.is_decimal(kind):
        return bool(types.is_decimal128(kind))
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    )


def _names(given: Sequence[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def _check_roles(roles: Mapping[str, tuple[str, ...]], names: list[str], label: str) -> None:
    available = f"The columns are: {list_some(names, most=50)}."
    owner: dict[str, str] = {}
    for role, columns in roles.items():
        for column in columns:
            if column not in names:
                raise DataError(f"{label} has no column {column!r} (named as {role}). {available}")
            if column in owner:
                raise DataError(
                    f"Column {column!r} is named as {owner[column]} and as {role}. "
                    "Every column has one role."
                )
            owner[column] = role
    if not roles["sensitive"]:
        raise DataError(f"Name at least one sensitive column. {available}")
    undeclared = [name for name in names if name not in owner]
    if undeclared:
        raise DataError(
            f"{label} has columns without a role: {list_some(undeclared, most=50)}. Declare each "
            "as quasi, sensitive, key, person or drop; nothing is published by accident. "
            "--drop-rest drops them all."
        )
    lower: dict[str, str] = {}
    for name in (*roles["quasi"], *roles["sensitive"]):
        if name.lower() in lower:
            raise DataError(
                f"The columns {lower[name.lower()]!r} and {name!r} of {label} differ only in case, "
                "which SQL cannot tell apart. Rename one."
            )
        lower[name.lower()] = name
    for own in ("part", "bucket", *(f"part_{name}".lower() for name in roles["sensitive"])):
        if own in lower:
            raise DataError(
                f"A release uses the column name {own!r} itself. Rename that column of {label}."
            )


def _kinds(
    source: Source,
    published: tuple[str, ...],
    numeric: tuple[str, ...],
    categorical: tuple[str, ...],
) -> dict[str, Kind]:
    for column in (*numeric, *categorical):
        if column not in published:
            raise DataError(f"{column!r} is not a quasi or sensitive column, so it has no kind.")
    kinds: dict[str, Kind] = {}
    for column in published:
        kind = source.schema.field(column).type
        if pa.types.is_null(kind):
            raise DataError(
                f"Column {column!r} of {source.label} has no value in any row, so nothing says "
                "what its values would be. Drop it."
            )
        if column in source.foreign or not _publishable(kind):
            there = source.foreign.get(column, kind)
            raise DataError(
                f"Column {column!r} of {source.label} is {there}: only numbers, texts, booleans, "
                "dates and times can be published. Convert it first, or drop it."
            )
        if column in numeric and not is_number(kind):
            raise DataError(f"Column {column!r} of {source.label} is {kind}, not numeric.")
        is_numeric = column in numeric or (is_number(kind) and column not in categorical)
        kinds[column] = "numeric" if is_numeric else "categorical"
    return kinds


def _domain(
    column: str,
    given: str | Sequence[Any],
    published: tuple[str, ...],
    kinds: Mapping[str, Kind],
    source: Source,
) -> Values | Range:
    if column not in published:
        raise DataError(f"A domain is stated for {column!r}, which is not a published column.")
    kind = source.schema.field(column).type
    if isinstance(given, str) and ".." in given:
        low, _, high = given.partition("..")
        try:
            ends = [float(low), float(high)]
        except ValueError:
            raise UsageError(
                f"Cannot read the domain {given!r}: write for example 16..93."
            ) from None
        if not is_number(kind):
            raise UsageError(
                f"The domain {given!r} is a range, but column {column!r} is {kind}. "
                "List its values."
            )
        exact = all(end.is_integer() and abs(end) <= _EXACT for end in ends)
        first, last = (int(end) if exact else end for end in ends)
        if not first <= last:
            raise UsageError(f"The domain {given!r} of column {column!r} ends before it begins.")
        if kinds[column] == "categorical":
            if not exact or not pa.types.is_integer(kind):
                raise UsageError(
                    f"The domain {given!r} is a range, but column {column!r} is categorical. "
                    "List its values."
                )
            if last - first >= _MOST_STATED:
                raise UsageError(
                    f"The domain {given!r} of column {column!r} has {last - first + 1:,} values; "
                    f"state at most {_MOST_STATED:,}."
                )
            return Values(tuple(range(int(first), int(last) + 1)))
        return Range(first, last)
    parts = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    try:
        typed = pa.array(parts).cast(kind) if isinstance(given, str) else pa.array(parts, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise UsageError(
            f"The domain stated for column {column!r} does not fit its type {kind}."
        ) from None
    values = tuple(typed.to_pylist())
    if len(set(values)) != len(values):
        raise UsageError(f"The domain stated for column {column!r} names a value twice.")
    return Values(values)


__all__ = [
    "MOST_ROWS_PER_PERSON",
    "Bins",
    "Hierarchy",
    "Missing",
    "Source",
    "Table",
    "is_number",
    "read",
    "reading_errors",
]
