"""Writing records in a thread of its own, so that reading and drawing go on meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

Restore = Callable[[pa.Table], pa.Table]


def record_file(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet file for records.

    No Arrow schema inside: a text column reads back as text, not as codes. No ends of texts beside
    row groups: to find them takes a third of the writing, and of shuffled rows they rule out none.
    """
    numbers = [field.name for field in schema if not pa.types.is_dictionary(field.type)]
    return pq.ParquetWriter(sink, schema, store_schema=False, write_statistics=numbers)


class RecordWriter:
    """Writes row groups to one Parquet file; `restore` turns compact columns into final ones.

    The file is complete when the `with` block ends well. `columns` gives the columns of a file
    without rows.
    """

    def __init__(self, path: Path, restore: Restore) -> None:
        self._path, self._restore = path, restore
        self._queue: queue.Queue[pa.Table | None] = queue.Queue(maxsize=1)
        self._failure: BaseException | None = None
        self.rows = 0
        self.columns: pa.Table | None = None
        self._thread = threading.Thread(target=self._run, name="sfumato-writer", daemon=True)
        self._thread.start()

    def write(self, table: pa.Table) -> None:
        """Hand over one row group; raises what the writer thread stumbled over."""
        self._raise()
        self.rows += table.num_rows
        self._queue.put(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self.rows == 0 and self.columns is not None:
            self._queue.put(self.columns)
        self._queue.put(None)
        self._thread.join()
        if kind is None:
            self._raise()

    def _run(self) -> None:
        writer: pq.ParquetWriter | None = None
        try:
            while (table := self._queue.get()) is not None:
                if self._failure is not None:
                    continue  # keep the queue moving until the end is called
                try:
                    final = self._restore(table)
                    del table
                    if writer is None:
                        writer = record_file(self._path, final.schema)
                    writer.write_table(final, row_group_size=max(final.num_rows, 1))
                except BaseException as error:
                    self._failure = error
        finally:
            if writer is not None:
                try:
                    writer.close()
                except BaseException as error:
                    self._failure = self._failure or error

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure
