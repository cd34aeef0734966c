"""Batches that wait on disk, in a private folder, to be read again as often as needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import pyarrow as pa

from sfumato.scratch import scratch_space


class Spool:
    """Takes batches, then gives them back in their order; codes may grow wider on the way.

    >>> with Spool() as spool:
    ...     for kind in (pa.uint8(), pa.uint16()):
    ...         spool.add(pa.record_batch({"code": pa.array([1, 2], kind)}))
    ...     [batch.column("code").to_pylist() for batch in spool]
    [[1, 2], [1, 2]]
    """

    def __enter__(self) -> Self:
        with ExitStack() as held:
            self._folder = held.enter_context(scratch_space())
            self._held = held.pop_all()
        self._schemas: list[pa.Schema] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._held.__exit__(kind, error, trace)

    def add(self, batch: pa.RecordBatch) -> None:
        if self._writer is None or self._schemas[-1] != batch.schema:
            self._end()
            path = self._folder / f"{len(self._schemas)}.arrow"
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
            with pa.memory_map(str(self._folder / f"{number}.arrow")) as file:
                yield from pa.ipc.open_stream(file)
