"""Quasi columns in few bins, counted beside the sensitive values: what trees of cuts grow on.

Two passes over the quasi columns in bounded memory: the bins, then the counts. Everything is exact
and the same in whatever order the records come, so every engine finds the same bins and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.blocks import as_codes, as_numbers, near_integers, reached
from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import drop_missing
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, ColumnBins, Profile
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors

BINS = 32  # of a column of numbers: about as many records in each
MOST_VALUES = 62  # of other columns: rarer values share a bin
_FINE = 1 << 16  # different numbers that are counted before they are rounded
_TEXTS = 1 << 14  # a column with more different values is not cut
_WORD = 62  # bits of an integer that are used
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

    def add(self, numbers: FloatArray, counts: IntArray | None = None) -> None:
        """Numbers, or different ones in ascending order that were counted before."""
        keys = _ordered(numbers) >> self.dropped
        if counts is None:
            keys, counts = np.unique(keys, return_counts=True)
        self._merge(keys, counts)

    def add_column(self, array: pa.Array) -> None:
        near = near_integers(array)
        if near is None:
            self.add(as_numbers(array))
        else:
            counts = np.bincount(near[1], minlength=len(near[0]))
            self.add(near[0][counts > 0], counts[counts > 0])

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
            tally.add_column(batch.column(name))
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


@dataclass(frozen=True)
class _Field:
    """Where a bin, or the sensitive code, stands in the integers of a record."""

    word: int
    shift: int
    mask: int

    def __str__(self) -> str:
        return f"((k{self.word} >> {self.shift}) & {self.mask})"

    def of(self, words: Sequence[IntArray]) -> IntArray:
        return np.asarray(words[self.word] >> self.shift & self.mask)


class Packer:
    """The bins of a record and its sensitive code, in as few integers as hold them.

    Earlier bins stand in higher bits, so that records in the order of the integers are in the order
    of their bins. `fields` has a place for every bin, then one for the code.
    """

    def __init__(
        self,
        table: Table,
        column: str,
        values: tuple[Value, ...],
        bins: Sequence[ColumnBins],
        codes: int | None = None,  # how many there are, where they are not those of the values
    ) -> None:
        self._table, self._column, self.bins = table, column, bins
        self._coder = SensitiveCoder(table, column, values)
        self.fields = self._placed(len(values) if codes is None else codes)

    def _placed(self, codes: int) -> list[_Field]:
        bits = [*(each.number.bit_length() for each in self.bins), max(codes.bit_length(), 1)]
        word, used, found = 0, 0, []
        for each in bits:
            if used + each > _WORD:
                word, used = word + 1, 0
            used += each
            found.append(_Field(word, _WORD - used, (1 << each) - 1))
        return found

    @property
    def names(self) -> list[str]:
        return [f"k{n}" for n in range(self.fields[-1].word + 1)]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.int64()) for name in self.names])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = np.zeros((len(self.names), batch.num_rows), np.int64)
        for bins, place in zip(self.bins, self.fields, strict=False):
            own = _bin(bins, batch.column(bins.column)).astype(np.int64)
            keys[place.word] |= own << place.shift
        keys[self.fields[-1].word] |= self.values(batch) << self.fields[-1].shift
        return pa.RecordBatch.from_arrays([pa.array(key) for key in keys], schema=self.schema)

    def values(self, batch: pa.RecordBatch) -> IntArray:
        return self._coder(batch.column(self._column))


def _bin(bins: ColumnBins, array: pa.Array) -> npt.NDArray[np.uint8]:
    if bins.values is None:
        return reached(np.array(bins.edges), array)
    codes, values = as_codes(array)
    place = {value: n for n, value in enumerate(bins.values)}
    return np.array([place.get(value, len(place)) for value in values], np.uint8)[codes]


class CombinationPacker(Packer):
    """The same with the number of a record's combination of all sensitive values."""

    def __init__(self, table: Table, profile: Profile, bins: Sequence[ColumnBins]) -> None:
        assert profile.holdings is not None
        columns = profile.histograms
        first = next(iter(columns))
        super().__init__(table, first, columns[first].values, bins, len(profile.holdings.counts))
        self._coders = {n: SensitiveCoder(table, n, h.values) for n, h in columns.items()}
        self._sizes = tuple(len(histogram.values) for histogram in columns.values())
        held = tuple(profile.holdings.of.T)
        self._known = np.ravel_multi_index(held, self._sizes)  # ascending

    def values(self, batch: pa.RecordBatch) -> IntArray:
        codes = tuple(coder(batch.column(name)) for name, coder in self._coders.items())
        return np.searchsorted(self._known, np.ravel_multi_index(codes, self._sizes))


def count_binned(table: Table, column: str, values: tuple[Value, ...]) -> BinnedCounts:
    """Counts by the bins of all quasi columns and one sensitive column, on this machine."""
    return _counted(table, lambda bins: Packer(table, column, values, bins))


def count_binned_holdings(table: Table, profile: Profile) -> BinnedCounts:
    """People by the bins of quasi columns and by their combination of sensitive values."""
    return _counted(table, lambda bins: CombinationPacker(table, profile, bins))


def _whole(table: Table) -> Iterator[pa.RecordBatch]:
    for batch in table.batches((*table.quasi, *table.sensitive)):
        yield drop_missing(table, batch)


def _counted(table: Table, made: Callable[[Sequence[ColumnBins]], Packer]) -> BinnedCounts:
    found = tallies(table)
    for batch in _whole(table):
        add_batch(found, batch)
    packer = made(bins_of(found))
    packed = (packer(batch) for batch in _whole(table))
    connection = scratch_database(counting=True)
    connection.register("packed", pa.RecordBatchReader.from_batches(packer.schema, packed))
    with reading_errors(table.source):
        connection.execute("CREATE TABLE cells AS SELECT *, count(*) AS n FROM packed GROUP BY ALL")
    return reduced(connection, packer)


def reduced(connection: Any, packer: Packer) -> BinnedCounts:
    """The counts of the table `cells`; of too many cells, those of the columns that tell most."""
    *places, value = packer.fields
    kept = list(range(len(places)))
    ((many,),) = connection.execute("SELECT count(*) FROM cells").fetchall()
    grouped, ranked = "SELECT * FROM cells", list[int]()
    while many > MOST_CELLS:
        ranked = ranked or sorted(kept, key=lambda p: -_told(connection, places[p], value))
        kept.remove(ranked.pop())
        held = [0] * len(packer.names)
        for each in (*(places[p] for p in kept), value):
            held[each.word] |= each.mask << each.shift
        asked = ", ".join(
            f"{name} & {mask} AS {name}" for name, mask in zip(packer.names, held, strict=True)
        )
        grouped = f"SELECT {asked}, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
        ((many,),) = connection.execute(f"SELECT count(*) FROM ({grouped})").fetchall()
    cells = connection.sql(grouped).to_arrow_table()
    words = [cells.column(name).to_numpy() for name in packer.names]
    order = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    words = [word[order] for word in words]
    return BinnedCounts(
        tuple(packer.bins[p] for p in kept),
        tuple(places[p].of(words).astype(np.uint8) for p in kept),
        value.of(words),
        cells.column("n").to_numpy()[order],
    )


def _told(connection: Any, place: _Field, value: _Field) -> float:
    """The mutual information of one column's bins and the sensitive values, up to a constant."""
    found = connection.execute(
        f"SELECT {place} AS bin, {value} AS value, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
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
