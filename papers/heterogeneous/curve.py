"""Classes along a Hilbert curve, as BuReL's authors make them.

How many records a class takes from each run of values follows from counts: all records are halved,
on paper, as long as no run has more than its share. Then class by class: a record is drawn, and
every run gives the records that are nearest to it on the curve. What a class really holds is more
even than its runs had to allow for, so it is halved further (`classes`), along the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from papers.heterogeneous.hilbert import hilbert_order
from sfumato.draws import Draws, IntArray, Positions
from sfumato.guarantees import Guarantee
from sfumato.mechanisms.grouped import Burel, GroupedPlan, classes
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis
from sfumato.profile import Histogram, Profile


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
