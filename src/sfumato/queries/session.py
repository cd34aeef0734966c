"""A DuckDB that can read one release and nothing else."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.columns import list_some
from sfumato.draws import IntArray
from sfumato.errors import BundleError, QueryError
from sfumato.queries.dialect import Node
from sfumato.queries.sums import RecordSums
from sfumato.queries.weights import WeightTable, weight_table
from sfumato.release.records import glob_escaped, scan

if TYPE_CHECKING:
    import duckdb

    from sfumato.release import Release

MEMORY_LIMIT = "1GB"


def quoted(name: str) -> str:
    """A name as an SQL identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def locked_database(
    paths: Sequence[Path], names: Mapping[str, str], threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory database with record files as the view `records`, and nothing else.

    Only these files can be opened, settings are locked, nothing can be loaded, attached or written;
    spilling goes to a private folder that goes away with the connection. `names` says what each
    column of the files, in their order, is called there.
    """
    import duckdb

    spill = tempfile.mkdtemp(prefix="sfumato-")
    connection = duckdb.connect(":memory:")
    # the folder must go even if the set-up below fails
    weakref.finalize(connection, shutil.rmtree, spill, ignore_errors=True)
    scanned = [glob_escaped(path) for path in paths]
    allowed = sorted({str(path) for path in paths} | set(scanned))
    connection.execute(
        ";".join(
            [
                *([f"SET threads = {threads}"] if threads is not None else []),
                f"SET memory_limit = '{MEMORY_LIMIT}'",
                f"SET temp_directory = {literal(spill)}",
                "SET GLOBAL TimeZone = 'UTC'",  # answers do not depend on where they are asked
                "SET preserve_insertion_order = false",
                "SET GLOBAL python_enable_replacements = false",
                "SET autoinstall_known_extensions = false",
                "SET autoload_known_extensions = false",
                "SET allow_community_extensions = false",
                f"SET allowed_paths = [{', '.join(map(literal, allowed))}]",
                "SET enable_external_access = false",
                "SET lock_configuration = true",
            ]
        )
    )
    # Names are given by position, so that `age` and `Age` stay apart in DuckDB.
    aliases = ", ".join(quoted(name) for name in names.values())
    connection.execute(f"CREATE VIEW records AS SELECT * FROM {scan(paths)} AS r({aliases})")
    return connection


class Session:
    """A database that can read one release and nothing else.

    The parser lets through nothing that would ask for more: this is the second wall.
    """

    def __init__(self, release: Release, threads: int | None = None) -> None:
        import pyarrow.parquet as pq

        self._release = weakref.ref(release)
        self._lock = threading.Lock()
        self._weights: dict[str, WeightTable] = {}
        self._scales = release.scales
        self.paths = [path.resolve() for path in release.records]
        self.schema = pq.read_schema(self.paths[0])
        self.names = _distinct_names(self.schema.names)
        self._connection = locked_database(self.paths, self.names, threads)

    def counted(self, sums: RecordSums, tables: dict[str, pa.Table]) -> str:
        """SQL that reads the sums over the records, as part of a statement run with `tables`.

        Here they are computed inside that statement. A session that computes them elsewhere puts
        what came back into `tables`.
        """
        return sums.sql

    def record_columns(self) -> dict[str, Node]:
        """The records' columns as SQL has to name them."""
        return {
            name: exp.column(own, table="records", quoted=True) for name, own in self.names.items()
        }

    def scale(self) -> tuple[str, str] | None:
        """How many records stand for one draw, and whether they were sampled, as SQL."""
        if self._scales is None:
            return None
        part = f"records.{quoted(self.names['part'])}"
        scales = ", ".join(f"{scale:.17e}" for scale in self._scales)
        return f"([{scales}])[{part} + 1]", f"{part} > 0"

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """Run one statement that we wrote, with these tables beside the records."""
        import duckdb

        cursor = self._connection.cursor()
        try:
            for name, table in (tables or {}).items():
                cursor.register(name, table)
            return cursor.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise translated(error) from None
        finally:
            cursor.close()

    def types(self, expressions: list[str]) -> list[str]:
        """The DuckDB types of expressions over the records; nothing is read."""
        import duckdb

        cursor = self._connection.cursor()
        try:
            relation = cursor.sql(f"SELECT {', '.join(expressions)} FROM records")
            return [str(kind) for kind in relation.types]
        except duckdb.Error as error:
            raise translated(error) from None
        finally:
            cursor.close()

    def weights(self, column: str) -> tuple[str, WeightTable]:
        """The weight table of a sensitive column, by the name it has in this database.

        Its `rest`, where it has one, is the table of that name with `_rest` behind.
        """
        with self._lock:
            name = f"weights_{self.names[column]}"
            if column not in self._weights:
                release = self._release()
                assert release is not None
                found = weight_table(release, column, self.published_counts)
                if set(found.keys) - set(self.names):
                    raise BundleError(
                        f"The records lack {list_some(sorted(set(found.keys) - set(self.names)))}, "
                        f"which the operator of column {column!r} needs. Fetch the release again."
                    )
                self._keep(name, found.table)
                if found.rest is not None:
                    self._keep(f"{name}_rest", found.rest)
                self._weights[column] = found
            return name, self._weights[column]

    def _keep(self, name: str, table: pa.Table) -> None:
        cursor = self._connection.cursor()
        cursor.register("arrived", table)
        cursor.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM arrived")
        cursor.close()

    def published_counts(self, column: str, domain: pa.Array) -> IntArray:
        """The release's own records counted by value of the domain."""
        places = pa.table({"value": domain, "place": pa.array(np.arange(len(domain)))})
        tables = {"domain": places}
        values = f"records.{quoted(self.names[column])} AS value"
        counted = self.counted(RecordSums([values], ["count(*) AS n"], []), tables)
        counts = self.run(
            f"SELECT coalesce(r.n, 0) AS n FROM domain AS d LEFT JOIN ({counted}) AS r "
            "ON r.value IS NOT DISTINCT FROM d.value ORDER BY d.place",
            tables,
        )
        return np.asarray(counts.column("n").to_numpy(), dtype=np.int64)


def _distinct_names(names: list[str]) -> dict[str, str]:
    """A name in DuckDB for each column: its own, unless another differs only in case."""
    lower = [name.lower() for name in names]
    taken = set(lower)
    found: dict[str, str] = {}
    for place, name in enumerate(names):
        own = name
        while lower.count(name.lower()) > 1 and (own == name or own.lower() in taken):
            own = f"{own}_{place}"
        found[name] = own
        taken.add(own.lower())
    return found


def translated(error: duckdb.Error) -> QueryError:
    return QueryError(problem(error))


def problem(error: duckdb.Error) -> str:
    """What DuckDB found wrong, without its excerpt of the SQL that we wrote."""
    text = str(error).split("\n\nLINE ")[0].strip().replace("\n", " ")
    return (
        f"The question cannot be computed: {text}. Check the types: texts stand in single quotes, "
        "and CAST turns one type into another."
    )


_Place = tuple[int, int | None, int]
_sessions: dict[_Place, tuple[weakref.ref[Release], Session]] = {}
_sessions_lock = threading.Lock()


def session_of(release: Release, threads: int | None = None, engine: Any = None) -> Session:
    """The session of an opened release, kept as long as the release object lives.

    `engine` None is this process alone; a Spark session takes over the sums over the records.
    """
    place = (id(release), threads, id(engine))
    with _sessions_lock:
        known = _sessions.get(place)
        if known is not None and known[0]() is release:
            return known[1]
        if engine is None:
            session = Session(release, threads)
        else:
            from sfumato.queries.spark import SparkSums

            session = SparkSums(release, engine, threads)
        _sessions[place] = (weakref.ref(release, lambda _: _forget(place)), session)
        return session


def _forget(place: _Place) -> None:
    _sessions.pop(place, None)
