"""The classes of people who look alike, and the values that each class holds, counted by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.table.sources import Source


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Records by class and value of one sensitive column: the non-empty cells, class by class.

    `classes`, `codes` and `counts` run over the cells, sorted by class, then by value; `sizes` and
    `rows` (the first row of each class, from 0) over the classes; `totals` over the values.
    """

    column: str
    values: tuple[Value, ...]
    classes: IntArray
    codes: IntArray
    counts: IntArray
    sizes: IntArray
    rows: IntArray
    totals: IntArray

    @cached_property
    def starts(self) -> IntArray:
        """Where each class begins among the cells."""
        return np.flatnonzero(np.r_[True, self.classes[1:] != self.classes[:-1]])


class CountedTable:
    """The columns of a table in DuckDB: `q0`, `q1` …, `s0` …, and the number of the row."""

    def __init__(
        self, database: Any, source: Source, quasi: Sequence[str], sensitive: Sequence[str]
    ) -> None:
        self.quasi = [f"q{k}" for k in range(len(quasi))]
        self.names = [*self.quasi, *(f"s{k}" for k in range(len(sensitive)))]
        named = (*quasi, *sensitive)
        kinds = zip(
            self.names, (_plain(source.schema.field(name).type) for name in named), strict=True
        )
        schema = pa.schema([("row", pa.int64()), *kinds])

        def batches() -> Iterator[pa.RecordBatch]:
            start = 0
            for batch in source.batches(named, 1 << 17):
                arrays = [_usual(batch.column(name)) for name in named]
                places = pa.array(range(start, start + batch.num_rows), pa.int64())
                start += batch.num_rows
                yield pa.RecordBatch.from_arrays([places, *arrays], schema=schema)

        self._database = database
        database.register("stream", pa.RecordBatchReader.from_batches(schema, batches()))
        database.execute("CREATE TABLE people AS SELECT * FROM stream")
        ((self.rows,),) = database.execute("SELECT count(*) FROM people").fetchall()

    def distinct(self, column: str) -> list[Value]:
        """The values of a column, None where one is missing."""
        query = f"SELECT DISTINCT {column} AS v FROM people"
        found: list[Value] = self._database.sql(query).to_arrow_table().column("v").to_pylist()
        return found

    def count(self, column: str, name: str) -> ClassCounts:
        """Count the records of every (class, value); missing is the last value."""
        by, every = ", ".join(self.quasi), ", ".join([*self.quasi, column])
        cells = self._database.sql(
            f"SELECT min(min(row)) OVER ({f'PARTITION BY {by}' if by else ''}) AS first, "
            f"{column} AS value, count(*) AS n FROM people GROUP BY {every}"
        ).to_arrow_table()  # fmt: skip
        encoded = cells.column("value").combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        found, index = encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy()
        # not a number says no more than missing does: counted as two values they would look diverse
        present = [k for k, value in enumerate(found) if value is not None and value == value]
        present.sort(key=lambda k: found[k])
        code_of = np.full(len(found) + 1, len(present), np.int64)
        code_of[present] = np.arange(len(present))
        rows, classes = np.unique(cells.column("first").to_numpy(), return_inverse=True)
        codes, counts = code_of[index], cells.column("n").to_numpy()
        keys, inverse = np.unique(classes * (len(present) + 1) + codes, return_inverse=True)
        counts = np.bincount(inverse, counts).astype(np.int64)
        classes, codes = np.divmod(keys, len(present) + 1)
        values = [found[k] for k in present] + ([None] if codes.max() == len(present) else [])
        sizes, totals = (np.bincount(by, counts).astype(np.int64) for by in (classes, codes))
        return ClassCounts(name, tuple(values), classes, codes, counts, sizes, rows, totals)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _usual(array: pa.Array) -> pa.Array:
    """Plain values; minus zero is zero."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    zero = pa.scalar(0.0, array.type) if pa.types.is_floating(array.type) else None
    return array if zero is None else pc.add(array, zero)
