"""Which settings are tried: sizes from a small grid, judged by the error that is foretold.

A value needs buckets of at least 1/f'_x records. Where one size serves all of them and leaves many
more buckets than values, nothing is better than that size: the values stand in it at their ceilings
or not at all. Where rare values need buckets so large that few are left, they get some of their
own: just as many large buckets as they need, or some more, filled up with common values; everybody
else goes to smaller ones. What a setting is worth follows from the counts alone
(`foretold`); whether it can be filled exactly is seen when it is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.foretold import Judge, whole_error
from sfumato.mechanisms.buckets.settings import Limits, Setting, setting_of
from sfumato.operators.base import FloatArray
from sfumato.profile import Holdings

SIZES = 30  # that are tried, of each sort
_STRETCH = 4  # sizes up to this many times the smallest that serves all values
_ROOM = (1.0, 1.3, 1.8, 2.5)  # large buckets, over the fewest that will do
_NEAR = 0.01  # of an error: what is foreseen about as well
_AT_ONCE = 1 << 20  # settings times values


View = tuple[IntArray, Limits]  # the counts of a column's values, and their limits


def views_of(holdings: Holdings, limits: Limits) -> list[View]:
    """People by value of every view, and the limits of the values."""
    people, ends = holdings.by_mark(holdings.counts), holdings.starts
    return [
        (people[low:high], limits.of(np.arange(low, high)))
        for low, high in itertools.pairwise(ends.tolist())
    ]


def foreseen_settings(
    views: Sequence[View], largest: int, sizes: int = SIZES, judged: Judge = whole_error
) -> Iterator[Setting]:
    """Settings with sizes up to `largest` in which every value has room, the best foreseen first.

    None where `largest` is below what some value needs; of several columns the one counts whose
    error is the largest.

    >>> from fractions import Fraction as F
    >>> counts = np.full(10, 100)
    >>> next(foreseen_settings([(counts, Limits((F(1, 5),) * 10))], 1000))
    (SizedBuckets(size=5, buckets=200),)
    """
    rows = int(views[0][0].sum())
    first = np.concatenate([limits.first_sizes[counts > 0] for counts, limits in views])
    needed, top = int(first.max(initial=1)), min(largest, rows)
    if needed > top or not first.all():
        return
    low, high, room = _grid(first, needed, top, sizes)
    many = max(1, _AT_ONCE // sum(len(counts) for counts, _ in views))
    chunks = [slice(start, start + many) for start in range(0, len(low), many)]
    found = [_foreseen(views, low[c], high[c], room[c], judged) for c in chunks]
    rest, small, high, large, errors = (
        np.concatenate(arrays) for arrays in zip(*found, strict=True)
    )
    # of those that are foreseen about as well smaller buckets, for the sake of small counts
    steps = np.rint(np.log(np.maximum(errors, 1e-9)) / _NEAR)
    size, more = np.divmod(rest, small)
    losses = (small - more) * (size - 1) ** 2 + more * size**2 + large * (high - 1) ** 2
    seen = set[Setting]()
    order = np.lexsort((losses, steps)).tolist()
    for _, alike in itertools.groupby(order, key=lambda n: (steps[n], losses[n])):
        settings = {_whole(*(int(each[n]) for each in (rest, small, high, large))) for n in alike}
        fresh = sorted(each for each in settings - seen if each[-1].size <= top)
        seen.update(fresh)
        yield from fresh


def _grid(
    first: IntArray, needed: int, top: int, many: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Smaller and larger sizes, and how many more large buckets than needed; 0 for no large ones.

    Sizes are evenly spaced in proportion, and those from which on a value may stand in a bucket.
    """
    steps = np.unique(first)
    steps = steps[np.unique(np.linspace(0, len(steps) - 1, many).astype(np.int64))]
    spaced = np.geomspace(int(steps[0]), min(top, _STRETCH * needed), many).astype(np.int64)
    every = np.unique([*steps, *spaced, needed])
    small, serving = every[every < needed].tolist(), every[every >= needed].tolist()
    doubled = [needed << n for n in range(2, (top // needed).bit_length())]
    alone = [(size, size, 0.0) for size in (*serving, *doubled, top)]
    few = serving[:: max(1, len(serving) // 3)]
    low, high, room = zip(*alone, *itertools.product(small, few, _ROOM), strict=True)
    return np.array(low), np.array(high), np.array(room)


def _foreseen(
    views: Sequence[View], low: IntArray, high: IntArray, room: FloatArray, judged: Judge
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]:
    """Those that leave room: the records in small buckets, their number, the larger size and its
    number; and their errors."""
    fewest, records = np.zeros(len(low)), int(views[0][0].sum())
    for counts, limits in views:
        forced = np.where(limits.table(low) == 0, counts, 0)
        fewest = np.maximum(fewest, (forced / np.maximum(limits.table(high), 1)).max(axis=1))
    large = np.ceil(fewest * room).astype(np.int64)
    some = np.flatnonzero(records >= high * large + low)
    low, high, large = low[some], high[some], large[some]
    for counts, limits in views:
        least, most = _bounds(counts, limits, low, high, records - high * large, large)
        fits = (least <= most).all(axis=1)
        fits &= (least.sum(axis=1) <= high * large) & (high * large <= most.sum(axis=1))
        low, high, large = low[fits], high[fits], large[fits]
    rest = records - high * large
    small, errors = rest // low, np.zeros(len(low))
    sizes, buckets = np.stack([rest / small, high], axis=1), np.stack([small, large], axis=1)
    for counts, limits in views:
        gone = in_proportion(counts, *_bounds(counts, limits, low, high, rest, large), high * large)
        shares = np.stack([counts - gone, gone], axis=1)
        allowed = np.stack([limits.table(low), limits.table(high)], axis=1)
        errors = np.maximum(errors, judged(sizes, buckets, shares, allowed, counts))
    return rest, small, high, large, errors


def _bounds(
    counts: IntArray, limits: Limits, low: IntArray, high: IntArray, rest: IntArray, large: IntArray
) -> tuple[IntArray, IntArray]:
    """How many people with each value must and may go to the large buckets."""
    room = limits.table(low) * (rest // low)[:, None]
    most = np.minimum(limits.table(high) * large[:, None], counts)
    return np.maximum(counts - room, 0), most


def _whole(records: int, small: int, high: int, large: int) -> Setting:
    """Small buckets of so many records, some of them with one record more, and large ones."""
    size, more = divmod(records, small)
    buckets = Counter({size: small - more})
    buckets[size + 1] += more
    buckets[high] += large
    return setting_of(buckets.keys(), buckets.values())


def in_proportion(
    counts: IntArray, least: IntArray, most: IntArray, amount: IntArray
) -> FloatArray:
    """s·counts within `least` and `most`, for the s that makes the sum the `amount`; by row.

    The sum is linear in s between the places where a value leaves its least or reaches its most.

    >>> in_proportion(np.array([6, 2]), np.array([[0, 0]]), np.array([[2, 2]]), np.array([3])
    ... ).round(3).tolist()
    [[2.0, 1.0]]
    """
    people = np.maximum(counts, 1)
    turns = np.concatenate([least / people, most / people], axis=1)
    order = np.argsort(turns, axis=1)
    turns = np.take_along_axis(turns, order, axis=1)
    slopes = np.cumsum(np.concatenate([counts, -counts])[order], axis=1)
    sums = np.cumsum(slopes[:, :-1] * np.diff(turns, axis=1), axis=1)
    lacking = (amount - least.sum(axis=1))[:, None]
    row, last = np.arange(len(turns)), turns.shape[1] - 2
    step = np.minimum((sums < lacking).sum(axis=1), last)  # the one in which it is reached
    slope, beyond = np.maximum(slopes[row, step], 1), sums[row, step] - lacking[:, 0]
    share = turns[row, step + 1] - beyond / slope
    return np.asarray(np.clip(share[:, None] * counts, least, most))
