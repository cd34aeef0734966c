"""The named reference: a plain pyarrow copy of a Parquet file, with a writer thread."""

from __future__ import annotations

import queue
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq


def copy(source: str, target: str) -> None:
    """Copy batch by batch; text columns stay dictionary codes."""
    schema = pq.read_schema(source)
    texts = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)
    ]
    file = pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False)
    handed: queue.Queue[pa.RecordBatch | None] = queue.Queue(maxsize=2)

    def write() -> None:
        writer = None
        while (batch := handed.get()) is not None:
            if writer is None:
                writer = pq.ParquetWriter(target, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    for batch in file.iter_batches(1 << 20):
        handed.put(batch)
    handed.put(None)
    thread.join()


if __name__ == "__main__":
    copy(sys.argv[1], sys.argv[2])
