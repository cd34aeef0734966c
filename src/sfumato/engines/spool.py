"""Batches that wait in memory or, where they are many, on disk in a private folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from sfumato.scratch import scratch_folder

IN_MEMORY = 16_000_000  # bytes


class Spool:
    """Takes batches, then gives them back in their order as often as needed; codes may grow wider
    on the way. Its folder goes away with it.

    >>> spool = Spool()
    >>> for kind in (pa.uint8(), pa.uint16()):
    ...     spool.add(pa.record_batch({"code": pa.array([1, 2], kind)}))
    >>> [batch.column("code").to_pylist() for batch in spool]
    [[1, 2], [1, 2]]
    """

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._folder: Path | None = None
        self._schemas: list[pa.Schema] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > IN_MEMORY:
            self._folder = self._folder or scratch_folder(self)
            for held in self._waiting:
                self._write(self._folder, held)
            self._waiting = []

    def _write(self, folder: Path, batch: pa.RecordBatch) -> None:
        if self._writer is None or self._schemas[-1] != batch.schema:
            self._end()
            path = folder / f"{len(self._schemas)}.arrow"
            self._writer = pa.ipc.new_stream(str(path), batch.schema)
            self._schemas.append(batch.schema)
        self._writer.write_batch(batch)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._end()
        for number in range(len(self._schemas)):
            with pa.memory_map(f"{self._folder}/{number}.arrow") as file:
                yield from pa.ipc.open_stream(file)
        yield from self._waiting
