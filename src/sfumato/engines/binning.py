"""Quasi columns in few bins, counted beside the sensitive values: what trees of cuts grow on.

Two passes over the quasi columns in bounded memory: the bins, then the counts. Everything is exact
and the same in whatever order the records come, so every engine finds the same bins and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.blocks import as_codes, as_numbers
from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import drop_missing
from sfumato.engines.kinds import CountedKinds
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, ColumnBins, Profile
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors

BINS = 32  # of a column of numbers: about as many records in each
MOST_VALUES = 62  # of other columns: rarer values share a bin
_FINE = 1 << 16  # different numbers that are counted before they are rounded
_TEXTS = 1 << 14  # a column with more different values is not cut
_BITS = 6  # of a bin's number
_PACKED = 10  # bins in one integer
MOST_CELLS = 1 << 22  # cells that planning holds
KIND = "sfumato kind"  # the column that a person's kind stands in


@dataclass
class NumberTally:
    """Different numbers of a column with their counts; of many, rounded ones.

    Numbers are told apart by their leading bits, as many as leave at most `_FINE` of them: how
    many that is depends on all the numbers and not on their order.

    >>> tally = NumberTally()
    >>> tally.add(np.array([3.0, 1.0, 3.0]))
    >>> tally.edges(2)
    (3.0,)
    """

    keys: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    counts: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    dropped: int = 0  # bits

    def add(self, numbers: FloatArray) -> None:
        keys, counts = np.unique(_ordered(numbers) >> self.dropped, return_counts=True)
        self._merge(keys, counts.astype(np.int64))

    def learn(self, other: NumberTally) -> None:
        """Know of what was counted elsewhere."""
        self._round(other.dropped - self.dropped)
        self._merge(other.keys >> (self.dropped - other.dropped), other.counts)

    def _merge(self, keys: IntArray, counts: IntArray) -> None:
        both = np.concatenate([self.keys, keys])
        self.keys, place = np.unique(both, return_inverse=True)
        whole = np.zeros(len(self.keys), np.int64)
        np.add.at(whole, place, np.concatenate([self.counts, counts]))
        self.counts = whole
        while len(self.keys) > _FINE:
            self._round(1)

    def _round(self, bits: int) -> None:
        if bits > 0:
            self.dropped += bits
            keys, counts = self.keys >> bits, self.counts
            starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
            self.keys = keys[starts]
            self.counts = np.add.reduceat(counts, starts) if len(starts) else counts

    def edges(self, bins: int = BINS) -> tuple[float, ...]:
        """Where each of about equally full bins begins, the first left out."""
        begins = np.arange(len(self.keys))
        if len(begins) > bins:
            before = np.cumsum(self.counts) - self.counts
            wanted = np.arange(1, bins) * int(self.counts.sum()) // bins
            begins = np.unique(np.searchsorted(before, wanted, side="left"))
            begins = begins[begins < len(self.keys)]
        found = _number(self.keys[begins[begins > 0]] << self.dropped)
        return tuple(found[np.isfinite(found)].tolist())


@dataclass
class ValueTally:
    """Different values of a column with their counts; nothing where they are too many."""

    counts: dict[Value, int] = field(default_factory=dict)
    many: bool = False

    def add(self, array: pa.Array) -> None:
        if not self.many:
            codes, values = as_codes(array)
            found = np.bincount(codes, minlength=len(values)).tolist()
            self._merge({v: n for v, n in zip(values, found, strict=True) if n})

    def learn(self, other: ValueTally) -> None:
        self.many |= other.many
        self._merge(other.counts)

    def _merge(self, counts: dict[Value, int]) -> None:
        for value, count in counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > _TEXTS:
            self.many = True
        if self.many:
            self.counts = {}

    def values(self) -> tuple[Value, ...]:
        """The commonest; of equally common ones those that come first as text."""
        order = sorted(self.counts, key=lambda value: (-self.counts[value], str(value)))
        return tuple(sorted(order[:MOST_VALUES], key=str))


Tally = NumberTally | ValueTally


def tallies(table: Table) -> dict[str, Tally]:
    """An empty tally for every quasi column."""
    numeric = {name for name in table.quasi if table.kinds[name] == "numeric"}
    return {name: NumberTally() if name in numeric else ValueTally() for name in table.quasi}


def add_batch(found: dict[str, Tally], batch: pa.RecordBatch) -> None:
    for name, tally in found.items():
        if isinstance(tally, NumberTally):
            tally.add(as_numbers(batch.column(name)))
        else:
            tally.add(batch.column(name))


def bins_of(found: dict[str, Tally]) -> tuple[ColumnBins, ...]:
    """The bins of the columns that can be cut."""
    bins = [
        ColumnBins(name, edges=tally.edges())
        if isinstance(tally, NumberTally)
        else ColumnBins(name, values=tally.values())
        for name, tally in found.items()
    ]
    return tuple(each for each in bins if (each.edges if each.values is None else each.values))


class Packer:
    """The bins of a record as integers of ten bins each, beside its sensitive code."""

    def __init__(
        self, table: Table, column: str, values: tuple[Value, ...], bins: Sequence[ColumnBins]
    ) -> None:
        self._table, self._column, self.bins = table, column, bins
        self._coder = SensitiveCoder(table, column, values)
        self.names = [f"k{n}" for n in range(-(-len(bins) // _PACKED))]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.int64()) for name in (*self.names, "value")])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = np.zeros((len(self.names), batch.num_rows), np.int64)
        for place, bins in enumerate(self.bins):
            key = keys[place // _PACKED]
            key |= _bin(bins, batch.column(bins.column)) << (_BITS * (place % _PACKED))
        arrays = [pa.array(key) for key in keys]
        return pa.RecordBatch.from_arrays(
            [*arrays, pa.array(self.values(batch))], schema=self.schema
        )

    def values(self, batch: pa.RecordBatch) -> IntArray:
        return self._coder(batch.column(self._column))


def _bin(bins: ColumnBins, array: pa.Array) -> IntArray:
    if bins.values is None:
        return np.searchsorted(np.array(bins.edges), as_numbers(array), side="right")
    codes, values = as_codes(array)
    place = {value: n for n, value in enumerate(bins.values)}
    return np.array([place.get(value, len(place)) for value in values], np.int64)[codes]


class CombinationPacker(Packer):
    """The same with the number of a record's combination of all sensitive values."""

    def __init__(self, table: Table, profile: Profile, bins: Sequence[ColumnBins]) -> None:
        assert profile.kinds is not None
        columns = profile.histograms
        first = next(iter(columns))
        super().__init__(table, first, columns[first].values, bins)
        self._coders = {n: SensitiveCoder(table, n, h.values) for n, h in columns.items()}
        self._sizes = tuple(len(histogram.values) for histogram in columns.values())
        held = profile.kinds.held[:, 0]
        self._known = np.ravel_multi_index(tuple(held.T), self._sizes)  # ascending

    def values(self, batch: pa.RecordBatch) -> IntArray:
        codes = tuple(coder(batch.column(name)) for name, coder in self._coders.items())
        return np.searchsorted(self._known, np.ravel_multi_index(codes, self._sizes))


class KindPacker(Packer):
    """The same with the kind of a person, which stands beside the columns."""

    def values(self, batch: pa.RecordBatch) -> IntArray:
        return np.asarray(batch.column(KIND).to_numpy(), np.int64)


def count_binned(table: Table, column: str, values: tuple[Value, ...]) -> BinnedCounts:
    """Counts by the bins of all quasi columns and one sensitive column, on this machine."""
    return _counted(table, lambda bins: Packer(table, column, values, bins))


def count_binned_kinds(table: Table, profile: Profile, counted: CountedKinds) -> BinnedCounts:
    """People by the bins of quasi columns and by all that they hold.

    People with several rows count once, by those columns that are alike in all of them.
    """
    if counted.row_kinds is None:
        return _counted(table, lambda bins: CombinationPacker(table, profile, bins))
    narrow = replace(table, quasi=table.person_columns)
    first = next(iter(profile.histograms.values()))

    def people() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in _whole(narrow):
            rows = slice(start, start + batch.num_rows)
            start += batch.num_rows
            kinds = pa.array(counted.row_kinds[rows])  # type: ignore[index]
            yield batch.append_column(KIND, kinds).filter(pa.array(counted.first_rows[rows]))

    return _counted(
        narrow, lambda bins: KindPacker(narrow, first.column, first.values, bins), people
    )


def _whole(table: Table) -> Iterator[pa.RecordBatch]:
    for batch in table.batches((*table.quasi, *table.sensitive)):
        yield drop_missing(table, batch)


def _counted(
    table: Table,
    made: Callable[[Sequence[ColumnBins]], Packer],
    rows: Callable[[], Iterator[pa.RecordBatch]] | None = None,
) -> BinnedCounts:
    read = rows or (lambda: _whole(table))
    found = tallies(table)
    for batch in read():
        add_batch(found, batch)
    packer = made(bins_of(found))
    packed = (packer(batch) for batch in read())
    connection = scratch_database()
    connection.register("packed", pa.RecordBatchReader.from_batches(packer.schema, packed))
    with reading_errors(table.source):
        connection.execute("CREATE TABLE cells AS SELECT *, count(*) AS n FROM packed GROUP BY ALL")
    return reduced(connection, packer)


def reduced(connection: Any, packer: Packer) -> BinnedCounts:
    """The counts of the table `cells`; of too many cells, those of the columns that tell most."""
    bins, shift = packer.bins, "(k{} >> {}) & 63"
    kept = list(range(len(bins)))
    taken = [shift.format(p // _PACKED, _BITS * (p % _PACKED)) for p in kept]
    ranked: list[int] | None = None
    while True:
        asked = ", ".join([*(f"({taken[p]})::UTINYINT AS c{p}" for p in kept), "value"])
        grouped = f"SELECT {asked}, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
        many = connection.execute(f"SELECT count(*) FROM ({grouped})").fetchall()[0][0]
        if many <= MOST_CELLS:
            break
        if ranked is None:
            ranked = sorted(kept, key=lambda p: _told(connection, taken[p]))
        kept.remove(ranked.pop(0))
    order = ", ".join([*(f"c{p}" for p in kept), "value"])
    cells = connection.sql(f"{grouped} ORDER BY {order}").to_arrow_table()
    return BinnedCounts(
        tuple(bins[p] for p in kept),
        tuple(cells.column(f"c{p}").to_numpy() for p in kept),
        cells.column("value").to_numpy(),
        cells.column("n").to_numpy(),
    )


def _told(connection: Any, taken: str) -> float:
    """The mutual information of one column's bins and the sensitive values, up to a constant."""
    found = connection.execute(
        f"SELECT {taken} AS bin, value, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
    ).fetchnumpy()
    joint, bins = found["n"].astype(float), np.asarray(found["bin"], np.int64)
    alone = np.bincount(bins, joint)
    alone = alone[alone > 0]
    return float(joint @ np.log(joint) - alone @ np.log(alone))


def _ordered(numbers: FloatArray) -> IntArray:
    """Integers in the order of the numbers, which they stand for bit by bit; −0 is 0."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, ~bits ^ np.int64(-(1 << 63)), bits)


def _number(keys: IntArray) -> npt.NDArray[np.float64]:
    bits = np.where(keys < 0, ~(keys ^ np.int64(-(1 << 63))), keys)
    return bits.view(np.float64)
