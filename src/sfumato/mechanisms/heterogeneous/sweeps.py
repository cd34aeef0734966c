"""Matches inside one block: rounds that let rows grow (Algorithm 2), then sweeps that mend them.

A block holds p records of every bucket. Its rows come in μ classes of p: the rows of class b start
with the records of bucket b, and every class uses every record of the block exactly once. So each
record has μ rows, each row one record per bucket: the match graph is μ-regular. Classes do not see
each other, so that a round or a sweep goes through all of them at once.

Rounds run inside `parts` of a large block, which a joint k-d split made: O(p) as many pairs to look
at. A part's buckets do not quite fit each other, so some rows take in misfits. A sweep takes each
bucket's records out of their rows and matches them anew, in groups that cut across the parts: odd
sweeps the rows that their records cost most, even sweeps rows that cover the same region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.ncp import Axis, Cover, Floats, Scale
from sfumato.mechanisms.heterogeneous.pairs import growth, together

PAIRS = 1 << 18  # pairs of rows and records whose costs are made at once: they stay in the cache
SWEEPS = 2

# `cost[v, r]` is what row r grows when it takes record v; no pair is ever forbidden: buckets hold
# whole values, so that dead ends (errata H7) cannot come up
Matcher = Callable[[Floats], IntArray]


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
    """How to match records: which columns count, how one assignment is found, how many sweeps;
    whether a pair costs the penalty of its `whole_rows`, or the growth alone."""

    axes: Sequence[Axis]
    matcher: Matcher = hungarian
    sweeps: int = SWEEPS
    whole_rows: bool = False

    @cached_property
    def scale(self) -> Scale:
        return Scale.of([axis.denominator for axis in self.axes])

    def members(self, records: IntArray, most: int | None = None) -> IntArray:
        """`members[b, r, k]`: the match that row r of class b takes from `records[k]`.

        At most `most` rows are matched with as many records at once, None: all of the block.
        O(μ² p³) for a block of p places and the Hungarian matcher.
        """
        number, size = records.shape
        if size == 1:  # one way to match, and every row has everybody
            return np.tile(records[:, 0], (number, 1, 1))
        rows = _Rows(self, records)
        for part in self._parts(records, most):
            rows.grow(part)
        for turn in range(self.sweeps if number > 1 else 0):
            if most is None or size <= most:
                # the first sweep is for everybody, further ones for whom their record costs most
                rows.sweep(rows.everybody if turn == 0 else partial(rows.misfits, -(-size // 2)))
            elif turn % 2 == 0:
                rows.sweep(partial(rows.misfits, most))
            else:
                rows.sweep(partial(rows.alike, rows.regions(most)))
        return np.asarray(records[np.arange(number), rows.places])

    def _parts(self, records: IntArray, most: int | None) -> list[IntArray]:
        """Places of the block, `parts[i][k]` those of bucket k: at most `most` in a part."""
        size = records.shape[1]
        whole = np.tile(np.arange(size), (len(records), 1))
        if most is None or size <= most:
            return [whole]
        part_of = dict(zip(records.ravel().tolist(), whole.ravel().tolist(), strict=True))
        return [
            np.array([[part_of[record] for record in bucket] for bucket in part.tolist()], np.int64)
            for part in split(records, self.axes, most)
        ]


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


Covers = list[Cover]  # one per column; leading axes are classes and rows
Groups = list[tuple[IntArray, IntArray]]  # classes, and equally many of their rows: rows[i, j]


class _Rows:
    """The rows of all classes: `places[b, r, k]` is the place in bucket k of their match."""

    def __init__(self, matching: Matching, records: IntArray) -> None:
        self.matcher, self.units = matching.matcher, matching.scale.units
        self.whole_rows = matching.whole_rows
        local = [axis.localize(axis.codes[records]) for axis in matching.axes]
        self.axes, self.codes = [axis for axis, _ in local], [codes for _, codes in local]
        self.number, self.size = records.shape
        self.together = together(self.codes, self.units, self.size)
        self.singles = [
            axis.single(codes) for axis, codes in zip(self.axes, self.codes, strict=True)
        ]
        self.classes = np.arange(self.number)
        self.places = np.empty((self.number, self.size, self.number), np.int64)

    # -- rounds ------------------------------------------------------------------------------

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

    # -- sweeps ------------------------------------------------------------------------------

    def sweep(self, choose: Callable[[Covers, int], Groups]) -> None:
        """Take each bucket's records out of their rows and match them anew, group by group."""
        singles = [self._held(bucket) for bucket in range(self.number)]
        after: list[Covers] = [[]] * self.number  # what the buckets behind k cover
        for bucket in range(self.number - 2, -1, -1):
            after[bucket] = self._join(singles[bucket + 1], after[bucket + 1])
        before: Covers = []
        for bucket in range(self.number):
            others = self._join(before, after[bucket])
            for classes, rows in choose(others, bucket):
                self._rematch(others, bucket, classes, rows)
            before = self._join(before, self._held(bucket))

    def everybody(self, others: Covers, bucket: int) -> Groups:
        """All rows of all classes."""
        return [(self.classes, np.tile(np.arange(self.size), (self.number, 1)))]

    def misfits(self, most: int, others: Covers, bucket: int) -> Groups:
        """The rows of every class that their record costs most."""
        with_it = self._join(others, self._held(bucket))
        grown = self._size(with_it) - self._size(others)
        rows = np.argsort(-grown, axis=1, kind="stable")[:, :most]
        return [(self.classes, np.sort(rows, axis=1))]

    def alike(self, groups: Groups, others: Covers, bucket: int) -> Groups:
        """Rows that cover the same region, as they were grouped beforehand."""
        return groups

    def regions(self, most: int) -> Groups:
        """All rows, class by class, grouped by what they cover."""
        covers: Covers = []
        for bucket in range(self.number):
            covers = self._join(covers, self._held(bucket))
        groups = []
        for number in range(self.number):
            views = [
                axis.with_codes(axis.landmark(cover[number]))
                for axis, cover in zip(self.axes, covers, strict=True)
            ]
            rows = np.arange(self.size)[None, :]
            groups += [(self.classes[[number]], group) for group in split(rows, views, most)]
        return groups

    def _rematch(self, others: Covers, bucket: int, classes: IntArray, rows: IntArray) -> None:
        """Match these rows and the records that they hold anew, where that is better."""
        some = classes[:, None]
        old = self.places[some, rows, bucket]
        buckets = np.full(len(classes), bucket)
        covers = [cover[some, rows] for cover in others]
        self.places[some, rows, bucket] = self._matched(covers, buckets, old, better=True)

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
            cost = self._pairs([cover[part] for cover in covers], buckets[part], places[part])
            now = cost[:, order, order].sum(axis=1) if better else None
            for number, costs in enumerate(cost):
                if now is not None and now[number] == 0:
                    matched[start + number] = places[start + number]
                    continue
                found = self.matcher(costs)
                if now is not None and costs[found, order].sum() >= now[number]:
                    found = order  # greedy matchers may do worse
                matched[start + number] = places[start + number][found]
        return matched

    # -- columns -----------------------------------------------------------------------------

    def _pairs(self, covers: Covers, buckets: IntArray, places: IntArray) -> Floats:
        """`cost[k, v, r]` of row r of class k with the record at `places[k, v]`."""
        cost = growth(self.together, self.axes, self.units, covers, buckets, places)
        if self.whole_rows:
            for axis, unit, cover in zip(self.axes, self.units, covers, strict=True):
                cost += (unit * axis.size(cover)).astype(np.float64)[:, None, :]
        return cost

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
        for axis, unit, cover in zip(self.axes, self.units, covers, strict=True):
            total += unit * axis.size(cover)
        return total
