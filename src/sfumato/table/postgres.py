"""Tables and queries of a PostgreSQL server, streamed through ADBC's COPY in bounded memory.

All passes over a table run in one read-only REPEATABLE READ transaction, so they see the same rows,
and the same `now()`. One connection carries one COPY at a time (two would mix their rows without a
word); a pass that begins while another is unfinished gets a connection of its own on the same
snapshot. Rows come in the same order in every pass: nothing is scanned in parallel or from where
another scan happens to be, tables are read from front to back, and queries, whose plan may depend
on the columns asked for, are asked the same question each time.

What libpq says when a connection fails may quote the password, so connection errors are told in our
own words only, and so is everything but complaints about the SQL itself.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from sfumato.errors import DataError, UsageError
from sfumato.table.plain import normalize, plain_type
from sfumato.table.postgres_address import Address
from sfumato.table.postgres_columns import column_of, quoted
from sfumato.table.sources import Source

T = TypeVar("T")

_SETTINGS = (
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL idle_in_transaction_session_timeout = 0",  # planning happens between two passes
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
)
_FRONT_TO_BACK = (  # an index would give its own order, to some passes and not to others
    "SET LOCAL enable_indexscan = off",
    "SET LOCAL enable_indexonlyscan = off",
    "SET LOCAL enable_bitmapscan = off",
)
_STORED = ("r", "p", "m")  # pg_class.relkind of tables, partitioned ones, materialized views

# what libpq says, in lower case, and what we say instead
_CONNECTING = (
    ("password", "the server refused the user name or the password"),
    ("authentication", "the server refused the user name or the password"),
    ("no pg_hba.conf entry", "the server lets nobody in from here (pg_hba.conf)"),
    ("role ", "the server does not know the user name"),
    ("database ", "the server has no such database, or does not let this user in"),
    ("translate host name", "the host name is unknown"),
    ("connection refused", "nothing answers there"),
    ("timeout", "no answer came in time"),
    ("timed out", "no answer came in time"),
    ("ssl", "no encrypted connection could be made (sslmode)"),
    ("certificate", "no encrypted connection could be made (sslmode)"),
    ("too many", "the server has too many connections"),
    ("connection slots", "the server has too many connections"),
    ("starting up", "the server is starting up"),
    ("shutting down", "the server is shutting down"),
    ("uri", "libpq does not understand the address or a parameter of it"),
    ("connection option", "libpq does not understand a parameter of the address"),
    ("invalid", "libpq does not understand the address or a parameter of it"),
)
_READING = (
    ("closed the connection", "the server closed the connection"),
    ("terminating connection", "the server closed the connection"),
    ("no connection to the server", "the server closed the connection"),
    ("could not receive data", "the connection broke"),
    ("canceling statement", "the server cancelled it (a timeout, or a conflict on a standby)"),
    ("read-only transaction", "it tries to write, and only reading is allowed"),
    ("division by zero", "a value cannot be computed or converted as it asks"),
    ("invalid input syntax", "a value cannot be computed or converted as it asks"),
    ("out of range", "a value cannot be computed or converted as it asks"),
)
_STATES = (  # SQLSTATE classes
    ("25006", "it tries to write, and only reading is allowed"),
    ("22", "a value cannot be computed or converted as it asks"),
    ("53", "the server lacks memory, disk space or connections for it"),
    ("57014", "the server cancelled it (a timeout?)"),
    ("57", "the server closed the connection"),
    ("08", "the server closed the connection"),
)


class PostgresSource(Source):
    """A table or a query of a PostgreSQL server, as it was when the source was made."""

    def __init__(self, address: Address) -> None:
        self.address, self.label = address, address.label
        self._lock = threading.Lock()
        self._busy = False
        self._session = session = _Session(address)
        self._close = weakref.finalize(self, session.close)
        self.stored = address.relation is not None and self._is_stored(address.relation)
        if self.stored:
            for setting in _FRONT_TO_BACK:
                session.run(setting)
        self._snapshot = str(session.rows("SELECT pg_export_snapshot()")[0][0])
        relation = ".".join(quoted(part) for part in address.relation or ())
        self._from = relation or f"(\n{address.query}\n) AS q"
        # this also locks the table against ALTER and VACUUM FULL until the transaction ends
        described = session.described(f"SELECT * FROM {self._from}")
        self.columns = [column_of(field) for field in described]
        self.schema = pa.schema([pa.field(c.name, plain_type(c.type)) for c in self.columns])
        self.foreign = {c.name: c.foreign for c in self.columns if c.foreign is not None}
        ascii_only = session.rows("SELECT current_setting('server_encoding')")[0][0]
        self._unchecked = ascii_only == "SQL_ASCII"  # such a server passes any bytes as text

    def close(self) -> None:
        """End the transaction; the table can be altered again."""
        self._close()

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        for name in columns:
            if name in self.foreign:
                raise DataError(
                    f"Column {name!r} of {self.label} is {self.foreign[name]}, which sfumato does "
                    "not read. Convert it in a query=SELECT …, or drop the column."
                )
        asked = [c for c in self.columns if c.name in columns or not self.stored]
        readable = [column for column in asked if column.foreign is None]
        named = ", ".join(column.sql for column in readable)
        with self._lock:
            is_nested, self._busy = self._busy, True
        session = None
        try:
            session = (
                _Session(self.address, self._snapshot, self.stored) if is_nested else self._session
            )
            for batch in session.stream(f"SELECT {named} FROM {self._from}"):
                if self._unchecked:
                    self._check_texts(batch)
                arrived = pa.RecordBatch.from_arrays(
                    [c.arrived(batch.column(c.name), self.label) for c in readable],
                    names=[c.name for c in readable],
                )
                for start in range(0, arrived.num_rows, rows):
                    yield normalize(arrived.slice(start, rows), columns)
        finally:
            if not is_nested:
                self._busy = False
            elif session is not None:
                session.close()

    def _is_stored(self, relation: tuple[str, ...]) -> bool:
        """Whether the table keeps rows itself; raises where there is no such table."""
        seen = "pg_table_is_visible(c.oid)"
        if len(relation) == 2:
            seen = f"n.nspname = {_literal(relation[0])}"
        found = self._session.rows(
            "SELECT c.relkind::text FROM pg_class AS c JOIN pg_namespace AS n "
            f"ON n.oid = c.relnamespace WHERE c.relname = {_literal(relation[-1])} AND {seen} "
            "AND c.relkind IN ('r', 'p', 'm', 'v', 'f')"
        )
        if not found:
            raise DataError(
                f"{self.address.place} has no table {'.'.join(relation)!r} that this user can see. "
                "Names are taken exactly as written, capital letters too; write "
                "table=SCHEMA.NAME where it is in another schema."
            )
        return found[0][0] in _STORED

    def _check_texts(self, batch: pa.RecordBatch) -> None:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                raise DataError(
                    f"Column {name!r} of {self.label} holds texts that are not UTF-8. Convert "
                    "them in a query=SELECT …."
                ) from None


class _Session:
    """One connection in its read-only transaction; every error in words of our own."""

    def __init__(self, address: Address, snapshot: str | None = None, stored: bool = False) -> None:
        self._address = address
        driver = _driver()
        self._connection: Any = self._try(lambda: driver.connect(address.uri), self._unconnected)
        try:
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if snapshot is not None:
                self.run(f"SET TRANSACTION SNAPSHOT {_literal(snapshot)}")
            for setting in (*_SETTINGS, *(_FRONT_TO_BACK if stored else ())):
                self.run(setting)
        except DataError:
            self.close()
            raise

    def run(self, sql: str) -> None:
        def execute() -> None:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)

        self._try(execute, self._refused)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        def fetch() -> list[tuple[Any, ...]]:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())

        return self._try(fetch, self._refused)

    def described(self, sql: str) -> pa.Schema:
        """The columns of a query, which is not run."""

        def describe() -> pa.Schema:
            with self._connection.cursor() as cursor:
                return cursor.adbc_execute_schema(sql)

        return self._try(describe, self._refused)

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query in batches of some megabytes; what is not read is thrown away."""
        cursor = self._try(self._connection.cursor, self._refused)
        reader = None
        try:
            self._try(lambda: cursor.execute(sql), self._refused)
            reader = self._try(cursor.fetch_record_batch, self._refused)
            while (batch := self._try(lambda: _next(reader), self._broken)) is not None:
                yield batch
        finally:
            if reader is not None:
                with suppress(Exception):
                    reader.close()
            with suppress(Exception):
                cursor.close()

    def close(self) -> None:
        with suppress(Exception):  # the server may be gone, or a pass left unfinished
            self._connection.close()

    def _try(self, action: Callable[[], T], explain: Callable[[Exception], DataError]) -> T:
        """Run something of the driver's.

        Its error is dropped before ours is raised, so that no chain of causes leads to its text.
        """
        import adbc_driver_manager

        try:
            return action()
        except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
            refusal = explain(error)
        raise refusal

    def _unconnected(self, error: Exception) -> DataError:
        reason = _first(_CONNECTING, str(error).lower()) or "the connection failed"
        return DataError(
            f"Cannot connect to {self._address.place}: {reason}. Check the address; a password "
            "can stand in PGPASSWORD or ~/.pgpass."
        )

    def _refused(self, error: Exception) -> DataError:
        state = str(getattr(error, "sqlstate", None) or "")
        reason = next((why for start, why in _STATES if state.startswith(start)), None)
        if reason is None and state[:2] in ("42", "3F", "0A"):  # about the SQL, never about rows
            reason = _complaint(str(error))
        if reason is None:
            reason = _first(_READING, str(error).lower())
        if reason is None or any(secret in reason for secret in self._address.secrets):
            reason = f"the server refused it{f' (SQLSTATE {state})' if state else ''}"
        return DataError(f"Cannot read {self._address.label}: {reason}.")

    def _broken(self, error: Exception) -> DataError:
        reason = _first(_READING, str(error).lower())
        return DataError(
            f"Reading {self._address.label} broke off: "
            f"{reason or 'the server reported an error in the middle (its log says which)'}. "
            "What was read is thrown away."
        )


def _driver() -> Any:
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise UsageError(
            "Reading from PostgreSQL needs a driver: pip install 'sfumato[postgres]'."
        ) from None
    return driver


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _first(answers: Sequence[tuple[str, str]], text: str) -> str | None:
    return next((answer for part, answer in answers if part in text), None)


def _complaint(text: str) -> str | None:
    """The server's own first line, such as: column "agee" does not exist."""
    _, error, rest = text.partition("ERROR:  ")
    line = rest.splitlines()[0].strip().rstrip(".") if error and rest.strip() else ""
    return line or None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
