"""Layers of buckets: what keeps the promise, whoever matches whom.

A *layer* has μ buckets of equal size. Each of its records takes one match from every bucket, so a
value that lies in |B_x| of the buckets is at most |B_x|/μ of anybody's matches. A table that does
not fit into one layer takes several, each of which keeps the promise by itself: nobody is left out,
and no value is excepted. `diversity` and `likeness` make layers from the sensitive histogram alone;
a record's value decides which bucket it goes into, and chance within a value (`deal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.draws import Draws, IntArray


@dataclass(frozen=True, eq=False)
class Buckets:
    """One layer: `counts[b, x]` records with value x go into bucket b."""

    counts: IntArray

    @property
    def number(self) -> int:
        """μ: how many matches every record gets."""
        return len(self.counts)

    @property
    def size(self) -> int:
        """c: records in each bucket."""
        return int(self.counts[0].sum())

    @property
    def spread(self) -> IntArray:
        """|B_x|: in how many buckets each value lies."""
        return np.asarray((self.counts > 0).sum(axis=0), np.int64)


Layers = tuple[Buckets, ...]


def published(layers: Layers) -> IntArray:
    """How many records of each value the layers hold together."""
    return np.asarray(np.concatenate([layer.counts for layer in layers]).sum(axis=0), np.int64)


def largest_shares(layers: Layers) -> list[Fraction]:
    """Per value: the largest share that it can have among anybody's matches.

    >>> halves = Buckets(np.array([[2, 0, 0], [0, 1, 1]]))
    >>> largest_shares((halves, Buckets(np.eye(3, dtype=np.int64))))
    [Fraction(1, 2), Fraction(1, 2), Fraction(1, 2)]
    """
    spreads = [(layer.number, layer.spread.tolist()) for layer in layers]
    values = len(spreads[0][1])
    return [max(Fraction(spread[x], number) for number, spread in spreads) for x in range(values)]


def check_layers(layers: Layers, counts: IntArray) -> None:
    """Buckets of a layer are equal, and every record of the histogram has its place."""
    for layer in layers:
        assert (layer.counts >= 0).all(), layer.counts
        assert layer.size > 0, layer.counts
        assert (layer.counts.sum(axis=1) == layer.size).all(), layer.counts.sum(axis=1)
    assert (published(layers) == counts).all(), (published(layers), counts)


def packed(counts: IntArray, groups: Sequence[Sequence[int]]) -> Buckets | None:
    """The largest layer with these values per bucket that leaves an eligible rest, or nothing.

    With p places a bucket of s records leaves s − p over, at most Q − p of one value: Q = ⌊N/ℓ⌋ are
    the places of all layers together. How much may be left over less how much is, is concave in p
    and 0 at p = 0, so the possible p are all numbers up to one. None where that is 0.

    >>> packed(np.array([5, 4, 3, 3, 3]), [[0, 1], [2, 3, 4]]).counts.tolist()
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


def deal(layers: Layers, codes: IntArray, draws: Draws) -> list[IntArray]:
    """`records[b, j]` for every layer: the records of its buckets, in random order.

    >>> layers = Buckets(np.array([[2, 0], [0, 2]])), Buckets(np.array([[1, 0]]))
    >>> first, second = deal(layers, np.array([0, 1, 0, 1, 0]), Draws.from_seed(1))
    >>> sorted(first[1].tolist()), sorted([*first[0].tolist(), *second[0].tolist()])
    ([1, 3], [0, 2, 4])
    """
    order = draws.order("deal", len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    bucket_counts = np.concatenate([layer.counts for layer in layers])
    counts = bucket_counts.sum(axis=0)
    # slots of a value: layer after layer, bucket after bucket
    ends = np.cumsum(counts) - counts + np.cumsum(bucket_counts, axis=0)
    begins = ends - bucket_counts
    buckets = [
        np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)])
        for low, high in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    shuffled = [
        records[draws.order(f"bucket {bucket}", len(records))]
        for bucket, records in enumerate(buckets)
    ]
    starts = np.cumsum([0, *(layer.number for layer in layers)]).tolist()
    return [np.stack(shuffled[a:b]) for a, b in pairwise(starts)]
