"""Matches inside one block: rounds that let rows grow (Algorithm 2), then sweeps that mend them.

A block holds p records of every bucket. Its rows come in μ classes of p: the rows of class b start
with the records of bucket b, and every class uses every record of the block exactly once. So each
record has μ rows, each row one record per bucket: the match graph is μ-regular.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.match import FORBIDDEN, Matcher
from sfumato.mechanisms.heterogeneous.ncp import Axis, Cover, Floats, Scale


@dataclass(frozen=True, eq=False)
class Block:
    """The records of a block and their matches.

    `records[k, j]` is the j-th record of bucket k; `places[b, r, k]` the place in bucket k of the
    match that row r of class b takes from it; `conflicts` counts the pairs that share a value
    against the rule (none when buckets are whole, H7).
    """

    records: IntArray
    places: IntArray
    conflicts: int

    @property
    def members(self) -> IntArray:
        """`members[b, r, k]`: the record itself."""
        number = len(self.records)
        return np.asarray(self.records[np.arange(number), self.places])


def match_block(
    records: IntArray,
    axes: Sequence[Axis],
    scale: Scale,
    shared: IntArray | None,
    matcher: Matcher,
    sweeps: int,
) -> Block:
    """Match the records of a block. `shared[r]` numbers the values that lie in several buckets
    (0: not one of them); None where no pair is forbidden. O(μ² p³) for the Hungarian matcher."""
    number, size = records.shape
    local = [axis.localize(axis.codes[records]) for axis in axes]
    costs = _Costs([axis for axis, _ in local], [codes for _, codes in local], scale)
    values = None
    if shared is not None and shared[records].any():
        values = shared[records]
    places = np.empty((number, size, number), np.int64)
    conflicts = 0
    for start in range(number):
        rows = _Rows(costs, values, matcher, places[start], start)
        rows.grow()
        for _ in range(sweeps):
            rows.sweep()
        conflicts += rows.conflicts()
    return Block(records, places, conflicts)


class _Costs:
    """The cost of every pairing of rows and records, column by column."""

    def __init__(self, axes: list[Axis], codes: list[IntArray], scale: Scale) -> None:
        self.axes, self.codes, self.units = axes, codes, scale.units
        number, size = codes[0].shape
        self._cost = np.empty((size, size))
        self._part = np.empty((size, size))

    def single(self, bucket: int, places: IntArray) -> list[Cover]:
        return [
            axis.single(codes[bucket, places])
            for axis, codes in zip(self.axes, self.codes, strict=True)
        ]

    def join(self, one: list[Cover], other: list[Cover]) -> list[Cover]:
        return [axis.join(a, b) for axis, a, b in zip(self.axes, one, other, strict=True)]

    def of(self, covers: list[Cover], bucket: int) -> Floats:
        """`cost[v, r]`: rows of memory are gathered whole, which is what makes it cheap."""
        self._cost[:] = 0
        for axis, codes, unit, cover in zip(
            self.axes, self.codes, self.units, covers, strict=True
        ):
            table = axis.growth(cover)
            table *= unit
            np.take(table, codes[bucket], axis=0, out=self._part, mode="clip")
            self._cost += self._part
        return self._cost


class _Rows:
    """The rows of one class, with what they cover and the shared values they hold."""

    def __init__(
        self,
        costs: _Costs,
        values: IntArray | None,
        matcher: Matcher,
        places: IntArray,
        start: int,
    ) -> None:
        self.costs, self.values, self.matcher = costs, values, matcher
        self.places, self.start = places, start
        self.number = places.shape[1]
        size = len(places)
        self.held = None
        if values is not None:
            self.held = np.zeros((int(values.max()) + 1, size), np.int64)
        places[:, start] = np.arange(size)

    def grow(self) -> None:
        """Round x takes one record of bucket `start + x` into every row."""
        covers = self.costs.single(self.start, self.places[:, self.start])
        self._hold(self.start, 1)
        for step in range(1, self.number):
            bucket = (self.start + step) % self.number
            cost = self.costs.of(covers, bucket)
            self._forbid(cost, bucket)
            self.places[:, bucket] = self.matcher(cost)
            self._hold(bucket, 1)
            covers = self.costs.join(covers, self.costs.single(bucket, self.places[:, bucket]))

    def sweep(self) -> None:
        """Take each bucket's records out of all rows and match them anew with what is left."""
        singles = [self.costs.single(k, self.places[:, k]) for k in range(self.number)]
        after: list[list[Cover]] = [[]] * self.number  # what the buckets behind k cover
        for bucket in range(self.number - 2, -1, -1):
            behind = singles[bucket + 1]
            if bucket + 2 < self.number:
                behind = self.costs.join(behind, after[bucket + 1])
            after[bucket] = behind
        before: list[Cover] = []
        place = np.arange(len(self.places))
        for bucket in range(self.number):
            others = before and after[bucket]
            if before and after[bucket]:
                others = self.costs.join(before, after[bucket])
            else:
                others = before or after[bucket]
            if others:
                cost = self.costs.of(others, bucket)
                self._hold(bucket, -1)
                self._forbid(cost, bucket)
                found = self.matcher(cost)
                old = self.places[:, bucket]
                if cost[found, place].sum() < cost[old, place].sum():  # greedy ones may be worse
                    self.places[:, bucket] = found
                    singles[bucket] = self.costs.single(bucket, found)
                self._hold(bucket, 1)
            before = self.costs.join(before, singles[bucket]) if before else singles[bucket]

    def conflicts(self) -> int:
        """How many pairs of the class share a value."""
        if self.held is None:
            return 0
        return int(np.maximum(self.held[1:] - 1, 0).sum())

    def _hold(self, bucket: int, change: int) -> None:
        if self.held is not None and self.values is not None:
            held = self.values[bucket, self.places[:, bucket]]
            self.held[held, np.arange(len(self.places))] += change

    def _forbid(self, cost: Floats, bucket: int) -> None:
        if self.held is not None and self.values is not None:
            conflict = self.held > 0
            conflict[0] = False
            cost[conflict[self.values[bucket]]] = FORBIDDEN
