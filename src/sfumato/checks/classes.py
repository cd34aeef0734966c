"""The classes of people who look alike, and the values that each class holds, counted by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.table import Table
from sfumato.table.sources import Batches
from sfumato.table.staging import LocalPeople, codes_of, staged


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


def count_classes(table: Table, column: str) -> ClassCounts:
    """Count the records of every (class, value) of a staged table; missing is the last value."""
    rows, quasi = staged(table), [f"q{place}" for place in range(len(table.quasi))]
    kinds = [*zip(quasi, map(table.type_of, table.quasi), strict=True)]
    schema = pa.schema([("row", pa.int64()), ("value", pa.int64()), *kinds])

    def numbered(names: Sequence[str]) -> Batches:
        start = 0
        for batch in rows.batches([*table.quasi, column], 1 << 17):
            places = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            shown = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
                     for array in batch.columns[:-1]]  # fmt: skip
            arrays = [pa.array(places), pa.array(codes_of(batch, [column])[column]), *shown]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema).select(list(names))

    by = f"PARTITION BY {', '.join(quasi)}" if quasi else ""
    counted = LocalPeople(schema, numbered, rows.number).sql(
        f"SELECT min(min(row)) OVER ({by}), value, count(*) FROM people "
        f"GROUP BY {', '.join([*quasi, 'value'])}",
        *schema.names,
    )
    first, value, counts = pa.Table.from_batches(counted).columns
    found, codes = np.unique(value.to_numpy(), return_inverse=True)
    starts, classes = np.unique(first.to_numpy(), return_inverse=True)
    order, counts = np.lexsort((codes, classes)), counts.to_numpy().astype(np.int64)
    sizes, totals = (np.bincount(by, counts).astype(np.int64) for by in (classes, codes))
    values = tuple(rows.domains[column].take(pa.array(found)).to_pylist())
    cells = (classes[order], codes[order], counts[order])
    return ClassCounts(column, values, *cells, sizes, starts, totals)
