"""Quasi-identifiers in few bins, counted: what trees of cuts grow on; and what cells hold.

Bins, cells and weights follow from quasi-identifiers alone (methods, section 7). Everything is
exact and the same in whatever order the records come, so every engine finds the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.blocks import ColumnBins, Edge, as_numbers
from sfumato.columns import Values, value_to_json
from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.entropy import UNIT, entropy, floored, information
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Holdings, QuasiCells
from sfumato.scratch import scratch_database
from sfumato.table import Table
from sfumato.table.staging import Staged, codes_of, ordered_domain, stage, staged

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BINS = 32  # of a column of numbers: about as many records in each
MOST_VALUES = 62  # of other columns: rarer values share a bin
_FINE = 1 << 16  # different numbers that are counted before they are rounded
_TEXTS = 1 << 14  # a column with more different values is not cut
MOST_CELLS = 1 << 22  # that planning holds
_LONGEST = 1 << 62  # of a key that packs the bins of several columns
_LEAST_WEIGHT = UNIT // 50
_AT_ONCE = 1 << 20  # cells


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
    """The bins of the quasi-identifiers that can be cut."""
    rows = staged(table)
    return tuple(
        bins
        for name in table.quasi
        if (bins := (_ordered_bins if _has_order(table, name) else _value_bins)(table, rows, name))
    )


def _has_order(table: Table, name: str) -> bool:
    """Whether bins are runs of values: of numbers, dates, times and recoded intervals."""
    recodes = table.recodes.get(name)
    intervals = recodes is not None and recodes.bins is not None
    return intervals or table.kinds[name] == "numeric" or pa.types.is_temporal(table.type_of(name))


def _ordered_bins(table: Table, rows: Staged, name: str) -> ColumnBins | None:
    tally = NumberTally()
    for batch in rows.people.counted(rows.columns[name]):
        numbers = as_numbers(rows.restored(name, batch.column(0)))
        tally.add(numbers, batch.column("n").to_numpy())
    kind = table.type_of(name)
    edges: tuple[Edge, ...] = tuple(int(n) if n.is_integer() else n for n in tally.edges())
    if pa.types.is_temporal(kind):
        edges = tuple(map(value_to_json, _moments(edges, kind).to_pylist()))
    return ColumnBins(name, edges=edges) if edges else None


def _moments(microseconds: Sequence[Edge], kind: pa.DataType) -> pa.Array:
    """Dates and times that so many microseconds stand for, in UTC where there is a zone."""
    whole = pa.array([int(number) for number in microseconds], pa.int64())
    if pa.types.is_time(kind):
        return whole.cast(pa.time64("us"))
    zone = "UTC" if pa.types.is_timestamp(kind) and kind.tz else None
    moments = whole.cast(pa.timestamp("us", zone))
    return moments.cast(pa.date32(), safe=False) if pa.types.is_date(kind) else moments


def _value_bins(table: Table, rows: Staged, name: str) -> ColumnBins | None:
    """The commonest values, in the order of the domain; of equally common ones the first."""
    found, counts = [], list[int]()
    for batch in rows.people.counted(rows.columns[name]):
        found.append(rows.restored(name, batch.column(0)))
        counts += batch.column("n").to_pylist()
        if len(counts) > _TEXTS:
            return None
    values, stated = pa.chunked_array(found).combine_chunks(), table.domains.get(name)
    domain = ordered_domain(values, stated.values if isinstance(stated, Values) else ()).to_pylist()
    place = {value: number for number, value in enumerate(domain)}
    count = dict.fromkeys(range(len(domain)), 0)
    count |= zip(map(place.__getitem__, values.to_pylist()), counts, strict=True)
    named = [number for number, value in enumerate(domain) if value is not None and count[number]]
    common = sorted(sorted(named, key=lambda number: (-count[number], number))[:MOST_VALUES])
    if not common or count[common[0]] == rows.number:
        return None
    return ColumnBins(name, values=tuple(value_to_json(domain[number]) for number in common))


# -- cells -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Keys:
    """Bins of columns packed into few whole numbers, `k0` first; the first column leads."""

    columns: tuple[ColumnBins, ...]

    @property
    def groups(self) -> list[list[int]]:
        """The columns that share a number."""
        groups, product = [list[int]()], 1
        for index, bins in enumerate(self.columns):
            product *= bins.number
            if product > _LONGEST:
                groups.append([])
                product = bins.number
            groups[-1].append(index)
        return groups

    @property
    def names(self) -> list[str]:
        return [f"k{number}" for number in range(len(self.groups))]

    def packed(self, batch: pa.RecordBatch) -> list[IntArray]:
        keys = []
        for group in self.groups:
            key = np.zeros(batch.num_rows, np.int64)
            for index in group:
                bins = self.columns[index]
                key *= bins.number
                key += bins.of(batch.column(bins.column))
            keys.append(key)
        return keys

    def unpacked(self, keys: Sequence[IntArray]) -> list[npt.NDArray[np.uint8]]:
        """The bins by column."""
        codes = list[npt.NDArray[np.uint8]]()
        for group, key in zip(self.groups, keys, strict=True):
            rest, of_group = key, []
            for index in reversed(group):
                rest, code = np.divmod(rest, self.columns[index].number)
                of_group.append(code.astype(np.uint8))
            codes += reversed(of_group)
        return codes

    def without(self, left_out: int) -> tuple[_Keys, str]:
        """The keys without a column, and what they are in SQL over the keys with it."""
        columns = tuple(b for n, b in enumerate(self.columns) if n != left_out)
        digits = dict[int, str]()
        for name, group in zip(self.names, self.groups, strict=True):
            place = 1
            for index in reversed(group):
                digits[index] = f"({name} // {place}) % {self.columns[index].number}"
                place *= self.columns[index].number
        kept, made = [digits[n] for n in range(len(self.columns)) if n != left_out], _Keys(columns)
        sums = []
        for name, group in zip(made.names, made.groups, strict=True):
            text = "0"
            for index in group:
                text = f"({text}) * {columns[index].number} + {kept[index]}"
            sums.append(f"({text})::BIGINT AS {name}")
        return made, ", ".join(sums)


def count_quasi(table: Table) -> QuasiCells:
    """People by the bins of all quasi-identifiers; see `count_binned`."""
    return _counted(table, None).cells


def count_binned(table: Table, holdings: Holdings) -> BinnedCounts:
    """People by the bins of all quasi-identifiers, and by what they have; of too many cells,
    columns that go least with the others are left out."""
    return _counted(table, holdings)


def _counted(table: Table, holdings: Holdings | None) -> BinnedCounts:
    table = stage(table)
    keys = _Keys(bins_of(table))
    schema = pa.schema([(name, pa.int64()) for name in [*keys.names, "held"]])

    def binned(batch: pa.RecordBatch) -> pa.RecordBatch:
        held = np.zeros(batch.num_rows, np.int64)
        if holdings is not None:
            held = holdings.numbers(codes_of(batch, [view.column for view in holdings.columns]))
        arrays = [pa.array(array) for array in (*keys.packed(batch), held)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    asked = [bins.column for bins in keys.columns]
    asked += () if holdings is None else table.sensitive
    stream = staged(table).map(asked, binned, schema).counted(*schema.names)
    connection = scratch_database(counting=True)
    counted = schema.append(pa.field("n", pa.int64()))
    connection.register("counted", pa.RecordBatchReader.from_batches(counted, stream))
    connection.execute("CREATE TABLE people AS SELECT * FROM counted")
    keys, weights = _fitting(connection, keys)
    named = ", ".join(keys.names)
    entries = connection.sql(
        f"SELECT {named}, held, sum(n)::BIGINT AS n FROM people GROUP BY ALL ORDER BY ALL"
    ).to_arrow_table()
    *packed, held, n = (column.to_numpy() for column in entries.columns)
    begins = np.logical_or.reduce([np.diff(key, prepend=-1) != 0 for key in packed])
    first, cell = np.flatnonzero(begins), np.cumsum(begins) - 1
    codes = tuple(keys.unpacked([key[first] for key in packed]))
    people = np.add.reduceat(n, first)
    return BinnedCounts(QuasiCells(keys.columns, codes, people, weights), cell, held, n)


def _fitting(connection: DuckDBPyConnection, keys: _Keys) -> tuple[_Keys, tuple[int, ...]]:
    """The columns whose cells can be held, and their weights."""
    weights = list(_weights(keys, _cells(connection, keys)))
    while True:
        cells = f"SELECT DISTINCT {', '.join(keys.names)} FROM people"
        if connection.execute(f"SELECT count(*) FROM ({cells})").fetchall()[0][0] <= MOST_CELLS:
            return keys, tuple(weights)
        last = min(range(len(weights)), key=lambda n: (weights[n], -n))
        keys, shown = keys.without(last)
        del weights[last]
        connection.execute(
            f"CREATE OR REPLACE TABLE people AS SELECT {shown}, held, sum(n)::BIGINT AS n "
            "FROM people GROUP BY ALL"
        )


def _cells(
    connection: DuckDBPyConnection, keys: _Keys
) -> Iterator[tuple[list[npt.NDArray[np.uint8]], IntArray]]:
    """The bins by column and the people of all cells, some at a time."""
    reader = connection.sql(
        f"SELECT {', '.join(keys.names)}, sum(n)::BIGINT AS n FROM people GROUP BY ALL"
    ).to_arrow_reader(_AT_ONCE)
    for batch in reader:
        *packed, n = (column.to_numpy() for column in batch.columns)
        yield keys.unpacked(packed), n


def _weights(
    keys: _Keys, cells: Iterator[tuple[list[npt.NDArray[np.uint8]], IntArray]]
) -> tuple[int, ...]:
    """w by column, in units of 2⁻³²: Σ_{d≠c} I(c; d)/H0(d), over the largest."""
    numbers = [bins.number for bins in keys.columns]
    pairs = list(itertools.combinations(range(len(numbers)), 2))
    joint = {(c, d): np.zeros(numbers[c] * numbers[d]) for c, d in pairs}
    for codes, n in cells:
        people = n.astype(np.float64)
        wide = [code.astype(np.intp) for code in codes]
        for c, d in pairs:
            joint[c, d] += np.bincount(wide[c] * numbers[d] + wide[d], people, len(joint[c, d]))
    sums = [0] * len(numbers)
    for c, d in pairs:
        table = joint[c, d].astype(np.int64).reshape(numbers[c], numbers[d])
        shared, own = information(table), [entropy(table.sum(axis=axis)) for axis in (1, 0)]
        sums[c] += floored(shared, own[1])
        sums[d] += floored(shared, own[0])
    largest = max(sums, default=0)
    if not largest:
        return (UNIT,) * len(numbers)
    return tuple(max(floored(one, largest), _LEAST_WEIGHT) for one in sums)


def _ordered(numbers: FloatArray) -> IntArray:
    """Integers in the order of the numbers, which they stand for bit by bit; −0 is 0."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, ~bits ^ np.int64(-(1 << 63)), bits)


def _number(keys: IntArray) -> npt.NDArray[np.float64]:
    bits = np.where(keys < 0, ~(keys ^ np.int64(-(1 << 63))), keys)
    return bits.view(np.float64)
