"""Published rows on their way out: codes and plain arrays until a file is written."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Column, Values
from sfumato.engines.quasi import QuasiColumn
from sfumato.engines.spelling import Spelled
from sfumato.mechanisms import Published
from sfumato.profile import Histogram, Profile
from sfumato.table import Table
from sfumato.table.staging import code_type


def compact(
    table: Table, profile: Profile, batch: pa.RecordBatch, made: Published
) -> pa.RecordBatch:
    """The published rows of a batch: codes wherever there are some."""
    arrays = [batch.column(name) for name in table.quasi]
    arrays = [a.indices if pa.types.is_dictionary(a.type) else a for a in arrays]
    for name, codes in made.codes.items():
        arrays.append(pa.array(codes).cast(code_type(len(profile.histograms[name].values))))
    arrays += [pa.array(numbers).cast(pa.int32()) for numbers in made.extra.values()]
    rows = pa.RecordBatch.from_arrays(arrays, names=[*table.quasi, *made.codes, *made.extra])
    return rows if made.keep is None or made.keep.all() else rows.filter(pa.array(made.keep))


class CompactRows:
    """The columns of a release, whose rows are noted in compact form: what they stand for."""

    def __init__(self, table: Table, profile: Profile, quasi: Sequence[QuasiColumn]) -> None:
        self.table, self.profile, self.quasi = table, profile, quasi
        self.number = 0  # of the rows that were added

    def add(self, rows: pa.RecordBatch) -> None:
        self.number += rows.num_rows
        for column in self.quasi:
            column.add(rows.column(column.name))

    def ordered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with codes in the order of their domains, once all have been added."""
        arrays = [column.ordered(rows.column(column.name)) for column in self.quasi]
        names = rows.schema.names
        arrays += [self._shown(rows.column(name), name) for name in names[len(arrays) :]]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def side(self, table: pa.Table) -> pa.RecordBatch:
        """A piece of a side table."""
        arrays = [
            self._shown(table.column(name).combine_chunks(), name) for name in table.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, names=table.schema.names)

    def spelled(self) -> list[Spelled]:
        """How files show the columns."""
        quasi = [column.spelled() for column in self.quasi]
        return [*quasi, *sensitive_spelled(self.table, self.profile)]

    def _shown(self, codes: pa.Array, name: str) -> pa.Array:
        histogram = self.profile.histograms.get(name)
        return codes if histogram is None else missing_apart(codes, histogram)

    def columns(self) -> tuple[Column, ...]:
        """What the manifest says of the columns, once all rows have been added."""
        quasi = [column.column() for column in self.quasi]
        return (*quasi, *sensitive_columns(self.table, self.profile))


def sensitive_columns(table: Table, profile: Profile) -> tuple[Column, ...]:
    """What the manifest says of the sensitive columns."""
    return tuple(
        table.column(name, "sensitive", Values(histogram.values))
        for name, histogram in profile.histograms.items()
    )


def sensitive_spelled(table: Table, profile: Profile) -> list[Spelled]:
    """How files show the sensitive columns."""
    return [
        Spelled(name, pa.array([v for v in histogram.values if v is not None], table.type_of(name)))
        for name, histogram in profile.histograms.items()
    ]


def missing_apart(codes: pa.Array, histogram: Histogram) -> pa.Array:
    """Codes in which a missing value, where it is the last of the domain, is null."""
    if None not in histogram.values[-1:]:
        return codes
    missing = pc.equal(codes, len(histogram.values) - 1)
    return pc.if_else(missing, pa.scalar(None, codes.type), codes)
