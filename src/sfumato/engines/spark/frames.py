"""Frames of Spark: columns named as they are, and whole numbers that tasks make of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.table import Table
from sfumato.table.spark import SparkSource, named, numbered, quoted

Batches = Iterator[pa.RecordBatch]
Numbers = Callable[[Batches], Iterator[tuple[IntArray, ...]]]


def frame_of(table: Table) -> Any:
    assert isinstance(table.source, SparkSource)
    return table.source.frame


def quoted_column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(quoted(name))


def many_partitions(frame: Any) -> int:
    """How many partitions have rows: what was sorted gets as many, for each costs a task."""
    from pyspark.sql import functions

    found = frame.select(functions.spark_partition_id().alias("number")).distinct().count()
    return max(int(found), 1)


def with_numbers(frame: Any, columns: Sequence[str], names: Sequence[str], made: Numbers) -> Any:
    """The named columns, and beside them whole numbers that every task makes of its batches."""
    from pyspark.sql import functions
    from pyspark.sql.types import LongType, StructField, StructType

    rows = numbered(frame, columns)
    added = [f"added{place}" for place in range(len(names))]
    schema = StructType([*rows.schema.fields, *(StructField(name, LongType()) for name in added)])

    def run(batches: Batches) -> Batches:
        given: list[pa.RecordBatch] = []

        def read() -> Batches:
            for batch in batches:
                given.append(batch)
                yield named(batch, columns)

        for numbers in made(read()):
            arrays = [*given.pop().columns, *(pa.array(each, pa.int64()) for each in numbers)]
            yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

    return rows.mapInArrow(run, schema).select(
        [functions.col(f"column{place}").alias(name) for place, name in enumerate(columns)]
        + [functions.col(own).alias(name) for own, name in zip(added, names, strict=True)]
    )
