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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Chances, RecordLikelihoods

EXACT = 8  # values that a bucket lists, up to which every way is summed
_SCALINGS = 100  # at most, of buckets above
_FEW = 10  # while a rule is being fitted
_STILL = 1e-4  # the relative error of the lists at which scaling stops
_LOWEST = -80.0  # log chance below the largest: EXACT of them still fit a double
_PAIRS = 1 << 21  # (record, value) pairs that are looked at at once
_ALIKE = 0.2  # buckets whose sizes differ by no more, in logarithms, are looked at together


@dataclass(frozen=True, eq=False)
class PairChances:
    """Chances of single (record, value) pairs; pairs that are absent have none."""

    record: IntArray
    value: IntArray
    chance: FloatArray


@dataclass(frozen=True, eq=False)
class Dealt(RecordLikelihoods):
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
        likelihood, weights = 0.0, np.zeros_like(logs)
        for found, pairs in self.assigned(lambda r, v: logs[r, v], _FEW):
            likelihood += found
            cell = pairs.record * self.values + pairs.value
            np.add.at(weights.reshape(-1), cell, pairs.chance.astype(weights.dtype))
        return likelihood, weights

    @cached_property
    def _small(self) -> list[tuple[IntArray, IntArray]]:
        """Buckets to be summed exactly, by how many values they list: people and values of each,
        −1 for nobody."""
        order = np.argsort(self.bucket, kind="stable")
        first = np.cumsum(self.held) - self.held
        slots = np.repeat(self.cell_value, self.cell_count)
        start = np.cumsum(self.listed) - self.listed
        pieces = []
        for size in range(1, EXACT + 1):
            buckets = np.flatnonzero((self.listed == size) & (self.held <= size))
            if len(buckets):
                position = np.arange(size)
                rows = order[np.minimum(first[buckets, None] + position, len(order) - 1)]
                rows = np.where(position < self.held[buckets, None], rows, -1)
                pieces.append((rows, slots[start[buckets, None] + position]))
        return pieces

    @cached_property
    def exact(self) -> BoolArray:
        """The buckets whose ways are all summed; the chances of the others are approximations."""
        return np.asarray((self.listed <= EXACT) & (self.held <= self.listed))

    @cached_property
    def _large(self) -> list[tuple[IntArray, IntArray]]:
        """The other buckets, those of about the same shape together: their records and their
        cells, −1 where a bucket has fewer."""
        cells = np.bincount(self.cell_bucket, minlength=self.units)
        buckets = np.flatnonzero(~self.exact & (self.held > 0))
        sizes = np.stack([self.held[buckets], cells[buckets]])
        _, shape = np.unique(np.ceil(np.log(sizes) / _ALIKE), axis=1, return_inverse=True)
        order = np.argsort(self.bucket, kind="stable")
        pieces = []
        for number in range(int(shape.max(initial=-1)) + 1):
            alike = buckets[shape == number]
            high, wide = int(self.held[alike].max()), int(cells[alike].max())
            step = max(1, _PAIRS // (high * wide))
            for some in (alike[start : start + step] for start in range(0, len(alike), step)):
                rows = _spread(np.cumsum(self.held) - self.held, self.held, some, high)
                pieces.append(
                    (
                        np.where(rows < 0, -1, order[rows]),
                        _spread(np.cumsum(cells) - cells, cells, some, wide),
                    )
                )
        return pieces

    def assigned(
        self, score: Callable[[IntArray, IntArray], FloatArray], scalings: int = _SCALINGS
    ) -> Iterator[tuple[float, PairChances]]:
        """Some buckets at a time: their log likelihood, and the chances of their people, where
        `score` has the log chances of (record, value)."""
        for rows, slots in self._small:
            person, value = np.broadcast_arrays(rows[:, :, None], slots[:, None, :])
            logs = score(np.maximum(rows, 0)[:, :, None], slots[:, None, :])
            logs = np.where(person < 0, self.log_prior[value], logs)
            top = logs.max(axis=2, keepdims=True)
            ways, shares = permanent_shares(np.exp(np.maximum(logs - top, _LOWEST)))
            real = person >= 0
            likelihood = float(np.log(ways).sum() + top.sum())
            yield likelihood, PairChances(person[real], value[real], shares[real])
        for rows, cells in self._large:
            # with fakes a bucket lists more values than it has people: the counts are scaled
            share = (self.held / self.listed)[self.cell_bucket[cells]]
            wanted = np.where(cells < 0, 0.0, self.cell_count[cells] * share)
            values = self.cell_value[cells][:, None, :]
            chances = np.empty((*rows.shape, cells.shape[1]))
            step = max(1, _PAIRS // cells.size)  # people of a bucket that is large by itself
            parts = [slice(start, start + step) for start in range(0, rows.shape[1], step)]
            pairs_of = [(rows[:, part, None] >= 0) & (cells >= 0)[:, None, :] for part in parts]
            for part, inside in zip(parts, pairs_of, strict=True):
                logs = score(rows[:, part, None], values)
                chances[:, part] = np.where(inside, logs, -np.inf)
            likelihood = balance(chances, wanted, scalings)
            for part, inside in zip(parts, pairs_of, strict=True):
                person, value = np.broadcast_arrays(rows[:, part, None], values)
                pairs = PairChances(person[inside], value[inside], chances[:, part][inside])
                yield likelihood, pairs
                likelihood = 0.0


def _spread(starts: IntArray, counts: IntArray, chosen: IntArray, width: int) -> IntArray:
    """The places from `starts` on of each chosen bucket, −1 beyond its `counts`."""
    within = np.arange(width)
    places = starts[chosen, None] + within
    return np.where(within < counts[chosen, None], places, -1)


def balance(chances: FloatArray, wanted: FloatArray, scalings: int) -> float:
    """Log chances become, in place, chances in proportion whose rows sum to 1 and whose columns to
    `wanted`; returns their log likelihood, Σ chance · (log chance by the rule − log chance).

    `chances` has shape (buckets, people, cells). The scaling factors are found alone (Sinkhorn), so
    a round costs two products of a matrix and a vector.
    """
    top = np.maximum(chances.max(axis=2, keepdims=True), -1e30)  # who is nobody has no chance
    chances -= top
    np.exp(chances, out=chances)
    chances *= wanted[:, None, :]
    people, cells = np.ones(chances.shape[:2]), np.ones(wanted.shape)
    for _ in range(scalings):
        sums = cells * np.matmul(people[:, None, :], chances)[:, 0]
        factor = wanted / np.maximum(sums, 1e-300)
        cells *= factor
        people = 1 / np.maximum(np.matmul(chances, cells[:, :, None])[:, :, 0], 1e-300)
        if np.abs(factor - 1)[wanted > 0].max(initial=0.0) < _STILL:
            break
    chances *= people[:, :, None]
    chances *= cells[:, None, :]
    scaled = np.log(np.maximum(wanted * cells, 1e-300))
    by_person = chances.sum(axis=2) * (top[:, :, 0] - np.log(people))
    return float(by_person.sum() - (chances.sum(axis=1) * scaled).sum())


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
