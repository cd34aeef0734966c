"""Every person's rows in a random order, and how many people have each value.

Every row gets a random word, and of a person's rows those with the smallest words are published. So
which rows are withheld depends on nothing that they hold, and everything else sees a table
with at most so many rows of anybody. One byte per row is held in memory. Under a key file the word
belongs to the row's key, so that the same rows of a person are published again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns import Range, Values
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import plain_batch, take_profile, whole_rows
from sfumato.errors import DataError
from sfumato.profile import Histogram, Holders, Profile
from sfumato.scratch import scratch_database
from sfumato.table import MOST_ROWS_PER_PERSON, Source, Table, reading_errors

BEYOND = MOST_ROWS_PER_PERSON + 1
_SCHEMA = pa.schema([("position", pa.int64()), ("word", pa.uint64())])


class ChosenRows(Source):
    """Those rows of a source whose place among their person's rows is at most `most`."""

    def __init__(self, source: Source, places: npt.NDArray[np.uint8], most: int) -> None:
        self.source, self.places, self.most = source, places, most
        self.label, self.schema, self.foreign = source.label, source.schema, source.foreign

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in self.source.batches(columns, rows, threads):
            here = slice(start, start + batch.num_rows)
            places = self.places[here]
            start += batch.num_rows
            if len(places) < batch.num_rows:
                break
            yield batch.filter(pa.array(places <= self.most))  # 0: left out elsewhere
        if start != len(self.places):
            raise DataError(f"{self.label} has other rows than a moment ago. Use a fixed copy.")


@dataclass(frozen=True, eq=False)
class RankedRows:
    """A table of which every row has a random place among its person's rows, from 1; 0 is for rows
    that do not count.

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
        source = ChosenRows(self.table.source, self.places, rows)
        return replace(self.table, source=source, rows_per_person=rows)


def rank_rows(table: Table, draws: Draws) -> RankedRows:
    """Put every person's rows in a random order. DuckDB sorts, and spills where it must."""
    histograms = take_profile(table).histograms
    table = with_domains(table, histograms)
    assert table.person is not None
    kind = table.type_of(table.person)
    schema = _SCHEMA.append(pa.field("person", kind))
    keyed = [str(table.key)] if draws.origin == "key-file" else []
    read = absent = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal read, absent
        for batch in table.batches([str(table.person), *table.sensitive, *keyed]):
            address: Address = Positions(read, batch.num_rows)
            if keyed:
                keys = batch.column(table.key).to_pylist()
                address = draws.persons("rows", [str(key).encode() for key in keys])
            word = draws.words("rows", address)
            position = np.arange(read, read + batch.num_rows)
            read += batch.num_rows
            counted = whole_rows(table, batch)
            person = plain_batch(batch.select([table.person])).column(0)
            taken = pa.RecordBatch.from_arrays(
                [pa.array(position), pa.array(word), person], schema=schema
            )
            taken = taken if counted.all() else taken.filter(pa.array(counted))
            absent += taken.column("person").null_count
            yield taken

    connection = scratch_database()
    connection.register("rows", pa.RecordBatchReader.from_batches(schema, rows()))
    with reading_errors(table.source):
        placed = connection.sql(
            f"""
            SELECT position, least(row_number() OVER mine, {BEYOND})::UTINYINT AS place,
                   count(*) OVER (PARTITION BY person) AS size
            FROM rows WINDOW mine AS (PARTITION BY person ORDER BY word, position)
            """
        ).to_arrow_reader(1 << 17)
        places, sizes = np.empty(0, np.uint8), np.zeros(1, np.int64)
        for batch in placed:
            if not len(places):  # all rows have been read before the first comes back in order
                places = np.zeros(read, np.uint8)
            place, size = batch.column("place").to_numpy(), batch.column("size").to_numpy()
            places[batch.column("position").to_numpy()] = place
            found = np.bincount(size[place == 1], minlength=len(sizes))
            found[: len(sizes)] += sizes
            sizes = found
    refuse_absent(table, absent)
    return RankedRows(table, places, sizes, histograms)


def refuse_absent(table: Table, absent: int) -> None:
    """A row of nobody cannot be protected as anybody's."""
    if absent:
        raise DataError(
            f"The person column {table.person!r} of {table.label} is missing in {absent:,} rows. "
            "Say whose they are, or leave them out."
        )


def with_domains(table: Table, histograms: Mapping[str, Histogram]) -> Table:
    """The table with the sensitive values of all its rows as domains, also of those withheld.

    Else the domain, and the operator with it, would tell which rows were chosen.
    """
    found: dict[str, Values | Range] = {
        column: Values(histogram.values) for column, histogram in histograms.items()
    }
    return replace(table, domains={**table.domains, **found})


def count_holders(table: Table, profile: Profile | None = None) -> dict[str, Holders]:
    """How many people have each value in some row, for every sensitive column.

    >>> from sfumato.table import read
    >>> stays = pa.table({"who": ["a", "a", "b"], "ill": ["flu", "flu", "HIV"]})
    >>> count_holders(read(stays, quasi="", sensitive="ill", person="who"))["ill"].counts.tolist()
    [1, 1]
    """
    assert table.person is not None
    histograms = (profile or take_profile(table)).histograms
    coders = {name: SensitiveCoder(table, name, h.values) for name, h in histograms.items()}
    names = [f"code_{index}" for index in range(len(coders))]
    schema = pa.schema(
        [("person", table.type_of(table.person)), *((name, pa.int64()) for name in names)]
    )

    def coded() -> Iterator[pa.RecordBatch]:
        for batch in table.batches([str(table.person), *coders]):
            batch = batch.filter(pa.array(whole_rows(table, batch)))
            person = plain_batch(batch.select([table.person])).column(0)
            codes = [pa.array(coder(batch.column(name))) for name, coder in coders.items()]
            yield pa.RecordBatch.from_arrays([person, *codes], schema=schema)

    connection = scratch_database()
    connection.register("coded", pa.RecordBatchReader.from_batches(schema, coded()))
    with reading_errors(table.source):
        connection.execute("CREATE TABLE rows AS SELECT DISTINCT * FROM coded")
    (people,) = connection.execute("SELECT count(DISTINCT person) FROM rows").fetchall()[0]
    found = {}
    for name, (column, histogram) in zip(names, histograms.items(), strict=True):
        counts = np.zeros(len(histogram.values), np.int64)
        listed = f"SELECT {name}, count(DISTINCT person) FROM rows GROUP BY ALL"
        for code, count in connection.execute(listed).fetchall():
            counts[code] = count
        found[column] = Holders(column, histogram.values, counts, people)
    return found
