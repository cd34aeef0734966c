"""Batches that wait in memory or, where they are many, in files without a name."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

IN_MEMORY = 16_000_000  # bytes


class Spool:
    """Takes batches, then gives them back in their order as often as needed; codes may grow wider
    on the way.

    Its files are seen by nobody else, and the system takes them away with the process, however
    that ends.

    >>> spool = Spool()
    >>> for kind in (pa.uint8(), pa.uint16()):
    ...     spool.add(pa.record_batch({"code": pa.array([1, 2], kind)}))
    >>> [batch.column("code").to_pylist() for batch in spool]
    [[1, 2], [1, 2]]
    """

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[IO[bytes]] = []  # one for each schema
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None

    def __del__(self) -> None:
        for file in self._files:
            file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > IN_MEMORY:
            for held in self._waiting:
                self._write(held)
            self._waiting = []

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None or self._schema != batch.schema:
            self._end()
            self._files.append(tempfile.TemporaryFile(prefix="sfumato-"))  # noqa: SIM115
            self._writer = pa.ipc.new_stream(self._files[-1], batch.schema)
            self._schema = batch.schema
        self._writer.write_batch(batch)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._files[-1].flush()
            self._writer = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._end()
        for file in self._files:
            seen = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            for batch in pa.ipc.open_stream(pa.py_buffer(seen)):
                yield batch
                if hasattr(mmap, "MADV_DONTNEED"):  # what was read stays on disk, not in memory
                    seen.madvise(mmap.MADV_DONTNEED)
        yield from self._waiting
