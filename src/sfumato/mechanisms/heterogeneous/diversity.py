"""Layers for ℓ-diversity: no value lies in two buckets of a layer (Algorithm 1, corrected).

Then no match set shows a value twice, whatever is handed out. Algorithm 1 of the paper splits
values over buckets instead and forbids that a row meets a value twice; that keeps the promise for
the people behind one published record, not for the published records of one person (errata H1).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.buckets import Buckets, Layers
from sfumato.mechanisms.heterogeneous.packing import whole_groups

LEAST = Fraction(1, 8)  # of the places that are left: a smaller layer is not worth packing


def diversity_layers(counts: IntArray, number: int) -> Layers:
    """Layers of at least ℓ buckets for a histogram without a value above ⌊N/ℓ⌋.

    A layer takes as many records as its packing allows without making the rest ineligible, and
    the rest makes the next. Where packing takes too few, the rest is dealt straight, which always
    works.

    >>> [layer.size for layer in diversity_layers(np.array([100] * 11), 10)]
    [20, 20, 20, 20, 20, 10]
    """
    left = counts.astype(np.int64)
    assert int(left.max()) <= int(left.sum()) // number, "not eligible"
    layers: list[Buckets] = []
    while left.any():
        places = int(left.sum()) // number
        packed = packed_layer(left, whole_groups(left, number))
        if packed is None or packed.size < LEAST * places:
            return (*layers, *straight_layers(left, number))
        layers.append(packed)
        left = left - packed.counts.sum(axis=0)
    return tuple(layers)


def packed_layer(counts: IntArray, groups: Sequence[Sequence[int]]) -> Buckets | None:
    """The largest layer with these values per bucket that leaves an eligible rest, or nothing.

    With p places a bucket of s records leaves s − p over, at most Q − p of one value: Q = ⌊N/ℓ⌋ are
    the places of all layers together. How much may be left over less how much is, is concave in p
    and 0 at p = 0, so the possible p are all numbers up to one. None where that is 0.

    >>> packed_layer(np.array([5, 4, 3, 3, 3]), [[0, 1], [2, 3, 4]]).counts.tolist()
    [[5, 4, 0, 0, 0], [0, 0, 3, 3, 3]]
    """
    sums = [int(counts[group].sum()) for group in groups]
    most = sum(sums) // len(groups)

    def possible(places: int) -> bool:
        return all(
            total - places <= int(np.minimum(counts[group], most - places).sum())
            for group, total in zip(groups, sums, strict=True)
        )

    low, high = 0, min(sums)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if possible(middle) else (low, middle - 1)
    if low == 0:
        return None
    table = np.zeros((len(groups), len(counts)), np.int64)
    for bucket, group in enumerate(groups):
        table[bucket, group] = counts[group] - leveled(counts[group], sums[bucket] - low)
    return Buckets(table)


def leveled(counts: IntArray, total: int) -> IntArray:
    """`total` records out of `counts`, the most from one value being as few as possible.

    >>> leveled(np.array([9, 1, 4]), 7).tolist()
    [3, 1, 3]
    """
    low, high = 0, int(counts.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        fits = int(np.minimum(counts, middle).sum()) <= total
        low, high = (middle, high) if fits else (low, middle - 1)
    taken = np.minimum(counts, low)
    taken[np.flatnonzero(counts > low)[: total - int(taken.sum())]] += 1
    return taken


def straight_layers(counts: IntArray, number: int) -> Layers:
    """Records by value, dealt over ⌊N/ℓ⌋ rows in turn: a row gets at least ℓ values, each once.

    Rows with the same values make a layer, whose buckets hold one value each: at most one layer
    more than there are values.

    >>> [layer.counts.sum(axis=0).tolist() for layer in straight_layers(np.array([3, 2, 2]), 2)]
    [[1, 1, 1], [1, 1, 0], [1, 0, 1]]
    """
    rows = int(counts.sum()) // number
    order = [int(code) for code in np.argsort(-counts, kind="stable") if counts[code]]
    ends = np.cumsum(counts[order]).tolist()
    starts = [0, *ends[:-1]]
    cuts = sorted({0, rows, *(end % rows for end in ends)})
    layers = []
    for first, last in pairwise(cuts):
        held = [
            code
            for code, start, end in zip(order, starts, ends, strict=True)
            if start + (first - start) % rows < end  # the first record that row `first` could get
        ]
        table = np.zeros((len(held), len(counts)), np.int64)
        table[np.arange(len(held)), held] = last - first
        layers.append(Buckets(table))
    return tuple(layers)
