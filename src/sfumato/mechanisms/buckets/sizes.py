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
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.foretold import error_of, identified_by_parts, left_over
from sfumato.mechanisms.buckets.settings import Limits, Setting, loss, setting_of
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import NEARLY_SINGULAR
from sfumato.profile import Holdings

SIZES = 30  # that are tried, of each sort
_STRETCH = 4  # sizes up to this many times the smallest that serves all values
_ROOM = (1.0, 1.3, 1.8, 2.5)  # large buckets, over the fewest that will do
_CLARITY = 1.25  # so much more error is worth telling all values apart
_NEAR = 0.01  # of an error: what is foreseen about as well
_HALVINGS = 24
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
    views: Sequence[View], largest: int, sizes: int = SIZES, deviation: float = 1.0
) -> list[Setting]:
    """Settings with sizes up to `largest` in which every value has room, the best foreseen first.

    Empty where `largest` is below what some value needs; of several columns the one counts whose
    error is the largest.

    >>> from fractions import Fraction as F
    >>> counts = np.full(10, 100)
    >>> foreseen_settings([(counts, Limits((F(1, 5),) * 10))], 1000)[0]
    (SizedBuckets(size=5, buckets=200),)
    """
    rows = int(views[0][0].sum())
    first = np.concatenate([limits.first_sizes[counts > 0] for counts, limits in views])
    needed, top = int(first.max(initial=1)), min(largest, rows)
    if needed > top or not first.all():
        return []
    low, high, room = _grid(first, needed, top, sizes)
    many = max(1, _AT_ONCE // sum(len(counts) for counts, _ in views))
    ranked: dict[Setting, float] = {}
    for start in range(0, len(low), many):
        chunk = slice(start, start + many)
        for setting, error in _foreseen(views, low[chunk], high[chunk], room[chunk], deviation):
            if setting[-1].size <= top:
                ranked.setdefault(setting, error)
    # of those that are foreseen about as well smaller buckets, for the sake of small counts
    steps = {
        setting: round(math.log(max(error, 1e-9)) / _NEAR) for setting, error in ranked.items()
    }
    return sorted(ranked, key=lambda each: (steps[each], loss(each), each))


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
    views: Sequence[View], low: IntArray, high: IntArray, room: FloatArray, deviation: float
) -> list[tuple[Setting, float]]:
    """Those that leave room, and their errors."""
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
        told = identified_by_parts(sizes, buckets, shares, allowed, counts).sum(axis=1)
        rest_of_value = counts * (1 - counts / max(records, 1))
        told = np.minimum(told, rest_of_value)
        error = error_of(left_over(rest_of_value - told, told, deviation), counts)
        confused = (told < NEARLY_SINGULAR * counts).any(axis=1)
        errors = np.maximum(errors, error * np.where(confused, _CLARITY, 1.0))
    settings = map(_whole, rest.tolist(), small.tolist(), high.tolist(), large.tolist())
    return list(zip(settings, errors.tolist(), strict=True))


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

    >>> in_proportion(np.array([6, 2]), np.array([[0, 0]]), np.array([[2, 2]]), np.array([3])
    ... ).round(3).tolist()
    [[2.0, 1.0]]
    """
    low, high = np.zeros(len(amount)), np.ones(len(amount))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = np.clip(middle[:, None] * counts, least, most).sum(axis=1) < amount
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(np.clip(high[:, None] * counts, least, most))
