"""A DuckDB that can read one release and nothing else."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError, SfumatoError
from sfumato.limits import (
    current_limits,
    database_memory,
    interrupt_at_end,
    limit_behind,
    spill_allowed,
)
from sfumato.queries.dialect import Node, sql_text
from sfumato.queries.statements import RecordSums, column, named, select, settings, view_of_records
from sfumato.scratch import scratch_folder

if TYPE_CHECKING:
    import duckdb

    from sfumato.release import Release

_UNFIT = re.compile(r"argument types '(\w+)\((VARCHAR|DATE|TIMESTAMP|TIME|BOOLEAN)\)'")
_BASE = 10**9  # bytes for the questions to a narrow release
Made = TypeVar("Made")


def locked_database(
    paths: Sequence[Path], names: Mapping[str, str], threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory database with record files as the view `records`, and nothing else.

    Only these files can be opened, settings are locked, nothing can be loaded, attached or written;
    spilling goes to a private folder that goes away with the connection. `names` says what each
    column of the files, in their order, is called there.
    """
    import duckdb

    connection = duckdb.connect(":memory:")
    folder = str(scratch_folder(connection))
    memory = database_memory(len(names), _BASE)
    connection.execute(";".join(settings(paths, folder, memory, spill_allowed(), threads)))
    connection.execute(view_of_records(paths, list(names.values())))
    return connection


class Session:
    """A database that can read one release and nothing else.

    The parser lets through nothing that would ask for more: this is the second wall.
    """

    def __init__(self, release: Release, threads: int | None = None) -> None:
        import pyarrow.parquet as pq

        self.paths = [path.resolve() for path in release.records]
        self.schema = pq.read_schema(self.paths[0])
        self.names = _distinct_names(self.schema.names)
        self._connection = locked_database(self.paths, self.names, threads)
        self._remembered: dict[Hashable, Any] = {}
        self._lock = threading.RLock()

    def remembered(self, key: Hashable, made: Callable[[], Made]) -> Made:
        """What was made of the release once, for every question after it."""
        with self._lock:
            if key not in self._remembered:
                self._remembered[key] = made()
            remembered: Made = self._remembered[key]
            return remembered

    def sums(self, wanted: RecordSums) -> pa.Table:
        """Sums over the records."""
        return self.run(wanted.sql)

    def show(self, name: str, columns: Sequence[str]) -> None:
        """A view of some columns of the records, for questions that go to the database whole."""
        listed = [column("records", self.names[shown_column]) for shown_column in columns]
        self._connection.execute(f"CREATE VIEW {name} AS {sql_text(select(listed, 'records'))}")

    def record_columns(self) -> dict[str, Node]:
        """The records' columns as SQL has to name them."""
        return {
            name: exp.column(inner_name, table="records", quoted=True)
            for name, inner_name in self.names.items()
        }

    def run(self, statement: Node | str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """Run one statement that we wrote, with these tables beside the records."""
        with self._relation(statement, tables or {}) as relation:
            return relation.to_arrow_table()

    def batches(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The answer of one statement that we wrote, about so many rows at a time."""
        with self._relation(statement, {}) as relation:
            yield from relation.to_arrow_reader(rows)

    def types(
        self, expressions: Sequence[Node], domains: Mapping[str, pa.Table] | None = None
    ) -> list[str]:
        """The DuckDB types of expressions over the records and these tables; nothing is read."""
        columns = [named(expression, f"e{index}") for index, expression in enumerate(expressions)]
        statement = select(columns, "records", beside=list(domains or {}))
        with self._relation(statement, domains or {}) as relation:
            return [str(kind) for kind in relation.types]

    @contextmanager
    def _relation(self, statement: Node | str, tables: Mapping[str, pa.Table]) -> Iterator[Any]:
        import duckdb

        cursor = self._connection.cursor()
        try:
            for name, table in tables.items():
                cursor.register(name, table)
            text = statement if isinstance(statement, str) else sql_text(statement, last=True)
            interrupt_at_end(cursor)
            yield cursor.sql(text)
        except duckdb.Error as error:
            raise translated(error) from None
        finally:
            cursor.close()


def _distinct_names(names: list[str]) -> dict[str, str]:
    """A name in DuckDB for each column: its own, unless another differs only in case."""
    lower = [name.lower() for name in names]
    taken = set(lower)
    distinct_names: dict[str, str] = {}
    for index, name in enumerate(names):
        distinct = name
        while lower.count(name.lower()) > 1 and (distinct == name or distinct.lower() in taken):
            distinct = f"{distinct}_{index}"
        distinct_names[name] = distinct
        taken.add(distinct.lower())
    return distinct_names


def translated(error: duckdb.Error) -> SfumatoError:
    return limit_behind(error) or QueryError(problem(error))


def problem(error: duckdb.Error) -> str:
    """What DuckDB found wrong, without its excerpt of the SQL that we wrote."""
    text = str(error).split("\n\nLINE ")[0].split("\n\tCandidate ")[0].strip().replace("\n", " ")
    text = text.partition(" Error: ")[2] or text
    if (call := _UNFIT.search(text)) is not None:
        return (
            f"{call[1].upper()} needs a number; it was given {call[2]}. CAST it to double if its "
            "texts are numbers, or use COUNT."
        )
    return (
        f"The question cannot be computed: {text}. Check the types: texts stand in single quotes, "
        "and CAST turns one type into another."
    )


_Place = tuple[int, int | None, int | None, int | None]
_sessions: dict[_Place, tuple[weakref.ref[Release], Session]] = {}
_sessions_lock = threading.Lock()


def session_of(release: Release, threads: int | None = None) -> Session:
    """The session of an opened release, kept as long as the release object lives."""
    limits = current_limits()
    key = (id(release), threads, limits.memory, limits.spill)
    with _sessions_lock:
        entry = _sessions.get(key)
        if entry is not None and entry[0]() is release:
            return entry[1]
        session = Session(release, threads)
        _sessions[key] = (weakref.ref(release, lambda _: _forget(key)), session)
        return session


def _forget(place: _Place) -> None:
    _sessions.pop(place, None)
