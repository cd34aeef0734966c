"""Writing records in a thread of its own, so that reading and drawing go on meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Restore = Callable[[pa.Table], pa.Table]


class RecordWriter:
    """Writes row groups to one Parquet file; `restore` turns compact columns into final ones."""

    def __init__(self, path: Path, restore: Restore) -> None:
        self._path, self._restore = path, restore
        self._queue: queue.Queue[pa.Table | None] = queue.Queue(maxsize=1)
        self._failure: BaseException | None = None
        self.rows = 0
        self._thread = threading.Thread(target=self._run, name="sfumato-writer", daemon=True)
        self._thread.start()

    def write(self, table: pa.Table) -> None:
        """Hand over one row group; raises what the writer thread stumbled over."""
        self._raise()
        self.rows += table.num_rows
        self._queue.put(table)

    def close(self, empty: pa.Table | None = None) -> None:
        """Wait until all is written. `empty` gives the columns of a file without rows."""
        if self.rows == 0 and empty is not None:
            self._queue.put(empty)
        self.stop()
        self._raise()

    def stop(self) -> None:
        """End the thread, whatever happened."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

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
                        # no Arrow schema inside: a text column reads back as text, not as codes
                        writer = pq.ParquetWriter(self._path, final.schema, store_schema=False)
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
