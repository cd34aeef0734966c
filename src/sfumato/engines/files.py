"""The files of a release: records in their order, and what plans list beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from sfumato.columns import Column
from sfumato.draws import Draws
from sfumato.engines.order import KeptOrder, Order, ShuffledOrder
from sfumato.engines.stream import RecordStream
from sfumato.engines.writing import RecordWriter
from sfumato.release import record_files


def write_records(
    folder: Path, stream: RecordStream, order: str, draws: Draws
) -> tuple[Column, ...]:
    """Write `records.parquet` in the asked order; what the manifest says of its columns."""
    ordered = order != "keep"
    writer = RecordWriter(
        folder / "records.parquet", lambda compact: stream.restore(compact, ordered=ordered)
    )
    way: Order
    if ordered:
        way = ShuffledOrder(writer.write, stream.expected, draws, folder / "piles")
    else:
        way = KeptOrder(writer.write)
    empty: pa.Table | None = None
    try:
        for batch in stream:
            empty = pa.Table.from_batches([batch.slice(0, 0)])
            way.add(batch)
        way.finish()
        writer.close(empty)
    finally:
        way.close()
        writer.stop()
    return stream.columns()


def published_records(folder: Path) -> Callable[[], Iterator[pa.RecordBatch]]:
    """A reader of records just written, for plans whose side tables follow from them."""

    def read() -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        for path in record_files(folder):
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches()

    return read


def write_side(path: Path, pieces: Iterable[pa.Table], stream: RecordStream) -> None:
    """Write a side table that comes in pieces."""
    writer = RecordWriter(path, stream.restore_side)
    try:
        for piece in pieces:
            writer.write(piece)
        writer.close()
    finally:
        writer.stop()
