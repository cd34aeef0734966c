"""Quasi-identifiers in few bins, counted: what trees of cuts grow on; and what cells hold.

Bins, cells and weights follow from quasi-identifiers alone (methods, section 7). Everything is
exact and the same in whatever order the records come, so every engine finds the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.blocks import ColumnBins, Edge, as_numbers
from sfumato.columns import Values, value_to_json
from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.entropy import UNIT, entropy, floored, information
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Holdings, QuasiCells
from sfumato.table import Table
from sfumato.table.staging import Staged, codes_of, ordered_domain, stage, staged

BINS = 32  # of a column of numbers: about as many records in each
MOST_VALUES = 62  # of other columns: rarer values share a bin
_FINE = 1 << 16  # different numbers that are counted before they are rounded
_TEXTS = 1 << 14  # a column with more different values is not cut
MOST_CELLS = 1 << 22  # that planning holds
_LONGEST = 1 << 62  # of a key that packs the bins of several columns
_LEAST_WEIGHT = UNIT // 50


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
        both = np.concatenate([self.keys, _ordered(numbers) >> self.dropped])
        self.keys, inverse = np.unique(both, return_inverse=True)
        self.counts = np.bincount(inverse, np.concatenate([self.counts, counts])).astype(np.int64)
        while len(self.keys) > _FINE:
            self.dropped += 1
            keys = self.keys >> 1
            starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
            self.keys, self.counts = keys[starts], np.add.reduceat(self.counts, starts)

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
    """Bins of columns and what is held, packed into few whole numbers, `k0` first; the first column
    leads, what is held comes last."""

    columns: tuple[ColumnBins, ...]
    held: int  # different ones

    @property
    def numbers(self) -> list[int]:
        return [*(bins.number for bins in self.columns), self.held]

    @property
    def groups(self) -> list[list[int]]:
        """The digits that share a number."""
        groups, product = [list[int]()], 1
        for index, number in enumerate(self.numbers):
            product *= number
            if product > _LONGEST:
                groups.append([])
                product = number
            groups[-1].append(index)
        return groups

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f"k{number}", pa.int64()) for number in range(len(self.groups))])

    def packed(self, batch: pa.RecordBatch, held: IntArray) -> pa.RecordBatch:
        digits = [*(bins.of(batch.column(bins.column)) for bins in self.columns), held]
        keys = []
        for group in self.groups:
            key = np.zeros(batch.num_rows, np.int64)
            for index in group:
                key *= self.numbers[index]
                key += digits[index]
            keys.append(pa.array(key))
        return pa.RecordBatch.from_arrays(keys, schema=self.schema)

    def unpacked(self, cells: Sequence[IntArray]) -> list[npt.NDArray[np.uint8]]:
        """The bins by column."""
        codes = list[npt.NDArray[np.uint8]]()
        for group, key in zip(self.groups, cells, strict=True):
            rest, of_group = key, []
            for index in reversed([index for index in group if index < len(self.columns)]):
                rest, code = np.divmod(rest, self.numbers[index])
                of_group.append(code.astype(np.uint8))
            codes += reversed(of_group)
        return codes


def count_binned(table: Table, holdings: Holdings) -> BinnedCounts:
    """People by the bins of all quasi-identifiers, and by what they have; of too many cells,
    columns that go least with the others are left out."""
    table = stage(table)
    keys = _Keys(bins_of(table), len(holdings.counts))
    pairs = _Pairs.of(keys)
    counted = _Entries.read(keys, _entries(table, keys, holdings), pairs)
    weights = pairs.weights()
    while counted is None:
        last = min(range(len(weights)), key=lambda n: (weights[n], -n))
        keys = replace(keys, columns=keys.columns[:last] + keys.columns[last + 1 :])
        weights = weights[:last] + weights[last + 1 :]
        counted = _Entries.read(keys, _entries(table, keys, holdings), None)
    return counted.binned(weights)


def _entries(
    table: Table, keys: _Keys, holdings: Holdings
) -> Iterator[tuple[list[IntArray], IntArray, IntArray]]:
    """Keys of cells, what is held and how many people, in order, some at a time."""
    asked = [bins.column for bins in keys.columns]
    sensitive = [view.column for view in holdings.columns]

    def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return keys.packed(batch, holdings.numbers(codes_of(batch, sensitive)))

    people = staged(table).map([*asked, *sensitive], packed, keys.schema)
    names = ", ".join(keys.schema.names)
    query = f"SELECT {names}, count(*) AS n FROM people GROUP BY {names} ORDER BY {names}"
    for batch in people.sql(query, *keys.schema.names):
        *numbers, n = (column.to_numpy() for column in batch.columns)
        numbers[-1], held = np.divmod(numbers[-1], keys.held)  # what is held comes last
        yield numbers, held, n


@dataclass(eq=False)
class _Entries:
    """What was counted, entry by entry: cells begin where a key changes."""

    keys: _Keys
    codes: list[list[npt.NDArray[np.uint8]]]  # of cells
    cell: list[IntArray]
    held: list[IntArray]
    counts: list[IntArray]

    @classmethod
    def read(
        cls,
        keys: _Keys,
        entries: Iterator[tuple[list[IntArray], IntArray, IntArray]],
        pairs: _Pairs | None,
    ) -> _Entries | None:
        """None where cells are too many to be held; `pairs` are told of all nevertheless."""
        made, many, last = cls(keys, [], [], [], []), 0, [-1] * len(keys.groups)
        for packed, held, n in entries:
            codes = keys.unpacked(packed)
            if pairs is not None:
                pairs.add(codes, n)
            changes = [np.diff(key, prepend=one) for key, one in zip(packed, last, strict=True)]
            begins = np.any(changes, axis=0)
            last = [int(key[-1]) for key in packed]
            if many <= MOST_CELLS:
                made.codes.append([code[begins] for code in codes])
                made.cell.append(many - 1 + np.cumsum(begins))
                made.held.append(held)
                made.counts.append(n)
            many += int(begins.sum())
            if many > MOST_CELLS and pairs is None:
                break
        return made if many <= MOST_CELLS else None

    def binned(self, weights: tuple[int, ...]) -> BinnedCounts:
        codes = tuple(np.concatenate(of_column) for of_column in zip(*self.codes, strict=True))
        cell, held, n = (np.concatenate(each) for each in (self.cell, self.held, self.counts))
        people = np.bincount(cell, n).astype(np.int64)
        return BinnedCounts(QuasiCells(self.keys.columns, codes, people, weights), cell, held, n)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """People by the bins of every two columns."""

    numbers: list[int]
    joint: dict[tuple[int, int], FloatArray]

    @classmethod
    def of(cls, keys: _Keys) -> _Pairs:
        numbers = keys.numbers[:-1]
        pairs = itertools.combinations(range(len(numbers)), 2)
        return cls(numbers, {(c, d): np.zeros(numbers[c] * numbers[d]) for c, d in pairs})

    def add(self, codes: list[npt.NDArray[np.uint8]], n: IntArray) -> None:
        people, wide = n.astype(np.float64), [code.astype(np.intp) for code in codes]
        for (c, d), counts in self.joint.items():
            counts += np.bincount(wide[c] * self.numbers[d] + wide[d], people, len(counts))

    def weights(self) -> tuple[int, ...]:
        """w by column, in units of 2⁻³²: Σ_{d≠c} I(c; d)/H0(d), over the largest."""
        sums = [0] * len(self.numbers)
        for (c, d), counts in self.joint.items():
            table = counts.astype(np.int64).reshape(self.numbers[c], self.numbers[d])
            shared, own = information(table), [entropy(table.sum(axis=axis)) for axis in (1, 0)]
            sums[c] += floored(shared, own[1])
            sums[d] += floored(shared, own[0])
        largest = max(sums, default=0)
        if not largest:
            return (UNIT,) * len(sums)
        return tuple(max(floored(one, largest), _LEAST_WEIGHT) for one in sums)


def _ordered(numbers: FloatArray) -> IntArray:
    """Integers in the order of the numbers, which they stand for bit by bit; −0 is 0."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, ~bits ^ np.int64(-(1 << 63)), bits)


def _number(keys: IntArray) -> npt.NDArray[np.float64]:
    bits = np.where(keys < 0, ~(keys ^ np.int64(-(1 << 63))), keys)
    return bits.view(np.float64)
