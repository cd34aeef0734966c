"""Every person's rows in a random order, and how many people have each value.

Every row gets a random word, and of a person's rows those with the smallest words are published. So
which rows are withheld depends on nothing that they hold, and everything else sees a table
with at most so many rows of anybody. One byte per row is held in memory. Under a key file the word
belongs to the row's key, so that the same rows of a person are published again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.counting import take_profile
from sfumato.errors import DataError
from sfumato.profile import Histogram
from sfumato.table import MOST_ROWS_PER_PERSON, Table
from sfumato.table.staging import LocalStaged, Staged, stage, staged

BEYOND = MOST_ROWS_PER_PERSON + 1


@dataclass(frozen=True, eq=False)
class RankedRows:
    """A table of which every row has a random place among its person's rows, from 1.

    `sizes[n]` people have n rows.
    """

    table: Table
    places: npt.NDArray[np.uint8]
    sizes: IntArray
    histograms: Mapping[str, Histogram]  # of all rows

    @property
    def people(self) -> int:
        return int(self.sizes.sum())

    @property
    def rows(self) -> int:
        return int((np.arange(len(self.sizes)) * self.sizes).sum())

    @property
    def most(self) -> int:
        """How many rows the person with the most has."""
        return len(self.sizes) - 1

    def withheld(self, rows: int) -> int:
        """How many rows stay out where people show at most so many."""
        return int((np.maximum(np.arange(len(self.sizes)) - rows, 0) * self.sizes).sum())

    def chosen(self, rows: int) -> Table:
        """The table with at most so many rows of each person."""
        rows_here = staged(self.table)
        assert isinstance(rows_here, LocalStaged)
        source = rows_here.chosen(self.places <= rows)
        return replace(self.table, source=source, rows_per_person=rows)


def rank_rows(table: Table, draws: Draws) -> RankedRows:
    """Put every person's rows in a random order. DuckDB sorts, and spills where it must."""
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
        f"SELECT place, least(row_number() OVER (PARTITION BY {person} ORDER BY word, place), "
        f"{BEYOND}) AS rank, count(*) OVER (PARTITION BY {person}) AS size FROM people"
    )
    places, sizes = np.zeros(rows.number, np.uint8), np.zeros(1, np.int64)
    for batch in people.sql(query, "place", "word", person):
        rank, size = batch.column("rank").to_numpy(), batch.column("size").to_numpy()
        places[batch.column("place").to_numpy()] = rank
        people_by_rows = np.bincount(size[rank == 1], minlength=len(sizes))
        people_by_rows[: len(sizes)] += sizes
        sizes = people_by_rows
    return RankedRows(table, places, sizes, histograms)


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
