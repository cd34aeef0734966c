"""Rows made from counts, on their way out: for plans that touch no record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import Draws
from sfumato.engines.quasi import QuasiColumn
from sfumato.mechanisms import CellPlan, Published
from sfumato.table import Table
from sfumato.table.staging import is_coded

_BATCH_ROWS = 1 << 17


def columns_of(table: Table, plan: CellPlan) -> list[QuasiColumn]:
    """The quasi columns as the plan publishes them."""
    columns = []
    for quasi in plan.quasi():
        kind = pa.string() if quasi.merged else table.type_of(quasi.column)
        values = pa.array(quasi.values, kind).drop_null() if is_coded(kind) else None
        columns.append(QuasiColumn(table, quasi.column, values, merged=quasi.merged))
    return columns


def made_rows(
    table: Table, plan: CellPlan, draws: Draws
) -> Iterator[tuple[pa.RecordBatch, Published]]:
    """The rows that a plan makes, as batches of quasi columns and what goes with them; the table
    is not read again."""
    values = {
        quasi.column: pa.array(
            quasi.values, pa.string() if quasi.merged else table.type_of(quasi.column)
        )
        for quasi in plan.quasi()
    }
    for emitted in plan.emit(draws):
        ends = np.cumsum(emitted.counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, _BATCH_ROWS):
            stop = min(start + _BATCH_ROWS, total)
            low, high = np.searchsorted(ends, [start, stop - 1], side="right")
            copies = emitted.counts[low : high + 1].copy()
            copies[0] = min(int(ends[low]), stop) - start
            if high > low:
                copies[-1] = stop - int(ends[high - 1])
            row = np.repeat(np.arange(low, high + 1), copies)
            arrays = [_column(column, emitted.quasi[name][row]) for name, column in values.items()]
            quasi = pa.RecordBatch.from_arrays(arrays, names=list(values))
            codes = {name: code[row] for name, code in emitted.codes.items()}
            yield quasi, Published(codes, {name: code[row] for name, code in emitted.extra.items()})


def _column(values: pa.Array, codes: np.ndarray) -> pa.Array:
    """Values for codes, as a staged table gives them."""
    if not is_coded(values.type):
        return values.take(pa.array(codes))
    indices = pa.array(codes.astype(np.int32))
    if values.null_count:  # null, where it is a value, is the last one
        last = len(values) - 1
        indices = pc.if_else(pc.equal(indices, last), pa.scalar(None, pa.int32()), indices)
        values = values.slice(0, last)
    return pa.DictionaryArray.from_arrays(indices, values)
