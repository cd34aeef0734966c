"""Who in a bucket has which of its values, to a reader with a rule P(value | quasi).

The posterior over the ways to deal a bucket's values to its people is proportional to the product
of the rule's chances (methods, section 7). Buckets that list up to `EXACT` values are summed over
all ways, as a permanent is, subset by subset; in larger ones the rule's chances are scaled until
everybody has one value and every value as many people as it is listed (Sinkhorn): an approximation,
softer than the sum (odds R for each of two people: R/(R+1) instead of R²/(R²+1)). A bucket that
lists more values than it has people holds fakes: each is dealt to nobody, with the chance that the
value has in all lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Chances, Evidence, Links

EXACT = 8  # values that a bucket lists, up to which every way is summed
_SCALINGS = 100  # at most, of buckets above
_FEW = 10  # while a rule is being fitted
_STILL = 1e-4  # the relative error of the lists at which scaling stops
_LOWEST = -80.0  # log chance below the largest: EXACT of them still fit a double
_PAIRS = 1 << 22  # (record, value) pairs that are looked at at once


@dataclass(frozen=True, eq=False)
class Pairs:
    """Chances of single (record, value) pairs; pairs that are absent have none."""

    record: IntArray
    value: IntArray
    chance: FloatArray

    def likeliest(self, records: int) -> FloatArray:
        """The largest chance of each record."""
        found = np.zeros(records)
        np.maximum.at(found, self.record, self.chance)
        return found

    def summed(self) -> Pairs:
        """Every pair once: a value that a bucket lists twice comes in two pairs."""
        values = int(self.value.max(initial=0)) + 1
        keys, place = np.unique(self.record * values + self.value, return_inverse=True)
        chance = np.bincount(place, self.chance).astype(np.float64)
        return Pairs(keys // values, keys % values, chance)


@dataclass(frozen=True, eq=False)
class Dealt(Evidence):
    """Records in buckets, and the values that each bucket lists, as cells sorted by bucket."""

    bucket: IntArray  # per record, 0 … buckets−1
    cell_bucket: IntArray  # ascending
    cell_value: IntArray
    cell_count: IntArray
    values: int

    @cached_property
    def listed(self) -> IntArray:
        return np.bincount(self.cell_bucket, self.cell_count).astype(np.int64)

    @cached_property
    def held(self) -> IntArray:
        """People per bucket."""
        return np.bincount(self.bucket, minlength=len(self.listed))

    @property
    def units(self) -> int:  # type: ignore[override]
        return len(self.listed)

    @cached_property
    def log_prior(self) -> FloatArray:
        total = np.bincount(self.cell_value, self.cell_count, minlength=self.values)
        return np.asarray(np.log(np.maximum(total, 1) / max(total.sum(), 1)))

    def of(self, chosen: IntArray) -> tuple[IntArray, Dealt]:
        """Those buckets alone, numbered in their order."""
        new = np.full(self.units, -1, np.int64)
        new[np.sort(chosen)] = np.arange(len(chosen))
        rows = np.flatnonzero(new[self.bucket] >= 0)
        cells = np.flatnonzero(new[self.cell_bucket] >= 0)
        return rows, Dealt(
            new[self.bucket[rows]],
            new[self.cell_bucket[cells]],
            self.cell_value[cells],
            self.cell_count[cells],
            self.values,
        )

    def weigh(self, chances: Chances) -> tuple[float, Chances]:
        logs = np.log(chances + 1e-30)
        likelihood, pairs = self._deal(lambda r, v: logs[r, v], _FEW)
        place = pairs.record * self.values + pairs.value
        given = np.bincount(place, pairs.chance, minlength=logs.size)
        return likelihood, given.reshape(logs.shape).astype(chances.dtype)

    def given(self, rule: Links, codes: Sequence[IntArray]) -> Pairs:
        """Everybody's chances under a rule, a few buckets at a time: O(pairs) time and memory."""
        cells = np.bincount(self.cell_bucket, minlength=self.units)
        step = np.cumsum(np.maximum(cells, self.listed) * self.held) // _PAIRS
        found = []
        for number in np.unique(step):
            rows, those = self.of(np.flatnonzero(step == number))
            pairs = those._given(rule, [column[rows] for column in codes])
            found.append((rows[pairs.record], pairs.value, pairs.chance))
        if not found:
            return Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        return Pairs(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _given(self, rule: Links, codes: Sequence[IntArray]) -> Pairs:
        return self._deal(lambda r, v: rule.pair_scores(codes, r, v), _SCALINGS)[1]

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Every record with every cell of its bucket."""
        return self._pairs(np.arange(len(self.bucket)))

    def _pairs(self, records: IntArray) -> tuple[IntArray, IntArray]:
        cells = np.bincount(self.cell_bucket, minlength=self.units)
        starts = np.cumsum(cells) - cells
        width = cells[self.bucket[records]]
        record = np.repeat(records, width)
        within = np.arange(len(record)) - np.repeat(np.cumsum(width) - width, width)
        return record, starts[self.bucket[record]] + within

    @cached_property
    def _small(self) -> list[tuple[IntArray, IntArray]]:
        """Buckets to be summed exactly, by how many values they list: people and values of each,
        −1 for nobody."""
        order = np.argsort(self.bucket, kind="stable")
        first = np.cumsum(self.held) - self.held
        slots = np.repeat(self.cell_value, self.cell_count)
        start = np.cumsum(self.listed) - self.listed
        found = []
        for size in range(1, EXACT + 1):
            buckets = np.flatnonzero((self.listed == size) & (self.held <= size))
            if len(buckets):
                place = np.arange(size)
                rows = order[np.minimum(first[buckets, None] + place, len(order) - 1)]
                rows = np.where(place < self.held[buckets, None], rows, -1)
                found.append((rows, slots[start[buckets, None] + place]))
        return found

    @cached_property
    def exact(self) -> BoolArray:
        """The buckets whose ways are all summed; the chances of the others are approximations."""
        return np.asarray((self.listed <= EXACT) & (self.held <= self.listed))

    @cached_property
    def _large(self) -> tuple[IntArray, IntArray]:
        return self._pairs(np.flatnonzero(~self.exact[self.bucket]))

    def _deal(
        self, score: Callable[[IntArray, IntArray], FloatArray], scalings: int
    ) -> tuple[float, Pairs]:
        likelihood, found = 0.0, []
        for rows, slots in self._small:
            person, value = np.broadcast_arrays(rows[:, :, None], slots[:, None, :])
            logs = score(np.maximum(rows, 0)[:, :, None], slots[:, None, :])
            logs = np.where(person < 0, self.log_prior[value], logs)
            top = logs.max(axis=2, keepdims=True)
            ways, shares = permanent_shares(np.exp(np.maximum(logs - top, _LOWEST)))
            likelihood += float(np.log(ways).sum() + top.sum())
            real = person >= 0
            found.append((person[real], value[real], shares[real]))
        record, cell = self._large
        if len(record):
            logs = score(record, self.cell_value[cell])
            chance = self.scaled(record, cell, logs, scalings)
            likelihood += float((chance * (logs - np.log(chance + 1e-30))).sum())
            found.append((record, self.cell_value[cell], chance))
        return likelihood, Pairs(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def scaled(
        self, record: IntArray, cell: IntArray, logs: FloatArray, scalings: int
    ) -> FloatArray:
        """Chances in proportion to exp(logs), one value per record, each value as it is listed.

        With fakes a bucket lists more values than it has records: the listed counts are scaled.
        """
        records, cells = len(self.bucket), len(self.cell_count)
        wanted = self.cell_count * (self.held / self.listed)[self.cell_bucket]
        top = np.full(records, -np.inf)
        np.maximum.at(top, record, logs)
        weight = np.exp(logs - top[record]) * wanted[cell]
        for _ in range(scalings):
            factor = wanted / np.maximum(np.bincount(cell, weight, minlength=cells), 1e-300)
            weight *= factor[cell]
            weight /= np.maximum(np.bincount(record, weight, minlength=records), 1e-300)[record]
            if np.abs(factor[cell] - 1).max(initial=0.0) < _STILL:
                break
        return np.asarray(weight)


def approximated(exact: BoolArray) -> str:
    """A clause on the people whose chances are not exact; nothing where all are.

    >>> approximated(np.array([True, False]))
    '; an approximation for the 50.0% in buckets of more than 8'
    """
    if exact.all():
        return ""
    return f"; an approximation for the {(~exact).mean():.1%} in buckets of more than {EXACT}"


def permanent_shares(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The permanents of square matrices, and which share of its ways runs through each entry.

    `weights` has shape (matrices, n, n). Subsets of rows that have the first columns are summed
    forwards, those that have the last ones backwards: O(n·2ⁿ) per matrix.

    >>> ways, shares = permanent_shares(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    >>> ways.tolist(), shares.round(9).tolist()  # 1·4 + 2·3
    ([10.0], [[[0.4, 0.6], [0.6, 0.4]]])
    """
    size = weights.shape[1]
    every = (1 << size) - 1
    entries = np.ascontiguousarray(np.moveaxis(weights, 0, 2))
    first = np.zeros((1 << size, len(weights)))
    last = np.zeros_like(first)
    first[0] = last[0] = 1.0
    for subset in range(1, every + 1):
        column = subset.bit_count()
        for row in _rows(subset, size):
            rest = subset ^ (1 << row)
            first[subset] += first[rest] * entries[row, column - 1]
            last[subset] += last[rest] * entries[row, size - column]
    shares = np.zeros_like(entries)
    for subset in range(every):
        for row in _rows(every ^ subset, size):
            ways = first[subset] * last[every ^ subset ^ (1 << row)]
            shares[row, subset.bit_count()] += ways
    shares *= entries / first[every]
    return first[every], np.asarray(np.moveaxis(shares, 2, 0))


def _rows(subset: int, size: int) -> list[int]:
    return [row for row in range(size) if subset >> row & 1]
