"""Quasi columns in few bins, counted beside the sensitive values: what trees of cuts grow on.

Everything is exact and the same in whatever order the records come, so every engine finds the same
bins and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.blocks import ColumnBins, as_numbers
from sfumato.columns import Value, value_to_json
from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Holdings
from sfumato.scratch import scratch_database
from sfumato.table import Table
from sfumato.table.staging import Staged, codes_of, stage, staged

BINS = 32  # of a column of numbers: about as many records in each
MOST_VALUES = 62  # of other columns: rarer values share a bin
_FINE = 1 << 16  # different numbers that are counted before they are rounded
_TEXTS = 1 << 14  # a column with more different values is not cut
_WORD = 62  # bits of an integer that are used
MOST_CELLS = 1 << 22  # cells that planning holds


@dataclass
class NumberTally:
    """Different numbers of a column with their counts; of many, rounded ones.

    Numbers are told apart by their leading bits, as many as leave at most `_FINE` of them: how
    many that is depends on all the numbers and not on their order.

    >>> tally = NumberTally()
    >>> tally.add(np.array([3.0, 1.0]), np.array([2, 1]))
    >>> tally.edges(2)
    (3.0,)
    """

    keys: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    counts: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    dropped: int = 0  # bits

    def add(self, numbers: FloatArray, counts: IntArray) -> None:
        self._merge(_ordered(numbers) >> self.dropped, counts)

    def _merge(self, keys: IntArray, counts: IntArray) -> None:
        both = np.concatenate([self.keys, keys])
        self.keys, inverse = np.unique(both, return_inverse=True)
        whole = np.zeros(len(self.keys), np.int64)
        np.add.at(whole, inverse, np.concatenate([self.counts, counts]))
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
        numbers = _number(self.keys[begins[begins > 0]] << self.dropped)
        return tuple(numbers[np.isfinite(numbers)].tolist())


def bins_of(table: Table) -> tuple[ColumnBins, ...]:
    """The bins of the quasi columns that can be cut."""
    bins = []
    for name in table.quasi:
        numeric = table.kinds[name] == "numeric"
        bins.append((_number_bins if numeric else _value_bins)(staged(table), name))
    return tuple(
        column_bins
        for column_bins in bins
        if (column_bins.edges if column_bins.values is None else column_bins.values)
    )


def _number_bins(rows: Staged, name: str) -> ColumnBins:
    tally = NumberTally()
    for batch in rows.people.counted(rows.columns[name]):
        tally.add(as_numbers(batch.column(0)), batch.column("n").to_numpy())
    return ColumnBins(name, edges=tally.edges())


def _value_bins(rows: Staged, name: str) -> ColumnBins:
    """The commonest values; of equally common ones those that come first as text."""
    counts: dict[Value, int] = {}
    for batch in rows.people.counted(rows.columns[name]):
        shown = map(value_to_json, rows.restored(name, batch.column(0)).to_pylist())
        counts |= zip(shown, batch.column("n").to_pylist(), strict=True)
        if len(counts) > _TEXTS:
            return ColumnBins(name, values=())
    order = sorted(counts, key=lambda value: (-counts[value], str(value)))
    return ColumnBins(name, values=tuple(sorted(order[:MOST_VALUES], key=str)))


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
    """The bins of a record and the number of what it holds, in as few integers as hold them.

    Earlier bins stand in higher bits, so that records in the order of the integers are in the order
    of their bins. `fields` has a place for every bin, then one for the number.
    """

    def __init__(self, holdings: Holdings, bins: Sequence[ColumnBins]) -> None:
        self.bins, self._holdings = bins, holdings
        bits = [column_bins.number.bit_length() for column_bins in bins]
        bits.append(max(len(holdings.counts).bit_length(), 1))
        word, used, self.fields = 0, 0, list[_Field]()
        for bit in bits:
            if used + bit > _WORD:
                word, used = word + 1, 0
            used += bit
            self.fields.append(_Field(word, _WORD - used, (1 << bit) - 1))
        self.names = [f"k{n}" for n in range(word + 1)]
        self.schema = pa.schema([(name, pa.int64()) for name in self.names])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = np.zeros((len(self.names), batch.num_rows), np.int64)
        for bins, bin_field in zip(self.bins, self.fields, strict=False):
            bin_codes = bins.of(batch.column(bins.column)).astype(np.int64)
            keys[bin_field.word] |= bin_codes << bin_field.shift
        codes = codes_of(batch, [view.column for view in self._holdings.columns])
        keys[self.fields[-1].word] |= self._holdings.numbers(codes) << self.fields[-1].shift
        return pa.RecordBatch.from_arrays([pa.array(key) for key in keys], schema=self.schema)


def count_binned(table: Table, holdings: Holdings) -> BinnedCounts:
    """People by the bins of all quasi columns and by what they have in the sensitive ones."""
    table = stage(table)
    packer = Packer(holdings, bins_of(table))
    columns = (*table.quasi, *table.sensitive)
    packed = staged(table).map(columns, packer, packer.schema).counted(*packer.names)
    connection = scratch_database(counting=True)
    schema = packer.schema.append(pa.field("n", pa.int64()))
    connection.register("counted", pa.RecordBatchReader.from_batches(schema, packed))
    connection.execute("CREATE TABLE cells AS SELECT * FROM counted")
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
        totals = [0] * len(packer.names)
        for key in (*(places[p] for p in kept), value):
            totals[key.word] |= key.mask << key.shift
        asked = ", ".join(
            f"{name} & {mask} AS {name}" for name, mask in zip(packer.names, totals, strict=True)
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
    counted = connection.execute(
        f"SELECT {place} AS bin, {value} AS value, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
    ).fetchnumpy()
    joint, bins = counted["n"].astype(float), np.asarray(counted["bin"], np.int64)
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
