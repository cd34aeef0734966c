"""Matches inside one block: rounds that let rows grow (Algorithm 2), then sweeps that mend them.

A block holds p records of every bucket. Its rows come in μ classes of p: the rows of class b start
with the records of bucket b, and every class uses every record of the block exactly once. So each
record has μ rows, each row one record per bucket: the match graph is μ-regular.

Rounds run inside `parts` of the block, which a joint k-d split made: O(p) as many pairs to look at.
A part's buckets do not quite fit each other, so some rows take in misfits. A sweep takes each
bucket's records out of their rows and matches them anew, in groups that cut across the parts: odd
sweeps the rows that their records cost most, even sweeps rows that cover the same region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.match import Matcher
from sfumato.mechanisms.heterogeneous.ncp import Axis, Cover, Floats, Scale


@dataclass(frozen=True, eq=False)
class Block:
    """The records of a block and their matches.

    `records[k, j]` is the j-th record of bucket k; `places[b, r, k]` the place in bucket k of the
    match that row r of class b takes from it.
    """

    records: IntArray
    places: IntArray

    @property
    def members(self) -> IntArray:
        """`members[b, r, k]`: the record itself."""
        number = len(self.records)
        return np.asarray(self.records[np.arange(number), self.places])


@dataclass(frozen=True, eq=False)
class Matching:
    """How to match: at most `most` rows with as many records at once, None: all of a block."""

    axes: Sequence[Axis]
    scale: Scale
    matcher: Matcher
    sweeps: int
    most: int | None

    def block(self, records: IntArray) -> Block:
        """Match `records[k, j]`. O(μ² p³) per part of p places for the Hungarian matcher."""
        number, size = records.shape
        parts = self._parts(records)
        local = [axis.localize(axis.codes[records]) for axis in self.axes]
        costs = _Costs([axis for axis, _ in local], [codes for _, codes in local], self.scale)
        places = np.empty((number, size, number), np.int64)
        for start in range(number):
            rows = _Rows(costs, self.matcher, places[start], start)
            for part in parts:
                rows.grow(part)
            for turn in range(self.sweeps):
                rows.sweep(self.most, misfits=turn % 2 == 0)
        return Block(records, places)

    def _parts(self, records: IntArray) -> list[IntArray]:
        """Places of the block, `parts[i][k]` those of bucket k: at most `most` in a part."""
        size = records.shape[1]
        whole = np.tile(np.arange(size), (len(records), 1))
        if self.most is None or size <= self.most:
            return [whole]
        place = dict(zip(records.ravel().tolist(), whole.ravel().tolist(), strict=True))
        return [
            np.array([[place[record] for record in bucket] for bucket in part.tolist()], np.int64)
            for part in split(records, self.axes, self.most)
        ]


class _Costs:
    """The cost of every pairing of rows and records, column by column."""

    def __init__(self, axes: list[Axis], codes: list[IntArray], scale: Scale) -> None:
        self.axes, self.codes, self.units = axes, codes, scale.units

    def single(self, bucket: int, places: IntArray) -> list[Cover]:
        return [
            axis.single(codes[bucket, places])
            for axis, codes in zip(self.axes, self.codes, strict=True)
        ]

    def join(self, one: list[Cover], other: list[Cover]) -> list[Cover]:
        return [axis.join(a, b) for axis, a, b in zip(self.axes, one, other, strict=True)]

    def pairs(self, covers: list[Cover], bucket: int, places: IntArray) -> Floats:
        """`cost[v, r]`: rows of memory are gathered whole, which is what makes it cheap."""
        shape = len(places), len(covers[0])
        cost, part = np.zeros(shape), np.empty(shape)
        for axis, codes, unit, cover in zip(self.axes, self.codes, self.units, covers, strict=True):
            table = axis.growth(cover)
            table *= unit
            np.take(table, codes[bucket, places], axis=0, out=part, mode="clip")
            cost += part
        return cost

    def size(self, covers: list[Cover]) -> IntArray:
        """The cost of whole rows."""
        total = np.zeros(len(covers[0]), np.int64)
        for axis, unit, cover in zip(self.axes, self.units, covers, strict=True):
            total += unit * axis.size(cover)
        return total


class _Rows:
    """The rows of one class."""

    def __init__(self, costs: _Costs, matcher: Matcher, places: IntArray, start: int) -> None:
        self.costs, self.matcher = costs, matcher
        self.places, self.start = places, start
        self.number = places.shape[1]

    def grow(self, part: IntArray) -> None:
        """Round x takes one record of bucket `start + x` into every row of the part.

        Row r belongs to the r-th record of bucket `start`.
        """
        rows = part[self.start]
        self.places[rows, self.start] = rows
        covers = self.costs.single(self.start, rows)
        for step in range(1, self.number):
            bucket = (self.start + step) % self.number
            found = part[bucket][self.matcher(self.costs.pairs(covers, bucket, part[bucket]))]
            self.places[rows, bucket] = found
            covers = self.costs.join(covers, self.costs.single(bucket, found))

    def sweep(self, most: int | None, *, misfits: bool) -> None:
        """Take each bucket's records out of their rows and match them anew, group by group."""
        singles = [self.costs.single(k, self.places[:, k]) for k in range(self.number)]
        after: list[list[Cover]] = [[]] * self.number  # what the buckets behind k cover
        for bucket in range(self.number - 2, -1, -1):
            after[bucket] = self._joined(singles[bucket + 1], after[bucket + 1])
        groups = [np.arange(len(self.places))]
        parted = most is not None and len(self.places) > most
        if most is not None and parted and not misfits:
            groups = self._regions(self._joined(singles[0], after[0]), most)
        before: list[Cover] = []
        for bucket in range(self.number if self.number > 1 else 0):
            others = self._joined(before, after[bucket])
            if most is not None and parted and misfits:
                groups = [self._misfits(others, singles[bucket], most)]
            changed = [self._rematch(others, bucket, rows) for rows in groups]
            if any(changed):
                singles[bucket] = self.costs.single(bucket, self.places[:, bucket])
            before = self._joined(before, singles[bucket])

    def _joined(self, one: list[Cover], other: list[Cover]) -> list[Cover]:
        return self.costs.join(one, other) if one and other else one or other

    def _misfits(self, others: list[Cover], single: list[Cover], most: int) -> IntArray:
        """The rows that their record costs most."""
        grown = self.costs.size(self.costs.join(others, single)) - self.costs.size(others)
        return np.sort(np.argsort(-grown, kind="stable")[:most])

    def _regions(self, covers: list[Cover], most: int) -> list[IntArray]:
        """All rows, grouped by what they cover."""
        views = [
            axis.with_codes(axis.landmark(cover))
            for axis, cover in zip(self.costs.axes, covers, strict=True)
        ]
        return [group[0] for group in split(np.arange(len(self.places))[None, :], views, most)]

    def _rematch(self, others: list[Cover], bucket: int, rows: IntArray) -> bool:
        """Match these rows and the records that they hold anew; whether that was better."""
        old = self.places[rows, bucket]
        cost = self.costs.pairs([cover[rows] for cover in others], bucket, old)
        found = self.matcher(cost)
        place = np.arange(len(rows))
        better = cost[found, place].sum() < cost[place, place].sum()  # greedy ones may be worse
        if better:
            self.places[rows, bucket] = old[found]
        return bool(better)
