"""Every person's rows in a random order, and how many people have each value.

Every row gets a random word, and of a person's rows those with the smallest words are published. So
which rows are withheld depends on nothing that they hold, and the rest of the house sees a table
with at most so many rows of anybody. One byte per row is held in memory. Under a key file the word
belongs to the row's key, so that the same rows of a person are published again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns import Range, Values
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.choosing import AllCounts, TableCounts
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import plain_batch, take_profile, whole_rows
from sfumato.errors import DataError
from sfumato.profile import Histogram, Holders, Profile
from sfumato.scratch import scratch_database
from sfumato.table import MOST_ROWS_PER_PERSON, Source, Table, reading_errors

BEYOND = MOST_ROWS_PER_PERSON + 1
_SCHEMA = pa.schema([("position", pa.int64()), ("word", pa.uint64())])


class ChosenRows(Source):
    """Those rows of a source whose place among their person's rows is at most `most`, row by row.

    Where everybody shows as many rows, `most` is one number.
    """

    def __init__(
        self, source: Source, places: npt.NDArray[np.uint8], most: npt.NDArray[np.uint8]
    ) -> None:
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
            most = self.most[here] if len(self.most) > 1 else self.most
            yield batch.filter(pa.array(places <= most))  # 0: left out elsewhere
        if start != len(self.places):
            raise DataError(f"{self.label} has other rows than a moment ago. Use a fixed copy.")


class RankedRows(ABC):
    """A table of which every row has a random place among its person's rows.

    `sizes[n]` people have n rows.
    """

    table: Table
    sizes: IntArray

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

    def withheld(self, shown: Sequence[int]) -> int:
        """How many rows stay out where people with n rows show `shown[n − 1]`, or the last."""
        rows = np.arange(len(self.sizes))
        stays = np.array([0, *shown])[np.minimum(rows, len(shown))]
        return int(((rows - stays) * self.sizes).sum())

    @abstractmethod
    def chosen(self, shown: Sequence[int]) -> Table:
        """The table of the published rows."""

    @abstractmethod
    def person_columns(self) -> tuple[str, ...]:
        """The quasi columns that are alike in all rows of every person, withheld ones among them.

        It follows from nothing that is hidden, and not from which rows were chosen.
        """

    @abstractmethod
    def counts(self, table: Table) -> AllCounts:
        """Who counts such a table, where it lies."""

    @abstractmethod
    def holders(self, table: Table) -> dict[str, Holders]:
        """How many people have each value in some row of such a table, by sensitive column."""


def all_shown(shown: Sequence[int]) -> bool:
    """Whether people show all their rows, up to the last number.

    >>> all_shown([1, 2, 3]), all_shown([1, 1, 3])
    (True, False)
    """
    return all(number == place for place, number in enumerate(shown, start=1))


@dataclass(frozen=True, eq=False)
class PlacedRows(RankedRows):
    """On this machine: the place of every row, from 1, and 0 for rows that do not count.

    `own[i]` is how many rows the person of row i has, up to a limit.
    """

    table: Table
    places: npt.NDArray[np.uint8]
    sizes: IntArray
    own: npt.NDArray[np.uint8]

    def chosen(self, shown: Sequence[int]) -> Table:
        most = np.array(shown[-1:], np.uint8)
        if not all_shown(shown):
            most = np.array([0, *shown], np.uint8)[np.minimum(self.own, len(shown))]
        source = ChosenRows(self.table.source, self.places, most)
        return replace(self.table, source=source, rows_per_person=max(shown))

    def person_columns(self) -> tuple[str, ...]:
        return find_person_columns(self.table)

    def counts(self, table: Table) -> AllCounts:
        return TableCounts(table)

    def holders(self, table: Table) -> dict[str, Holders]:
        return count_holders(table)


def rank_rows(table: Table, draws: Draws) -> PlacedRows:
    """Put every person's rows in a random order. DuckDB sorts, and spills where it must."""
    table = with_domains(table, take_profile(table).histograms)
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
        places, own, sizes = np.empty(0, np.uint8), np.empty(0, np.uint8), np.zeros(1, np.int64)
        for batch in placed:
            if not len(places):  # all rows have been read before the first comes back in order
                places, own = np.zeros(read, np.uint8), np.zeros(read, np.uint8)
            place, size = batch.column("place").to_numpy(), batch.column("size").to_numpy()
            position = batch.column("position").to_numpy()
            places[position], own[position] = place, np.minimum(size, BEYOND)
            found = np.bincount(size[place == 1], minlength=len(sizes))
            found[: len(sizes)] += sizes
            sizes = found
    refuse_absent(table, absent)
    return PlacedRows(table, places, sizes, own)


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


def find_person_columns(table: Table) -> tuple[str, ...]:
    """The quasi columns that are alike in all rows of every person, a missing value being one.

    >>> from sfumato.table import read
    >>> stays = pa.table({"who": [1, 1, 2], "sex": ["f", "f", "m"], "day": [3, 4, 5],
    ...                   "ill": ["flu", "HIV", "flu"]})
    >>> find_person_columns(read(stays, quasi="sex,day", sensitive="ill", person="who"))
    ('sex',)
    """
    if not table.quasi:
        return ()
    columns = [str(table.person), *table.quasi]
    names = ["person", *(f"q{place}" for place in range(len(table.quasi)))]
    schema = pa.schema(
        [(name, table.type_of(own)) for name, own in zip(names, columns, strict=True)]
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in table.batches(list(dict.fromkeys([*columns, *table.sensitive]))):
            batch = batch.filter(pa.array(whole_rows(table, batch)))
            plain = plain_batch(batch.select(columns))
            yield pa.RecordBatch.from_arrays(plain.columns, schema=schema)

    alike = ", ".join(
        f"min({name}) IS NOT DISTINCT FROM max({name}) AND count({name}) IN (0, count(*)) AS {name}"
        for name in names[1:]
    )
    every = ", ".join(f"bool_and({name})" for name in names[1:])
    connection = scratch_database()
    connection.register("rows", pa.RecordBatchReader.from_batches(schema, rows()))
    with reading_errors(table.source):
        (found,) = connection.execute(
            f"SELECT {every} FROM (SELECT {alike} FROM rows GROUP BY person)"
        ).fetchall()
    return tuple(name for name, same in zip(table.quasi, found, strict=True) if same)


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
