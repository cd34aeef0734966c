"""Rows made from counts, on their way out: for plans that touch no record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import Draws
from sfumato.engines.counting import Progress
from sfumato.engines.quasi import CodedColumn, quasi_column
from sfumato.engines.staging import is_coded
from sfumato.engines.stream import RowStream
from sfumato.mechanisms import CellPlan, Published
from sfumato.profile import Profile
from sfumato.table import Table

_BATCH_ROWS = 1 << 17


class LabelColumn(CodedColumn):
    """A quasi column whose values were merged: texts that name the classes."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__(table, name)
        self.kind, self.type, self.stated = "categorical", pa.string(), None


class CellStream(RowStream):
    """Rows that a plan makes from the profile's cells; the table is not read again."""

    def __init__(
        self, table: Table, profile: Profile, plan: CellPlan, draws: Draws, progress: Progress
    ) -> None:
        super().__init__(table, profile, plan, progress)
        self.plan, self.draws = plan, draws
        self.rows.quasi = [
            LabelColumn(table, quasi.column) if quasi.merged else quasi_column(table, quasi.column)
            for quasi in plan.quasi()
        ]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch, outcome in _outcomes(self.table, self.plan, self.draws):
            compact = self.rows.add(batch, outcome)
            self.published += compact.num_rows
            self.progress("publishing", self.published, self.expected)
            yield compact
        self.rows.check_stated()
        assert self.published == self.expected, (self.published, self.expected)


def _outcomes(
    table: Table, plan: CellPlan, draws: Draws
) -> Iterator[tuple[pa.RecordBatch, Published]]:
    """The rows that a plan emits, as batches of quasi columns and what goes with them."""
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
