"""Published rows on their way out: codes and plain arrays until a file is written."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sfumato.columns import Column, Values
from sfumato.engines.quasi import QuasiColumn, code_type
from sfumato.mechanisms import Published
from sfumato.profile import Profile
from sfumato.table import Table


class CompactRows:
    """The columns of a release: its rows in compact form, and back to values.

    `quasi` is empty until the first rows tell how the columns come; `sensitive` and `extra` are
    the columns that a plan gives beside them.
    """

    def __init__(self, table: Table, profile: Profile) -> None:
        self.table, self.profile = table, profile
        self.quasi: Sequence[QuasiColumn] = ()
        self.sensitive: tuple[str, ...] = ()
        self.extra: tuple[str, ...] = ()

    def add(self, batch: pa.RecordBatch, outcome: Published) -> pa.RecordBatch:
        """The published rows of a batch in compact form; domains are noted on the way."""
        self.sensitive, self.extra = tuple(outcome.codes), tuple(outcome.extra)
        made = [(array, self._code_type(name)) for name, array in outcome.codes.items()]
        made += [(array, pa.int32()) for array in outcome.extra.values()]
        kept = outcome.keep
        if kept is not None and not kept.all():
            batch = batch.filter(pa.array(kept))
            made = [(array[kept], kind) for array, kind in made]
        arrays = [column.add(batch.column(column.name)) for column in self.quasi]
        arrays += [pa.array(array).cast(kind) for array, kind in made]
        names = [*self.table.quasi, *self.sensitive, *self.extra]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _code_type(self, name: str) -> pa.DataType:
        return code_type(len(self.profile.histograms[name].values))

    def restore(self, compact: pa.Table, *, ordered: bool) -> pa.Table:
        """Compact columns back to values."""
        names = compact.schema.names
        arrays = [
            column.restore(single_chunk(compact, column.name), ordered=ordered)
            for column in self.quasi
        ]
        arrays += [
            self._sensitive_values(single_chunk(compact, name), name) for name in self.sensitive
        ]
        arrays += [single_chunk(compact, name) for name in self.extra]
        return pa.Table.from_arrays(arrays, names=names)

    def restore_side(self, side: pa.Table) -> pa.Table:
        """A piece of a side table, its sensitive columns from codes to values."""
        for place, name in enumerate(side.schema.names):
            if name in self.profile.histograms:
                side = side.set_column(
                    place, name, self._sensitive_values(single_chunk(side, name), name)
                )
        return side

    def _sensitive_values(self, codes: pa.Array, name: str) -> pa.Array:
        values = pa.array(self.profile.histograms[name].values, self.table.type_of(name))
        missing = values.null_count  # null, where it is a value, is the last one
        if missing:
            codes = pa.compute.if_else(
                pa.compute.equal(codes, len(values) - 1), pa.scalar(None, codes.type), codes
            )
        return pa.DictionaryArray.from_arrays(codes, values.slice(0, len(values) - missing))

    def check_stated(self) -> None:
        """Refuse rows with values outside a stated domain."""
        for quasi in self.quasi:
            quasi.check_stated()

    def columns(self) -> tuple[Column, ...]:
        """What the manifest says of the columns, once all rows have been added."""
        return (
            *(column.column() for column in self.quasi),
            *sensitive_columns(self.table, self.profile),
        )


def sensitive_columns(table: Table, profile: Profile) -> tuple[Column, ...]:
    """What the manifest says of the sensitive columns."""
    return tuple(
        table.column(name, "sensitive", Values(histogram.values))
        for name, histogram in profile.histograms.items()
    )


def single_chunk(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
