"""Rows made from counts, on their way out: for plans that touch no record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import Draws
from sfumato.engines.shown import (
    CodedColumn,
    PlainColumn,
    ShownColumn,
    ShownRows,
    sensitive_columns,
)
from sfumato.mechanisms import CellPlan
from sfumato.table import Table
from sfumato.table.staging import code_type, is_coded, ordered_domain, staged, stated_values

_BATCH_ROWS = 1 << 17


def made_rows(
    table: Table, plan: CellPlan, draws: Draws
) -> tuple[ShownRows, Iterator[pa.RecordBatch]]:
    """The rows that a plan makes, and their columns; the table is not read again."""
    domains = staged(table).domains
    columns, shown = list[ShownColumn](), dict[str, pa.Array]()  # for each code of the plan
    for quasi in plan.quasi():
        name, merged = quasi.column, quasi.merged
        values = pa.array(quasi.values, pa.string() if merged else table.type_of(name))
        if is_coded(values.type):
            stated = () if merged else stated_values(name, table.domains.get(name))
            domain = ordered_domain(values, stated)
            columns.append(CodedColumn(table, name, domain, merged=merged))
            shown[name] = pc.index_in(values, value_set=domain).cast(code_type(len(domain)))
        else:
            columns.append(PlainColumn(table, name))
            shown[name] = values

    def rows() -> Iterator[pa.RecordBatch]:
        for emitted in plan.emit(draws):
            cell = np.repeat(np.arange(len(emitted.counts), dtype=np.int32), emitted.counts)
            arrays = {name: shown[name].take(pa.array(c)) for name, c in emitted.quasi.items()}
            for name, codes in emitted.codes.items():
                arrays[name] = pa.array(codes).cast(code_type(len(domains[name])))
            arrays |= {n: pa.array(c).cast(pa.int32()) for n, c in emitted.extra.items()}
            cells = pa.RecordBatch.from_pydict(arrays)
            for start in range(0, len(cell), _BATCH_ROWS):
                yield cells.take(pa.array(cell[start : start + _BATCH_ROWS]))

    return ShownRows([*columns, *sensitive_columns(table)]), rows()
