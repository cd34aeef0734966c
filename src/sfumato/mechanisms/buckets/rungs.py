"""Settings planned for answers: a ladder of few sizes, judged by the error that is foreseen.

A value needs buckets of at least 1/f'_x records. Where one size serves all of them and leaves many
more buckets than values, nothing is better than that size: the values stand in it at their ceilings
or not at all (`mixing`). Where rare values need buckets so large that few are left, they get a rung
of their own: just as many large buckets as they need, or some more, filled up with common values;
everybody else goes to smaller ones. What a ladder is worth follows from the counts alone
(`accuracy`), so hundreds are tried; whether it can be filled is then decided exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.accuracy import errors_of, told_by_rungs, variances_of
from sfumato.mechanisms.buckets.settings import Limits, Setting, SizedBuckets
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import NEARLY_SINGULAR

_SIZES = 40  # that are tried
_FEWER_SIZES = 14  # where three are combined
_STRETCH = 4  # sizes up to this many times the smallest that serves all values
_ROOM = (1.0, 1.3, 1.8, 2.5)  # buckets of a larger rung, over the fewest that will do
_VALUES = 200  # with more, some stand for others like them
_HALVINGS = 16


@dataclass(frozen=True, eq=False)
class _Sample:
    """Values that stand for all: `weights` of each, so that the records add up."""

    codes: IntArray
    counts: FloatArray
    weights: FloatArray
    limits: Limits
    place: IntArray  # of every value that somebody has: who stands for it

    @classmethod
    def of(cls, counts: IntArray, limits: Limits) -> _Sample:
        present = np.flatnonzero(counts > 0)
        # floats will do: what is filled in the end is looked at exactly
        ordered = present[np.lexsort((counts[present], limits.nearly[present]))]
        many = min(_VALUES, len(ordered))
        lengths = np.full(many, len(ordered) // many)
        lengths[: len(ordered) % many] += 1
        starts = np.cumsum(lengths) - lengths
        # the first of a chunk has its smallest ceiling: what it allows, all allow
        codes = ordered[starts]
        people = counts[codes].astype(np.float64)
        totals = np.add.reduceat(counts[ordered], starts)
        position = np.zeros(len(counts), np.int64)
        position[ordered] = np.repeat(np.arange(many), lengths)
        return cls(codes, people, totals / people, limits.of(codes), position)


@dataclass(frozen=True, eq=False)
class Foreseen:
    """Of a ladder: the error, how far each value is told apart, and whether some hardly are."""

    error: float
    told: FloatArray
    confused: bool


def settings_for_answers(
    counts: IntArray, limits: Limits, largest: int, most: int = 4
) -> list[Setting]:
    """The most promising settings with sizes up to `largest`, best first, and at least one that
    tells all values apart, if any does. Whether each can be filled exactly remains to be seen.
    Empty where `largest` is below what some value needs.

    >>> from fractions import Fraction as F
    >>> settings_for_answers(np.full(10, 100), Limits((F(1, 5),) * 10), 1000, most=2)
    [(SizedBuckets(size=5, buckets=200),), (SizedBuckets(size=10, buckets=100),)]
    """
    foreseen = foreseen_settings(counts, limits, largest)
    ordered = sorted(foreseen, key=lambda setting: (foreseen[setting].error, len(setting)))
    apart = [setting for setting in ordered if not foreseen[setting].confused]
    return list(dict.fromkeys([*ordered[:most], *apart[: max(1, most // 2)]]))


def foreseen_settings(
    counts: IntArray,
    limits: Limits,
    largest: int,
    deviation: float | None = None,
    most: int = _SIZES,
) -> dict[Setting, Foreseen]:
    """What is foreseen of every ladder of `most` sizes."""
    rows, needed = int(counts.sum()), limits.needed_size(counts)
    top = min(largest, rows)
    if needed > top:
        return {}
    sample = _Sample.of(counts, limits)
    sizes = _sizes(sample.limits, needed, top, most)
    rooms = sample.limits.table(sizes)
    by_setting: dict[Setting, Foreseen] = {}
    ladders = _ladders(sizes, needed, most * _FEWER_SIZES // _SIZES)
    for _, alike in itertools.groupby(ladders, key=lambda each: len(each[0])):
        steps, stretches = zip(*alike, strict=True)
        climbed = _climb(sample, sizes, rooms, np.array(steps), np.array(stretches))
        identified = climbed.told(sample)
        errors = errors_of(
            variances_of(sample.counts, identified, sample.weights),
            sample.counts,
            sample.weights,
            deviation,
        )
        confused = np.asarray((identified < NEARLY_SINGULAR).any(axis=1))
        every = np.where(counts > 0, identified[:, sample.place], 0.0)
        for number, setting in climbed.whole(rows):
            if setting[-1].size <= top and setting not in by_setting:
                by_setting[setting] = Foreseen(
                    float(errors[number]), every[number], bool(confused[number])
                )
    return by_setting


def _sizes(limits: Limits, needed: int, top: int, most: int) -> IntArray:
    """Evenly spaced in proportion, and those from which on a value may stand in a bucket."""
    least = min(limits.smallest_size, needed)
    spaced = np.geomspace(least, min(top, _STRETCH * needed), most).astype(np.int64)
    steps = np.unique(limits.first_sizes[limits.first_sizes > 0])
    some = steps[np.unique(np.linspace(0, len(steps) - 1, most).astype(np.int64))]
    every = np.unique(np.concatenate([spaced, some, [needed]]))
    return np.asarray(every[every <= top])


def _ladders(
    sizes: IntArray, needed: int, fewer: int
) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Sizes from small to large, and how much more than needed of each but the first."""
    serving, small = sizes[sizes >= needed].tolist(), sizes[sizes < needed].tolist()
    for size in serving:
        yield (size,), ()
    for large in serving[:: max(1, len(serving) // 3)]:
        for size, room in itertools.product(small, _ROOM):
            yield (size, large), (room,)
    few = small[:: max(1, -(-len(small) // fewer))]
    for low, middle in itertools.combinations(few, 2):
        for rooms in itertools.product(_ROOM[:3:2], repeat=2):
            yield (low, middle, needed), rooms


@dataclass(frozen=True, eq=False)
class _Climbed:
    """Ladders of equally many rungs that can be climbed, nearly: sizes and buckets by (ladder,
    rung), who goes where and what may stand in a bucket by (ladder, rung, value)."""

    sizes: IntArray
    buckets: IntArray
    shares: FloatArray
    rooms: IntArray

    def whole(self, rows: int) -> Iterator[tuple[int, Setting]]:
        """Ladders with the smallest rung's buckets grown by a record until all records fit, and
        the number of each; those that hold more records than there are, are left out."""
        rest = rows - (self.sizes[:, 1:] * self.buckets[:, 1:]).sum(axis=1)
        fits = np.flatnonzero(rest >= self.sizes[:, 0] * self.buckets[:, 0])
        first = self.buckets[fits, 0]
        size, more = np.divmod(rest[fits], first)
        sizes = np.column_stack([size, size + 1, self.sizes[fits, 1:]])
        buckets = np.column_stack([first - more, more, self.buckets[fits, 1:]])
        order = np.argsort(sizes, axis=1, kind="stable")
        rungs = zip(
            np.take_along_axis(sizes, order, axis=1).tolist(),
            np.take_along_axis(buckets, order, axis=1).tolist(),
            strict=True,
        )
        for number, (ascending, many) in zip(fits.tolist(), rungs, strict=True):
            buckets_by_size: dict[int, int] = {}
            for each, some in zip(ascending, many, strict=True):
                if some:
                    buckets_by_size[each] = buckets_by_size.get(each, 0) + some
            yield number, tuple(map(SizedBuckets, buckets_by_size, buckets_by_size.values()))

    def told(self, sample: _Sample) -> FloatArray:
        """How far each value is told apart, by (ladder, value)."""
        return told_by_rungs(
            self.sizes, self.buckets, self.shares, sample.counts, self.rooms, sample.weights
        )


def _climb(
    sample: _Sample, sizes: IntArray, rooms: IntArray, ladders: IntArray, stretch: FloatArray
) -> _Climbed:
    """From the largest size of every ladder down; those that cannot be climbed are left out.

    `rooms` has what a bucket of each of the `sizes` may hold of each value; ladders go from small
    to large, with `stretch` for each size but the first.
    """
    weights, index = sample.weights, np.searchsorted(sizes, ladders)
    number, rungs = np.arange(len(ladders)), ladders.shape[1]
    buckets = np.zeros(ladders.shape, np.int64)
    shares = np.zeros((*ladders.shape, len(sample.counts)))
    left = np.broadcast_to(sample.counts, shares[:, 0].shape)
    for rung in range(rungs - 1, 0, -1):
        size, room = ladders[number, rung], rooms[index[number, rung]]
        # smaller rungs cannot hold them
        bound = (rooms[index[number, rung - 1]] == 0) & (left > 0)
        fewest = np.divide(left, room, out=np.zeros(left.shape), where=bound).max(axis=1)
        many = np.ceil(fewest * stretch[number, rung - 1]).astype(np.int64)
        most = np.minimum(room * many[:, None], left)
        rest = size * many - (left * bound) @ weights
        kept = bound.any(axis=1) & (rest >= 0) & (most @ weights >= size * many)
        number, left, bound, most = number[kept], left[kept], bound[kept], most[kept]
        filled = _filled(np.where(bound, 0.0, most), left, weights, rest[kept])
        buckets[number, rung] = many[kept]
        shares[number, rung] = np.where(bound, left, filled)
        left = left - shares[number, rung]
    size, room = ladders[number, 0], rooms[index[number, 0]]
    many = (left @ weights // size).astype(np.int64)
    kept = (many >= 1) & (left <= room * many[:, None] * (1 + 1e-9)).all(axis=1)
    number = number[kept]
    buckets[number, 0], shares[number, 0] = many[kept], left[kept]
    return _Climbed(ladders[number], buckets[number], shares[number], rooms[index[number]])


def _filled(
    most: FloatArray, left: FloatArray, weights: FloatArray, rest: FloatArray
) -> FloatArray:
    """By row min(s·left, most) for the s that makes the sum `rest`."""
    low, high = np.zeros(len(rest)), np.ones(len(rest))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = np.minimum(middle[:, None] * left, most) @ weights < rest
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(np.minimum(high[:, None] * left, most))
