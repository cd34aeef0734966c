"""Tables and queries of a PostgreSQL server: one read-only COPY through ADBC into the spool.

It is the table as it was when the source was made: a REPEATABLE READ transaction is open from then
until its rows have been copied. They come from front to back and by one worker, so the same table
gives the same order another time, too.

What libpq says when a connection fails may quote the password, so errors are told in our own words
only, and so is everything but complaints about the SQL itself. The driver hands on `numeric` as
text; a type without a counterpart can be dropped, not published.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import pyarrow as pa

from sfumato.columns import quoted
from sfumato.errors import DataError, UsageError
from sfumato.table.plain import normalize, plain_type
from sfumato.table.sources import Batches, Source
from sfumato.table.spool import Spool

T = TypeVar("T")

_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
)
_REASONS = (  # SQLSTATE and text of an error, in lower case, and what we say instead
    ("^25006|read-only transaction", "it tries to write, and only reading is allowed"),
    (
        "^57p01|^08.*sent|closed the connection|terminating connection|no connection to the server"
        "|could not receive data",
        "the server closed the connection",
    ),
    ("password|authentication|pg_hba.conf|role |database ", "the server does not let this user in"),
    ("connection refused|timeout|timed out|translate host", "nothing answers there"),
)
_HOW = (
    "Write postgresql://user@host:port/database?table=NAME (or ?query=SELECT …), with every "
    "character of the password or the query that is no letter, digit or blank percent-encoded; "
    "better, leave the password to PGPASSWORD or ~/.pgpass."
)
_AS_IT_IS = {
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea", "date", "time",
    "timestamp", "timestamptz",
}  # fmt: skip
_AS_TEXT = {"bpchar", "char", "name", "uuid", "citext"}  # bpchar: padding blanks mean nothing
_MOST_DIGITS = 38  # of Arrow's decimal128
_INTEGER_DIGITS = 18  # that every int64 has room for


@dataclass(frozen=True)
class Address:
    """`postgresql://user@host:port/database?table=schema.name`, or `?query=SELECT …`, and whatever
    else libpq understands (`sslmode` …). Its text form shows host, database and table, never who
    connects."""

    uri: str = field(repr=False)  # for libpq alone
    place: str
    label: str  # how messages name the table
    rows: str = field(repr=False)  # what SQL selects from
    password: str = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Address:
        """Read an address; one that cannot be read is not quoted, as it may hold a password.

        >>> Address.of("postgresql://me:secret@host:5433/clinic?table=public.admissions").label
        'postgresql://host:5433/clinic?table=public.admissions'
        """
        text, url, known = text.strip(), urlsplit(""), None
        with suppress(ValueError):  # whose text quotes the address
            url = urlsplit(text)
            _ = url.port  # a number, not a part of a password
            known = dict(parse_qsl(url.query.replace("+", "%2B"), strict_parsing=bool(url.query)))
        begins = text.lower().startswith(("postgresql://", "postgres://"))
        lost = re.search(r"[\n\r\t#]", text)  # by `urlsplit`: a comment of SQL would go on
        strange = text.partition("query=")[0].count("@") > min(url.netloc.count("@"), 1)
        if known is None or not begins or lost or strange:
            raise DataError(f"Cannot read the address of a PostgreSQL table. {_HOW}")
        host = url.netloc.rpartition("@")[2]
        table, query = known.pop("table", ""), known.pop("query", "").rstrip("; \n")
        if bool(table) == bool(query) or "\x00" in table + query:
            raise DataError(
                "The address of a PostgreSQL table names one thing to read, 'table' or 'query'. "
                f"{_HOW}"
            )
        place = f"postgresql://{host}{url.path}"
        return cls(
            url._replace(query=urlencode(known, quote_via=quote)).geturl(),
            place,
            f"{place}?table={table}" if table else f"the query on {place}",
            ".".join(map(quoted, table.split("."))) if table else f"(\n{query}\n) AS q",
            unquote(url.password or "") or known.get("password", ""),
        )


class PostgresSource(Source):
    """A table or a query of a PostgreSQL server, as it was when the source was made."""

    def __init__(self, address: Address) -> None:
        self.address, self.label = address, address.label
        self._spool: Spool | None = None
        driver = _driver()
        connection = self._try(lambda: driver.connect(address.uri), "Cannot connect to")
        self._cursor = connection.cursor()
        self._close = weakref.finalize(self, _closed, self._cursor, connection)
        self._try(lambda: [self._cursor.execute(setting) for setting in _SETTINGS])
        # this also locks the table against ALTER and VACUUM FULL until the transaction ends
        described = self._try(
            lambda: self._cursor.adbc_execute_schema(f"SELECT * FROM {address.rows}")
        )
        self.columns = {field.name: _column(field) for field in described}
        fields = [(name, plain_type(c.type)) for name, c in self.columns.items()]
        self.schema = pa.schema(fields)
        self.foreign = {n: c.foreign for n, c in self.columns.items() if c.foreign is not None}

    def close(self) -> None:
        """End the transaction; the table can be altered again."""
        self._close()

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        for name in columns:
            if name in self.foreign:
                raise DataError(
                    f"Column {name!r} of {self.label} is {self.foreign[name]}, which sfumato does "
                    "not read. Convert it in a query=SELECT …, or drop the column."
                )
        if self._spool is None:
            self._spool = self._copied()
        for batch in self._spool:
            arrays = [self._arrived(name, batch.column(name)) for name in columns]
            arrived = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            for start in range(0, arrived.num_rows, rows):
                yield normalize(arrived.slice(start, rows), columns)

    def _copied(self) -> Spool:
        """Every column that can be read, by one COPY; then the transaction ends."""
        named = [
            f"{quoted(name)}{f'::{column.cast}' if column.cast else ''} AS {quoted(name)}"
            for name, column in self.columns.items()
            if column.foreign is None
        ]
        spool, cursor = Spool(), self._cursor
        self._try(lambda: cursor.execute(f"SELECT {', '.join(named)} FROM {self.address.rows}"))
        reader = self._try(cursor.fetch_record_batch)
        for batch in self._streamed(reader):
            spool.add(batch)
        self.close()
        return spool

    def _streamed(self, reader: pa.RecordBatchReader) -> Batches:
        while (batch := self._try(lambda: next(reader, None), "broke off")) is not None:
            yield batch

    def _arrived(self, name: str, array: pa.Array) -> pa.Array:
        """The values as they should be; raises where the type here cannot hold one of them."""
        kind = self.columns[name].type
        try:
            array.validate(full=True)  # a server of encoding SQL_ASCII passes any bytes as text
            return array.cast(kind) if pa.types.is_decimal(kind) else array
        except pa.ArrowInvalid:
            decimal = pa.types.is_decimal(kind)
            wrong = "NaN, or digits that its type should not have" if decimal else "no UTF-8"
        raise DataError(
            f"Column {name!r} of {self.label} holds {wrong}. Replace them in a query=SELECT …."
        )

    def _try(self, action: Callable[[], T], doing: str = "Cannot read") -> T:
        """Run something of the driver's.

        Its error is dropped before ours is raised, so that no chain of causes leads to its text.
        """
        import adbc_driver_manager

        try:
            return action()
        except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
            state, text = str(getattr(error, "sqlstate", None) or ""), str(error)
        reason = next(
            (why for part, why in _REASONS if re.search(part, f"{state} {text}".lower())), ""
        )
        if doing == "broke off":
            raise DataError(
                f"Reading {self.label} broke off: "
                f"{reason or 'the server reported an error in the middle (its log says which)'}. "
                "What was read is thrown away."
            )
        if doing == "Cannot connect to":
            raise DataError(
                f"{doing} {self.address.place}: {reason or 'the connection failed'}. Check the "
                "address; a password can stand in PGPASSWORD or ~/.pgpass."
            )
        if state[:2] in ("42", "3F", "0A"):  # about the SQL, never about rows
            reason = _complaint(text)
        if not reason or (self.address.password and self.address.password in reason):
            reason = f"the server refused it{f' (SQLSTATE {state})' if state else ''}"
        raise DataError(f"{doing} {self.label}: {reason}.")


@dataclass(frozen=True)
class PostgresColumn:
    """One column: its type here, the SQL type that it is asked for in, and what it is there where
    that cannot be read."""

    type: pa.DataType
    cast: str | None = None
    foreign: str | None = None


def _column(described: pa.Field) -> PostgresColumn:
    """What to make of a column that the driver describes."""
    metadata = described.metadata or {}
    kind = metadata.get(b"POSTGRESQL:type", b"").decode()
    if kind in _AS_IT_IS:
        return PostgresColumn(described.type)
    if kind == "numeric":
        return _numeric(int(metadata.get(b"POSTGRESQL:typmod", b"-1")))
    # what else the driver takes for text is an enum
    if kind in _AS_TEXT or pa.types.is_string(described.type):
        return PostgresColumn(pa.string(), cast="text")
    return PostgresColumn(described.type, foreign=kind or str(described.type))


def _numeric(modifier: int) -> PostgresColumn:
    """Exact where the declared digits allow it: whole numbers, else decimals; doubles otherwise.

    The modifier packs precision and scale into one number; nothing is declared below 4.

    >>> _numeric(655366)
    PostgresColumn(type=Decimal128Type(decimal128(10, 2)), cast='text', foreign=None)
    """
    packed = modifier - 4
    precision, scale = packed >> 16 & 0xFFFF, packed & 0x7FF
    if packed < 0 or precision > _MOST_DIGITS or scale > precision:
        return PostgresColumn(pa.float64(), cast="double precision")
    if scale == 0 and precision <= _INTEGER_DIGITS:
        return PostgresColumn(pa.int64(), cast="bigint")
    return PostgresColumn(pa.decimal128(precision, scale), cast="text")


def _driver() -> Any:
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise UsageError(
            "Reading from PostgreSQL needs a driver: pip install 'sfumato[postgres]'."
        ) from None
    return driver


def _closed(*open_handles: Any) -> None:
    for handle in open_handles:
        with suppress(Exception):  # the server may be gone, or the copy left unfinished
            handle.close()


def _complaint(text: str) -> str:
    """The server's own first line, such as: column "agee" does not exist."""
    _, error, rest = text.partition("ERROR:  ")
    return rest.splitlines()[0].strip().rstrip(".") if error and rest.strip() else ""
