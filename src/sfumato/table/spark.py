"""A Spark DataFrame as a source of records."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sfumato.table.plain import normalize, plain_type
from sfumato.table.sources import Batches, Change, Source


class SparkSource(Source):
    """A DataFrame that stays where it is; `engines.spark` publishes it there.

    Read in batches it comes partition by partition, so that the driver holds one at a time.
    """

    engine = "spark"

    def __init__(self, frame: Any, label: str = "the given Spark DataFrame") -> None:
        self.frame, self.label = frame, label
        self.schema = pa.schema(
            [pa.field(field.name, plain_type(_arrow_type(field))) for field in frame.schema.fields]
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "frame": None}  # rows stay where they are

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        with warnings.catch_warnings():
            # Spark mentions pandas, which nothing here uses
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
            moved = numbered(self.frame, columns).mapInArrow(_serialized, "batch binary")
        for row in moved.toLocalIterator():
            for batch in pa.ipc.open_stream(row.batch):
                for start in range(0, batch.num_rows, rows):
                    yield normalize(named(batch.slice(start, rows), columns), columns)

    def derived(self, schema: pa.Schema, change: Change, of: Sequence[str] = ()) -> Source:
        """The columns are changed where the frame is."""
        from pyspark.sql.pandas.types import from_arrow_schema

        given, names = self.schema.names, schema.names

        def changed(batches: Batches) -> Batches:
            for batch in change(named(batch, given) for batch in batches):
                plain = normalize(batch, names)
                arrays = [
                    a.dictionary_decode() if pa.types.is_dictionary(a.type) else a
                    for a in plain.columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

        with warnings.catch_warnings():
            # Spark mentions pandas, which nothing here uses
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
            frame = numbered(self.frame, given).mapInArrow(changed, from_arrow_schema(schema))
        return SparkSource(frame, self.label)


def quoted(name: str) -> str:
    """A column name as Spark takes it, dots and all.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def numbered(frame: Any, columns: Sequence[str]) -> Any:
    """The chosen columns by number: `mapInArrow` stumbles over names with a dot."""
    from pyspark.sql import functions

    return frame.select(
        [functions.col(quoted(name)).alias(f"column{i}") for i, name in enumerate(columns)]
    )


def named(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Numbered columns with their names again."""
    return pa.RecordBatch.from_arrays(batch.columns, names=list(columns))


def _arrow_type(field: Any) -> pa.DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, TimestampType

    if isinstance(field.dataType, TimestampType):  # an instant, told in the session's zone
        return pa.timestamp("us", "UTC")
    try:
        return to_arrow_schema(StructType([field])).field(0).type
    except (PySparkException, AssertionError):
        return pa.struct([])  # nothing that can be published: such a column can only be dropped


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch as one value, which Spark moves without looking inside."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _serialized(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([to_bytes(batch)])], names=["batch"])
