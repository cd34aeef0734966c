"""The paper's other matchers, and its ways to make matches: for the figures that compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.guarantees import Guarantee
from sfumato.mechanisms.generalized import Generalized, RangeCover, Shown
from sfumato.mechanisms.grouped import Burel, GroupedPlan, classes
from sfumato.mechanisms.heterogeneous.mechanism import (
    HeterogeneousGeneralization,
    HeterogeneousPlan,
)
from sfumato.mechanisms.heterogeneous.ncp import Axis, Floats, NumericAxis
from sfumato.mechanisms.heterogeneous.regions import Region
from sfumato.mechanisms.heterogeneous.sweeps import Covers, Matcher, Matching, hungarian
from sfumato.profile import Histogram, Profile


def penalties(axes: Sequence[Axis], covers: Sequence[Shown]) -> list[int]:
    """NCP of all rows per column, in units of 1/denominator."""
    units = []
    for axis, cover in zip(axes, covers, strict=True):
        if isinstance(cover, RangeCover):
            assert isinstance(axis, NumericAxis)
            widths = axis.positions[cover.high] - axis.positions[cover.low]
        else:
            widths = np.diff(cover.starts) - 1
        units.append(int(widths.sum()))
    return units


def gcp(units: Sequence[int], denominators: Sequence[int], rows: int) -> Fraction:
    """GCP = Σ NCP / (columns × records), exactly (brackets: H8).

    >>> gcp([39, 1], [78, 1], 2)
    Fraction(3, 8)
    """
    total = sum(
        (Fraction(unit, d) for unit, d in zip(units, denominators, strict=True) if d), Fraction(0)
    )
    return total / (len(units) * rows) if rows and len(units) else Fraction(0)


def penalty(axes: Sequence[Axis], made: Generalized) -> Fraction:
    """GCP of a release."""
    return gcp(penalties(axes, made.covers), [axis.denominator for axis in axes], made.rows)


def greedy(cost: Floats) -> IntArray:
    """Row by row the cheapest record that is left ([16] of the paper). O(p²).

    Of equally cheap ones the record that costs the rows most in the mean: others want it least.

    >>> greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    wanted = np.argsort(-cost.mean(axis=1), kind="stable")
    by_row = np.ascontiguousarray(cost[wanted].T)
    matched = np.empty(len(cost), np.int64)
    taken = np.zeros(len(cost))
    for row, costs in enumerate(by_row):
        best = int(np.argmin(costs + taken))
        matched[row] = wanted[best]
        taken[best] = np.inf
    return matched


def sort_greedy(cost: Floats) -> IntArray:
    """The cheapest pair that is left, again and again ([16]); ties along diagonals.

    All pairs that are the cheapest of both their row and their record are taken at once, which
    gives the same matching as going through the sorted list: O(p²) for each of a few rounds.

    >>> sort_greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    size = len(cost)
    position = np.arange(size)
    tie = ((position[None, :] - position[:, None]) % size) * size + position[None, :]
    # ranks of (cost, tie): a total order without a large sort by pairs
    _, rank = np.unique(cost, return_inverse=True)
    order = rank.reshape(cost.shape).astype(np.int64) * (size * size) + tie
    matched = np.empty(size, np.int64)
    records, rows = position, position
    while len(rows):
        best_record = np.argmin(order, axis=0)
        best_row = np.argmin(order, axis=1)
        mutual = best_row[best_record] == np.arange(len(rows))
        chosen = np.flatnonzero(mutual)
        matched[rows[chosen]] = records[best_record[chosen]]
        keep_rows = ~mutual
        keep_records = np.ones(len(records), np.bool_)
        keep_records[best_record[chosen]] = False
        order = order[np.ix_(keep_records, keep_rows)]
        records, rows = records[keep_records], rows[keep_rows]
    return matched


MATCHERS: dict[str, Matcher] = {
    "hungarian": hungarian,
    "sort-greedy": sort_greedy,
    "greedy": greedy,
}


@dataclass(frozen=True, eq=False)
class MatchedPlan(HeterogeneousPlan):
    """One region with everybody, matched as the paper says."""

    match: str = "hungarian"
    block: int | None = None

    def regions(self, axes: Sequence[Axis], codes: IntArray, draws: Draws) -> list[Region]:
        return [Region(np.arange(len(codes)), self.promise.layers(self.histogram.counts))]

    def matching(self, axes: Sequence[Axis]) -> Matching:
        return matching(axes, self.match)

    def rows_at_once(self, people: int) -> int:
        return self.block or super().rows_at_once(people)


@dataclass(frozen=True)
class Matched(HeterogeneousGeneralization):
    """Buckets of the whole table, without sweeps."""

    match: str = "hungarian"
    block: int | None = None

    name: ClassVar[str] = "heterogeneous"

    def __str__(self) -> str:
        return self.name  # what its releases are read as

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> MatchedPlan:
        made = super().plan(profile, guarantee, draws)
        return MatchedPlan(
            made.histogram, made.ceilings, made.promise, match=self.match, block=self.block
        )


@dataclass(frozen=True, eq=False)
class WholeRows(Matching):
    """A pair costs the penalty of the whole row, not its growth alone."""

    def add_costs(
        self, cost: Floats, axes: Sequence[Axis], covers: Covers, codes: Sequence[IntArray]
    ) -> None:
        super().add_costs(cost, axes, covers, codes)
        for axis, unit, cover in zip(axes, self.units, covers, strict=True):
            cost += (unit * axis.size(cover)).astype(np.float64)[:, None, :]


def matching(axes: Sequence[Axis], match: str) -> Matching:
    """Rounds by this matcher; sort-greedy goes by the penalty of whole rows."""
    kind = WholeRows if match == "sort-greedy" else Matching
    return kind(axes, MATCHERS[match], 0)


def likeness_runs(histogram: Histogram, ceilings: Sequence[Fraction]) -> list[list[int]]:
    """The fewest runs of values, by frequency, whose share is within the ceilings of all of them.

    Even if all that a class takes from a run has one value, its share stays within the bound.
    Dynamic programming over the sorted values, O(m²).

    >>> histogram = Histogram("s", tuple("abc"), np.array([6, 7, 12]))
    >>> likeness_runs(histogram, [4 * share for share in histogram.shares])
    [[0], [1, 2]]
    """
    order = [int(c) for c in np.argsort(histogram.counts, kind="stable") if histogram.counts[c]]
    counts = [int(histogram.counts[code]) for code in order]
    fewest = [0] + [len(order) + 1] * len(order)
    start = [0] * (len(order) + 1)
    for first in range(len(order)):
        total, least = 0, Fraction(1)
        for last in range(first, len(order)):
            total, least = total + counts[last], min(least, ceilings[order[last]])
            if last > first and total > least * histogram.rows:
                break
            if fewest[first] + 1 < fewest[last + 1]:
                fewest[last + 1], start[last + 1] = fewest[first] + 1, first
    runs: list[list[int]] = []
    end = len(order)
    while end:
        runs.insert(0, order[start[end] : end])
        end = start[end]
    return runs


def class_sizes(totals: Sequence[int], shares: Sequence[Fraction]) -> list[list[int]]:
    """How many records each class takes from each run: halves as long as no run exceeds its share.

    >>> class_sizes([4, 4], [Fraction(1, 2), Fraction(1, 2)])
    [[1, 1], [1, 1], [1, 1], [1, 1]]
    """
    waiting, classes = [list(totals)], []
    while waiting:
        taken = waiting.pop()
        left, up = [], True
        for number in taken:  # odd ones are rounded up and down in turn
            half, odd = divmod(number, 2)
            left.append(half + (1 if odd and up else 0))
            up = up != bool(odd)
        right = [number - part for number, part in zip(taken, left, strict=True)]
        if _keeps(left, shares) and _keeps(right, shares):
            waiting += [right, left]
        else:
            classes.append(taken)
    return classes


def _keeps(taken: Sequence[int], shares: Sequence[Fraction]) -> bool:
    size = sum(taken)
    return size > 0 and all(n <= share * size for n, share in zip(taken, shares, strict=True))


def nearest_classes(
    curve: IntArray, run: IntArray, sizes: Sequence[Sequence[int]], draws: Draws
) -> list[IntArray]:
    """Classes of these sizes: a record that is drawn, and of every run those nearest to it.

    `curve` are all records in order, `run[record]` is the run of its value.
    """
    place = ranked(curve)
    left = [curve[run[curve] == number] for number in range(len(sizes[0]))]
    seeds = draws.words("seeds", Positions(0, len(sizes)))
    classes = []
    for own, seed in zip(sizes, seeds.tolist(), strict=True):
        first = next(number for number, size in enumerate(own) if size)
        centre = int(place[left[first][int(seed) % len(left[first])]])
        parts = []
        for number, size in enumerate(own):
            start = _nearest(place[left[number]], centre, size)
            parts.append(left[number][start : start + size])
            left[number] = np.delete(left[number], slice(start, start + size))
        classes.append(np.concatenate(parts))
    return classes


def _nearest(places: IntArray, centre: int, size: int) -> int:
    """Where the `size` places nearest to the centre begin, of some in ascending order.

    >>> _nearest(np.array([0, 3, 4, 9]), 5, 2)
    1
    """
    if not size:
        return 0
    middle = int(np.searchsorted(places, centre))
    low, high = max(middle - size, 0), min(middle, len(places) - size)
    starts = np.arange(low, high + 1)
    ends = np.maximum(centre - places[starts], places[starts + size - 1] - centre)
    return low + int(np.argmin(ends))


def ranked(order: IntArray) -> IntArray:
    """The place of every record in an order of all."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return position


@dataclass(frozen=True, eq=False)
class CurvePlan(GroupedPlan):
    """Classes along the curve, halved further."""

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, records: IntArray, draws: Draws
    ) -> list[IntArray]:
        curve = hilbert_order(sorted(axes, key=lambda axis: -axis.denominator), records)
        runs = likeness_runs(self.histogram, self.ceilings)
        run_of = np.zeros(len(self.ceilings), np.int64)
        for number, run in enumerate(runs):
            run_of[run] = number
        # what classes take from each run, were all of a run the rarest of its values
        totals = [int(self.histogram.counts[run].sum()) for run in runs]
        limits = [min(self.ceilings[code] for code in run) for run in runs]
        near = nearest_classes(curve, run_of[codes], class_sizes(totals, limits), draws)
        along: list[Axis] = [NumericAxis("curve", ranked(curve), np.arange(len(curve)), 1)]
        return [part for each in near for part in classes(along, codes, self.ceilings, each)]


@dataclass(frozen=True)
class CurveBurel(Burel):
    """BuReL as its authors' program makes classes."""

    name: ClassVar[str] = "burel"

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> CurvePlan:
        made = super().plan(profile, guarantee, draws)
        return CurvePlan(made.histogram, made.ceilings)


BITS = 7  # resolution per column


def hilbert_order(axes: Sequence[Axis], records: IntArray) -> IntArray:
    """The given records along a space-filling curve: neighbours on it are near in all columns.

    Every column is stretched to 2⁷ steps; categories stand in domain order.
    """
    if not axes:
        return records
    columns = []
    for axis in axes:
        codes = axis.codes[records]
        position = axis.positions[codes] if isinstance(axis, NumericAxis) else codes
        top = int(axis.positions[-1]) if isinstance(axis, NumericAxis) else axis.values - 1
        columns.append((position * ((1 << BITS) - 1) // max(top, 1)).astype(np.int64))
    transposed = _to_transposed(np.stack(columns))
    # the curve's index read bit by bit, the highest bits of all columns first
    words = [
        (transposed[column] >> bit) & 1
        for bit in range(BITS - 1, -1, -1)
        for column in range(len(columns))
    ]
    keys = []
    for start in range(0, len(words), 62):
        key = np.zeros(len(records), np.int64)
        for word in words[start : start + 62]:
            key = (key << 1) | word
        keys.append(key)
    return records[np.lexsort(keys[::-1])]


def _to_transposed(point: IntArray) -> IntArray:
    """Axes to the transposed Hilbert index, in place of Skilling's `AxestoTranspose`.

    The four quarters of a square are visited one after the other:

    >>> quarters = _to_transposed(np.array([[0, 0, 1, 1], [0, 1, 1, 0]]) << (BITS - 1)) >> BITS - 1
    >>> (2 * quarters[0] + quarters[1]).tolist()
    [0, 1, 2, 3]
    """
    x = point.copy()
    dimensions = len(x)
    bit = 1 << (BITS - 1)
    while bit > 1:
        low = bit - 1
        for i in range(dimensions):
            high = (x[i] & bit) != 0
            x[0] = np.where(high, x[0] ^ low, x[0])
            change = np.where(high, 0, (x[0] ^ x[i]) & low)
            x[0] ^= change
            x[i] ^= change
        bit >>= 1
    for i in range(1, dimensions):
        x[i] ^= x[i - 1]
    flip = np.zeros(x.shape[1], np.int64)
    bit = 1 << (BITS - 1)
    while bit > 1:
        flip = np.where((x[-1] & bit) != 0, flip ^ (bit - 1), flip)
        bit >>= 1
    return np.asarray(x ^ flip)
