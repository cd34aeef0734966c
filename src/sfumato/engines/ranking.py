"""One row of each person, drawn at random.

Every row gets a random word, and of a person's rows the one with the smallest word is published. So
which rows are withheld depends on nothing that they hold, and everything else sees a table
with one row of everybody. One byte per row is held in memory. Under a key file the word
belongs to the row's key, so that the same row of a person is published again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sfumato.draws import Address, BoolArray, Draws, IntArray, Positions
from sfumato.engines.counting import take_profile
from sfumato.errors import DataError
from sfumato.profile import Histogram
from sfumato.table import Table
from sfumato.table.staging import LocalStaged, Staged, stage, staged


@dataclass(frozen=True, eq=False)
class RankedRows:
    """A table with the row of each person that was drawn; `sizes[n]` people have n rows."""

    table: Table
    first: BoolArray
    sizes: IntArray
    histograms: Mapping[str, Histogram]  # of all rows

    @property
    def people(self) -> int:
        return int(self.sizes.sum())

    @property
    def most(self) -> int:
        """How many rows the person with the most has."""
        return len(self.sizes) - 1

    @property
    def withheld(self) -> int:
        """How many rows stay out."""
        return len(self.first) - int(self.first.sum())

    def chosen(self) -> Table:
        """The table with one row of each person."""
        rows_here = staged(self.table)
        assert isinstance(rows_here, LocalStaged)
        return replace(self.table, source=rows_here.chosen(self.first))


def rank_rows(table: Table, draws: Draws) -> RankedRows:
    """Draw a row of each person. DuckDB sorts, and spills where it must."""
    table = stage(table)
    histograms = take_profile(table).histograms
    rows = staged(table)
    person = rows.columns[str(table.person)]
    keyed = [str(table.key)] if draws.origin == "key-file" else []
    kind = rows.type(str(table.person))
    schema = pa.schema([("place", pa.int64()), ("word", pa.uint64()), (person, kind)])
    read = 0

    def drawn(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal read
        position = np.arange(read, read + batch.num_rows)
        read += batch.num_rows
        address: Address = Positions(read - batch.num_rows, batch.num_rows)
        if keyed:
            keys = batch.column(table.key).to_pylist()
            address = draws.persons("rows", [str(key).encode() for key in keys])
        word = draws.words("rows", address)
        arrays = [pa.array(position), pa.array(word), batch.column(table.person)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    refuse_absent(table, rows)
    people = rows.map([str(table.person), *keyed], drawn, schema)
    query = (
        f"SELECT place, row_number() OVER (PARTITION BY {person} ORDER BY word, place) AS rank, "
        f"count(*) OVER (PARTITION BY {person}) AS size FROM people QUALIFY rank = 1"
    )
    first, sizes = np.zeros(rows.number, np.bool_), np.zeros(1, np.int64)
    for batch in people.sql(query, "place", "word", person):
        first[batch.column("place").to_numpy()] = True
        people_by_rows = np.bincount(batch.column("size").to_numpy(), minlength=len(sizes))
        people_by_rows[: len(sizes)] += sizes
        sizes = people_by_rows
    return RankedRows(table, first, sizes, histograms)


def refuse_absent(table: Table, rows: Staged) -> None:
    """A row of nobody cannot be protected as anybody's."""
    name = rows.columns[str(table.person)]
    query = f"SELECT count(*) - count({name}) AS n FROM people"
    (absent,) = (batch.column("n")[0].as_py() for batch in rows.people.sql(query, name))
    if absent:
        raise DataError(
            f"The person column {table.person!r} of {table.label} is missing in {absent:,} rows. "
            "Say whose they are, or leave them out."
        )
