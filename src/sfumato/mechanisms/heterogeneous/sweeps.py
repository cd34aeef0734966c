"""Matches inside one block: rounds that let rows grow (Algorithm 2), then a sweep that mends them.

A block holds p records of every bucket. Its rows come in μ classes of p: the rows of class b start
with the records of bucket b, and every class uses every record of the block exactly once. So each
record has μ rows, each row one record per bucket: the match graph is μ-regular. Classes do not see
each other, so that a round or a sweep goes through all of them at once.

Rounds run inside the parts of a large block, which a joint k-d split made: O(p) as many pairs to
look at. A part's buckets do not quite fit each other, so some rows take in misfits. A sweep takes
each bucket's records out of the rows that they cost most, across the parts, and matches them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.ncp import Axis, Cover, Floats, Scale

PAIRS = 1 << 18  # pairs of rows and records whose costs are made at once: they stay in the cache

# `cost[v, r]` is what row r grows when it takes record v; no pair is ever forbidden: buckets hold
# whole values, so that dead ends (errata H7) cannot come up
Matcher = Callable[[Floats], IntArray]
Covers = list[Cover]  # one per column; leading axes are classes and rows


def hungarian(cost: Floats) -> IntArray:
    """The cheapest matching: `matched[r]` is the record of row r. O(p³).

    >>> hungarian(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    records, rows = linear_sum_assignment(cost)
    matched = np.empty(len(rows), np.int64)
    matched[rows] = records
    return matched


@dataclass(frozen=True, eq=False)
class Matching:
    """How to match records: which columns count, how one assignment is found, how many sweeps."""

    axes: Sequence[Axis]
    matcher: Matcher = hungarian
    sweeps: int = 1

    @cached_property
    def units(self) -> tuple[int, ...]:
        """What one step of each column costs."""
        return Scale.of([axis.denominator for axis in self.axes]).units

    def members(self, records: IntArray, most: int) -> IntArray:
        """`members[b, r, k]`: the match that row r of class b takes from `records[k]`.

        At most `most` rows are matched with as many records at once. O(μ² p³) for a block of p
        places and the Hungarian matcher.
        """
        number, size = records.shape
        if size == 1:  # one way to match, and every row has everybody
            return np.tile(records[:, 0], (number, 1, 1))
        rows = _Rows(self, records)
        for part in self._parts(records, most):
            rows.grow(part)
        for _ in range(self.sweeps if number > 1 else 0):
            rows.sweep(most)
        return np.asarray(records[np.arange(number), rows.places])

    def _parts(self, records: IntArray, most: int) -> list[IntArray]:
        """Places of the block, `parts[i][k]` those of bucket k: at most `most` in a part."""
        whole = np.tile(np.arange(records.shape[1]), (len(records), 1))
        if records.shape[1] <= most:
            return [whole]
        part_of = dict(zip(records.ravel().tolist(), whole.ravel().tolist(), strict=True))
        return [
            np.array([[part_of[record] for record in bucket] for bucket in part.tolist()], np.int64)
            for part in split(records, self.axes, most)
        ]

    def add_costs(
        self, cost: Floats, axes: Sequence[Axis], covers: Covers, codes: Sequence[IntArray]
    ) -> None:
        """`cost[k, v, r]` of row r of class k with its v-th record, on `axes` of the block."""
        for axis, unit, cover, code in zip(axes, self.units, covers, codes, strict=True):
            if unit:
                cost += np.multiply(axis.growth(cover, code), float(unit))


def shifted(blocks: Sequence[IntArray], draws: Draws) -> IntArray:
    """The record whose value each row shows, for blocks of `members[b, r, k]` (errata H1).

    Every row of class b takes the value of its match in bucket b + x, one x for a block. The μ
    shifts are μ disjoint perfect matchings, each edge lies in exactly one of them, so each match is
    equally likely; and the rows that any one record matches carry one value out of every bucket.

    >>> members = np.array([[[0, 2], [1, 3]], [[1, 2], [0, 3]]])
    >>> sorted(shifted([members], Draws.from_seed(1)).tolist())
    [0, 1, 2, 3]
    """
    shown = []
    for index, members in enumerate(blocks):
        number = len(members)
        (shift,) = draws.below("shift", Positions(index, 1), number)
        classes = np.arange(number)
        shown.append(members[classes, :, (classes + shift) % number].ravel())
    return np.concatenate(shown)


class _Rows:
    """The rows of all classes: `places[b, r, k]` is the place in bucket k of their match."""

    def __init__(self, matching: Matching, records: IntArray) -> None:
        self.matching, (self.number, self.size) = matching, records.shape
        local = [axis.localize(axis.codes[records]) for axis in matching.axes]
        self.axes, self.codes = [axis for axis, _ in local], [codes for _, codes in local]
        self.singles = [axis.single(codes) for axis, codes in local]
        self.classes = np.arange(self.number)
        self.places = np.empty((self.number, self.size, self.number), np.int64)

    def grow(self, part: IntArray) -> None:
        """Round x takes one record of bucket b + x into every row of class b in the part.

        Row r belongs to the r-th record of bucket b.
        """
        every = self.classes[:, None]
        self.places[every, part, every] = part
        covers = self._single(self.classes, part)
        for step in range(1, self.number):
            buckets = (self.classes + step) % self.number
            matched = self._matched(covers, buckets, part[buckets])
            self.places[every, part, buckets[:, None]] = matched
            covers = self._join(covers, self._single(buckets, matched))

    def sweep(self, most: int) -> None:
        """Take each bucket's records out of the `most` rows of every class that they cost most, and
        match them anew, where that is better."""
        every = self.classes[:, None]
        after: list[Covers] = [[]] * self.number  # what the buckets behind k cover
        for bucket in range(self.number - 2, -1, -1):
            after[bucket] = self._join(self._held(bucket + 1), after[bucket + 1])
        before: Covers = []
        for bucket in range(self.number):
            others = self._join(before, after[bucket])
            grown = self._size(self._join(others, self._held(bucket))) - self._size(others)
            rows = np.sort(np.argsort(-grown, axis=1, kind="stable")[:, :most], axis=1)
            covers, buckets = [c[every, rows] for c in others], np.full(self.number, bucket)
            old = self.places[every, rows, bucket]
            self.places[every, rows, bucket] = self._matched(covers, buckets, old, better=True)
            before = self._join(before, self._held(bucket))

    def _matched(
        self, covers: Covers, buckets: IntArray, places: IntArray, *, better: bool = False
    ) -> IntArray:
        """`matched[i, j]`: which of `places[i]` in bucket i the j-th row of class i gets; where
        asked, only if that is `better` than the j-th."""
        matched = np.empty_like(places)
        order = np.arange(places.shape[1])
        step = max(1, PAIRS // places.shape[1] ** 2)
        for start in range(0, len(places), step):
            part = slice(start, start + step)
            codes = [code[buckets[part, None], places[part]] for code in self.codes]
            cost = np.zeros((len(places[part]), len(order), len(order)))
            self.matching.add_costs(cost, self.axes, [cover[part] for cover in covers], codes)
            now = cost[:, order, order].sum(axis=1) if better else None
            for number, costs in enumerate(cost):
                if now is not None and now[number] == 0:
                    matched[start + number] = places[start + number]
                    continue
                found = self.matching.matcher(costs)
                if now is not None and costs[found, order].sum() >= now[number]:
                    found = order  # greedy matchers may do worse
                matched[start + number] = places[start + number][found]
        return matched

    def _single(self, buckets: IntArray, places: IntArray) -> Covers:
        return [single[buckets[:, None], places] for single in self.singles]

    def _held(self, bucket: int) -> Covers:
        """What the records of one bucket cover, row by row of every class."""
        return [single[bucket][self.places[:, :, bucket]] for single in self.singles]

    def _join(self, one: Covers, other: Covers) -> Covers:
        if not one or not other:
            return one or other
        return [axis.join(a, b) for axis, a, b in zip(self.axes, one, other, strict=True)]

    def _size(self, covers: Covers) -> IntArray:
        """The cost of whole rows."""
        total = np.zeros((self.number, self.size), np.int64)
        for axis, unit, cover in zip(self.axes, self.matching.units, covers, strict=True):
            total += unit * axis.size(cover)
        return total
