"""A table of which one sensitive column is looked at: the same people, whatever else they lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from sfumato.engines.counting import drop_missing
from sfumato.table import Table
from sfumato.table.sources import Source


class WholeRows(Source):
    """Those rows of a table that have every sensitive value."""

    def __init__(self, table: Table) -> None:
        self._table, source = table, table.source
        self.label, self.schema, self.foreign = source.label, source.schema, source.foreign

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        read = list(dict.fromkeys([*columns, *self._table.sensitive]))
        for batch in self._table.source.batches(read, rows, threads):
            yield drop_missing(self._table, batch).select(list(columns))


def of_column(table: Table, column: str) -> Table:
    """The table with that sensitive column alone; records that lack another were dropped, too.

    >>> from sfumato.table import read
    >>> people = pa.table({"a": ["x", "y"], "b": [None, 1]})
    >>> declared = read(people, quasi="", sensitive="a,b", missing="drop")
    >>> [batch.num_rows for batch in of_column(declared, "a").batches(["a"])]
    [1]
    """
    source = WholeRows(table) if table.missing == "drop" else table.source
    return replace(table, sensitive=(column,), source=source)
