"""DuckDB beside the records: every executor sums its files, and the sums are added up here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = "part binary, problem string"
_NOT_FOUND = (
    "A Spark executor does not find the files of the release. Every machine of the cluster has to "
    "find the release under the same path."
)


def sums_of_files(
    paths: Sequence[Path], names: Mapping[str, str], sql: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does: run `sql` over the files whose numbers it is given, all at once.

    Answers travel as Arrow streams, in which every type keeps its exact meaning. A problem with the
    question is an answer too: Spark would try it again and again.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import duckdb

        from sfumato.queries.session import locked_database, problem

        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        own = [paths[number] for number in numbers]
        if not own:
            return
        part, reason = None, None
        try:
            with locked_database(own, names, threads=1) as connection:
                part = as_bytes(connection.sql(sql).to_arrow_table())
        except duckdb.Error as error:
            reason = problem(error) if all(path.is_file() for path in own) else _NOT_FOUND
        yield pa.RecordBatch.from_arrays(
            [pa.array([part], pa.binary()), pa.array([reason], pa.string())],
            names=["part", "problem"],
        )

    return run


def as_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def as_table(part: Any) -> pa.Table:
    """The table in an Arrow stream.

    >>> as_table(as_bytes(pa.table({"n": [1, 2]}))).to_pydict()
    {'n': [1, 2]}
    """
    with pa.ipc.open_stream(part) as stream:
        return stream.read_all()
