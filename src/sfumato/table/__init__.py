"""The raw table: a source of records and the role of every column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import unwrap
from itertools import chain
from pathlib import Path
from typing import Any, Literal, ParamSpec, get_args

import pyarrow as pa

from sfumato.columns import Column, Kind, Range, Role, Values, bin_labels, list_some
from sfumato.errors import DataError, UsageError
from sfumato.limits import current_limits
from sfumato.pace import Progress
from sfumato.results import html_table
from sfumato.table.counted_rows import with_row_counts
from sfumato.table.declared import (
    check_roles,
    kinds_of,
    names_of,
    refuse_repeated,
    stated_domain,
)
from sfumato.table.quasi_k import QuasiMerge, merge_quasi
from sfumato.table.reading import Header, Reading
from sfumato.table.recodes import Recode, Recodes, is_number
from sfumato.table.sources import Source, find_source, reading_errors
from sfumato.table.staging import LocalStaged, no_progress, stage, staged
from sfumato.textform import Parameter

Missing = Literal["refuse", "value", "drop"]
P = ParamSpec("P")

_MISSING = Parameter("missing", options=get_args(Missing))
_QUASI_K = Parameter("quasi_k", least=2, whole=True)


@dataclass(frozen=True, eq=False)
class Table:
    """One row per person, or several where the column `person` says whose they are.

    Made by `read`, which has looked at its `rows` and keeps them as small numbers.
    """

    source: Source
    quasi: tuple[str, ...]
    sensitive: tuple[str, ...]
    key: str | None = None
    person: str | None = None
    count_rows: str | None = None  # the quasi column that says how many rows a person has
    drop: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # of which something is said, although they are not published
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    domains: Mapping[str, Values | Range] = field(default_factory=dict)
    recodes: Mapping[str, Recodes] = field(default_factory=dict)
    missing: Missing = "refuse"
    merged: QuasiMerge | None = (
        None  # what became of the quasi columns, where they had to be merged
    )
    reading: Reading = field(
        default_factory=Reading
    )  # how its file is written, as far as somebody said so
    rows: LocalStaged | None = None  # what was read, where it is read on this machine

    @property
    def label(self) -> str:
        return self.source.label

    def type_of(self, column: str) -> pa.DataType:
        return self.source.schema.field(column).type

    def column(self, name: str, role: Role, domain: Values | Range | None) -> Column:
        """What a manifest says of a column with this domain."""
        recodes = self.recodes.get(name)
        return Column(
            name,
            role,
            self.kinds[name],
            str(self.type_of(name)),
            domain,
            recodes.bins if recodes else None,
            str(recodes or ""),
        )

    def batches(
        self, columns: Sequence[str], rows: int = 1 << 17, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        for batch in self.source.batches(columns, rows, threads):
            current_limits().check()
            yield batch

    def __repr__(self) -> str:
        return (
            f"<Table {self.label}: quasi {', '.join(self.quasi) or '(none)'}; "
            f"sensitive {', '.join(self.sensitive)}>"
        )

    def _repr_html_(self) -> str:
        roles = dict.fromkeys(self.quasi, "quasi") | dict.fromkeys(self.sensitive, "sensitive")
        rows = [(name, role, str(self.type_of(name))) for name, role in roles.items()]
        return html_table(("column", "role", "type"), rows, title=self.label)


def as_table(
    origin: Any,
    roles: Mapping[str, Any],
    *,
    threads: bool = True,
    progress: Progress = no_progress,
) -> Table:
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
    if isinstance(origin, str | Path) and (Path(origin) / "manifest.json").is_file():
        raise UsageError(
            f"{str(origin)!r} is a release: its columns have their roles and its promise is made. "
            "Name a table, or 'describe', 'query', 'audit' or 'attack' the release."
        )
    if "sensitive" not in roles:
        raise UsageError(
            "Say what the columns are: --quasi NAMES, --sensitive NAMES, and --key NAME or --drop "
            "NAMES where needed. 'describe' without roles shows the columns there are."
        )
    return looked_at(unwrap(read)(origin, **{"quasi": (), **roles}), threads, progress)


def looked_at(table: Table, threads: bool = True, progress: Progress = no_progress) -> Table:
    """The table with what was read of it; a Spark DataFrame is looked at where it is."""
    if table.source.engine != "local":
        return table
    rows = staged(stage(table, threads=threads, progress=progress))
    assert isinstance(rows, LocalStaged)
    return replace(table, rows=rows)


def _reading(declare: Callable[P, Table]) -> Callable[P, Table]:
    @wraps(declare)
    def read(*given: P.args, **options: P.kwargs) -> Table:
        return looked_at(declare(*given, **options))

    return read


@_reading
def read(
    origin: Any,
    *,
    quasi: Sequence[str] | str | None = None,
    sensitive: Sequence[str] | str | None = None,
    key: str | None = None,
    person: str | None = None,
    count_rows: str | None = None,
    drop: Sequence[str] | str = (),
    numeric: Sequence[str] | str = (),
    categorical: Sequence[str] | str = (),
    domain: Mapping[str, str | Sequence[Any]] | None = None,
    bins: Mapping[str, str | Sequence[float]] | None = None,
    recode: Mapping[str, str | Recodes] | None = None,
    missing: Missing = "refuse",
    quasi_k: int | str | None = None,
    drop_rest: bool = False,
    missing_markers: Sequence[str] | str | None = None,
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
    share every combination of them, see `table.quasi_k`. `count_rows` names a quasi-identifier that
    is made: how many rows the person has of whom one is published.

    >>> people = pa.table({"age": [30, 41], "disease": ["flu", "HIV"]})
    >>> read(people, quasi="age", sensitive="disease")
    <Table the given Table: quasi age; sensitive disease>
    """
    wanted = _wanted(bins or {}, recode or {})
    reading = Reading.of(
        missing_markers=missing_markers,
        header=header,
        columns=columns,
        separator=separator,
        quote=quote,
        encoding=encoding,
        sheet=sheet,
        texts=tuple(column for column, recodes in wanted.items() if recodes.needs_text),
    )
    source = find_source(origin, reading)
    if quasi is None or sensitive is None:
        refuse_repeated(source.schema.names, source.label)
        raise UsageError(
            "Say what every column is: 'quasi' (others may know it), 'sensitive' (what is "
            f"protected), or 'drop'. {source.label} has {list_some(source.schema.names, 40)}."
        )
    made = (count_rows,) if count_rows else ()
    roles = {
        "quasi": (*names_of(quasi), *made),
        "sensitive": names_of(sensitive),
        "key": (key,) if key else (),
        "person": (person,) if person else (),
        "drop": names_of(drop),
    }
    if count_rows and not person:
        raise UsageError(
            "'count_rows' is for tables of which one row of each person is published: name the "
            "person with --person."
        )
    check_roles(roles, source.schema.names, source.label, made, drop_rest)
    published = (*roles["quasi"], *roles["sensitive"])
    unused = tuple(dict.fromkeys(
        name for name in (*wanted, *(domain or {}), *names_of(numeric), *names_of(categorical))
        if name not in published and name in source.schema.names
    ))  # fmt: skip
    for column in wanted:
        if column not in (*published, *unused):
            raise UsageError(f"A recode is given for {column!r}, which is not published.")
    table = Table(
        source,
        names_of(quasi),
        roles["sensitive"],
        key,
        person or None,
        count_rows or None,
        roles["drop"],
        unused=unused,
        missing=_MISSING.read(missing, "a table"),
        reading=reading,
    )
    stated_kinds = tuple(
        tuple(name for name in names_of(given) if name not in unused)
        for given in (numeric, categorical)
    )
    table = _coarser(table, (*table.quasi, *table.sensitive), wanted, *stated_kinds)
    if count_rows:
        counted = with_row_counts(
            staged(stage(table)), str(person), count_rows, top=count_rows not in wanted
        )
        table = replace(table, source=counted, quasi=roles["quasi"])
        table = _coarser(table, made, wanted, *stated_kinds)
    for column in chain(*stated_kinds):
        if column not in published:
            raise DataError(f"{column!r} is not a quasi or sensitive column, so it has no kind.")
    if quasi_k is not None and table.quasi:
        table = _merged(table, _QUASI_K.read(quasi_k, "a table"))
    stated = {
        column: stated_domain(column, text, table)
        for column, text in (domain or {}).items()
        if column not in unused
    }
    for column, recodes in table.recodes.items():
        if recodes.bins is not None:
            if column in stated:
                raise UsageError(
                    f"Column {column!r} has bins and a domain; the bins are its domain."
                )
            stated[column] = Values(bin_labels(recodes.bins))
    return replace(table, domains=stated)


def _coarser(
    table: Table,
    columns: tuple[str, ...],
    wanted: Mapping[str, Recodes],
    numeric: tuple[str, ...],
    categorical: tuple[str, ...],
) -> Table:
    """The table with these columns as they are published: their recodes and kinds."""
    source, recodes = table.source, dict(table.recodes)
    for column in (name for name in wanted if name in columns):
        needed = table.sensitive if table.missing == "drop" else ()
        source, recodes[column] = wanted[column].apply(source, column, table.person, needed)
    kinds = {**table.kinds, **kinds_of(source, columns, numeric, categorical)}
    return replace(table, source=source, kinds=kinds, recodes=recodes)


def _merged(table: Table, least: int) -> Table:
    """The table with quasi values merged until so many people share every combination."""
    if table.source.engine != "local":
        raise UsageError(
            "'quasi_k' works on tables that are read on this machine. Publish with --engine local."
        )
    kinds = {name: table.kinds[name] for name in table.quasi}
    rows = staged(stage(table))
    source, quasi, loss = merge_quasi(rows, kinds, least, table.person)
    recodes = {name: str(table.recodes.get(name, "")) for name in table.quasi}
    return replace(
        table,
        source=source,
        quasi=quasi,
        kinds=kinds_of(source, quasi, (), ()) | {n: table.kinds[n] for n in table.sensitive},
        recodes={name: table.recodes[name] for name in table.recodes if name in table.sensitive},
        merged=QuasiMerge(least, recodes, loss),
    )


def _wanted(
    bins: Mapping[str, str | Sequence[float]], recode: Mapping[str, str | Recodes]
) -> dict[str, Recodes]:
    """Every recode that was asked for; bins are one."""
    both = sorted(set(bins) & set(recode))
    if both:
        raise UsageError(f"Column {both[0]!r} has bins and a recode. Write one recode for both.")
    wanted = {column: Recodes((Recode.bins(edges),)) for column, edges in bins.items()}
    return wanted | {
        column: Recodes.of(text) if isinstance(text, str) else text
        for column, text in recode.items()
    }


__all__ = [
    "Missing",
    "Table",
    "is_number",
    "read",
    "reading_errors",
]
