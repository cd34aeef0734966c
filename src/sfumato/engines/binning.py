"""Quasi columns in few bins, counted beside the sensitive values: what trees of cuts grow on.

Everything is exact and the same in whatever order the records come, so every engine finds the same
bins and counts.
"""

from __future__ import annotations

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


def count_binned(table: Table, holdings: Holdings) -> BinnedCounts:
    """People by the bins of all quasi columns and by what they have in the sensitive ones; of too
    many cells, those of the columns that tell most."""
    table = stage(table)
    bins = {f"b{index}": column_bins for index, column_bins in enumerate(bins_of(table))}
    schema = pa.schema([*((name, pa.int8()) for name in bins), ("held", pa.int64())])

    def binned(batch: pa.RecordBatch) -> pa.RecordBatch:
        codes = codes_of(batch, [view.column for view in holdings.columns])
        arrays = [one.of(batch.column(one.column)).astype(np.int8) for one in bins.values()]
        held = holdings.numbers(codes)
        return pa.RecordBatch.from_arrays(list(map(pa.array, [*arrays, held])), schema=schema)

    people = staged(table).map((*table.quasi, *table.sensitive), binned, schema)
    connection = scratch_database(counting=True)
    stream = people.counted(*schema.names)
    counted = schema.append(pa.field("n", pa.int64()))
    connection.register("counted", pa.RecordBatchReader.from_batches(counted, stream))
    connection.execute("CREATE TABLE cells AS SELECT * FROM counted")
    kept, grouped, ranked = list(bins), "SELECT * FROM cells", list[str]()
    while connection.execute(f"SELECT count(*) FROM ({grouped})").fetchall()[0][0] > MOST_CELLS:
        ranked = ranked or sorted(kept, key=lambda name: -_told(connection, name))
        kept.remove(ranked.pop())
        asked = ", ".join([*kept, "held"])
        grouped = f"SELECT {asked}, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
    cells = connection.sql(f"{grouped} ORDER BY ALL").to_arrow_table()
    *codes, held, n = (column.to_numpy() for column in cells.columns)
    small = tuple(code.astype(np.uint8) for code in codes)
    return BinnedCounts(tuple(bins[name] for name in kept), small, held, n)


def _told(connection: Any, column: str) -> float:
    """The mutual information of one column's bins and the sensitive values, up to a constant."""
    counted = connection.execute(
        f"SELECT {column} AS bin, held, sum(n)::BIGINT AS n FROM cells GROUP BY ALL"
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
