"""A DuckDB that can read one release and nothing else."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.columns import list_some
from sfumato.draws import IntArray
from sfumato.errors import BundleError, QueryError
from sfumato.queries.dialect import Node
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


class Session:
    """An in-memory database with the release's records as the view `records`.

    Only the files of the release can be opened, settings are locked, nothing can be loaded,
    attached or written; spilling goes to a private folder that goes away with the session. The
    parser lets through nothing that would ask for more: this is the second wall.
    """

    def __init__(self, release: Release, threads: int | None = None) -> None:
        import duckdb
        import pyarrow.parquet as pq

        self._release = weakref.ref(release)
        self._lock = threading.Lock()
        self._weights: dict[str, WeightTable] = {}
        self._scales = release.scales
        paths = [path.resolve() for path in release.records]
        names: list[str] = pq.read_schema(paths[0]).names
        self._spill = tempfile.mkdtemp(prefix="sfumato-")
        self._connection = duckdb.connect(":memory:")
        # the folder must go even if the set-up below fails
        self._finalizer = weakref.finalize(self, _close, self._connection, self._spill)
        scanned = [glob_escaped(path) for path in paths]
        allowed = sorted({str(path) for path in paths} | set(scanned))
        self._connection.execute(
            ";".join(
                [
                    *([f"SET threads = {threads}"] if threads is not None else []),
                    f"SET memory_limit = '{MEMORY_LIMIT}'",
                    f"SET temp_directory = {literal(self._spill)}",
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
        self.names = _distinct_names(names)
        aliases = ", ".join(quoted(self.names[name]) for name in names)
        self._connection.execute(
            f"CREATE VIEW records AS SELECT * FROM {scan(paths)} AS r({aliases})"
        )

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
            raise _translated(error) from None
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
            raise _translated(error) from None
        finally:
            cursor.close()

    def weights(self, column: str) -> tuple[str, WeightTable]:
        """The weight table of a sensitive column, by the name it has in this database."""
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
                cursor = self._connection.cursor()
                cursor.register("arrived", found.table)
                cursor.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM arrived")
                cursor.close()
                self._weights[column] = found
            return quoted(name), self._weights[column]

    def published_counts(self, column: str, domain: pa.Array) -> IntArray:
        """The release's own records counted by value of the domain."""
        places = pa.table({"value": domain, "place": pa.array(np.arange(len(domain)))})
        counts = self.run(
            "SELECT coalesce(r.n, 0) AS n FROM domain AS d LEFT JOIN (SELECT "
            f"{quoted(self.names[column])} AS value, count(*) AS n FROM records GROUP BY 1) AS r "
            "ON r.value IS NOT DISTINCT FROM d.value ORDER BY d.place",
            {"domain": places},
        )
        return np.asarray(counts.column("n").to_numpy(), dtype=np.int64)


def _close(connection: duckdb.DuckDBPyConnection, spill: str) -> None:
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)


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


def _translated(error: Any) -> QueryError:
    """What DuckDB found wrong, without its excerpt of the SQL that we wrote."""
    text = str(error).split("\n\nLINE ")[0].strip().replace("\n", " ")
    return QueryError(
        f"The question cannot be computed: {text}. Check the types: texts stand in single quotes, "
        "and CAST turns one type into another."
    )


_sessions: dict[tuple[int, int | None], tuple[weakref.ref[Release], Session]] = {}
_sessions_lock = threading.Lock()


def session_of(release: Release, threads: int | None = None) -> Session:
    """The session of an opened release, kept as long as the release object lives."""
    place = (id(release), threads)
    with _sessions_lock:
        known = _sessions.get(place)
        if known is not None and known[0]() is release:
            return known[1]
        session = Session(release, threads)
        _sessions[place] = (weakref.ref(release, lambda _: _forget(place)), session)
        return session


def _forget(place: tuple[int, int | None]) -> None:
    _sessions.pop(place, None)
