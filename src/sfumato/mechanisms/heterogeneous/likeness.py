"""Layers for β-likeness: a value lies in at most (1+β) f_x μ buckets (Algorithm 3, corrected).

A record takes one match from every bucket, so that bounds the share of x among anybody's matches
by its ceiling (1+β) f_x. Few large buckets mean few matches and narrow ranges; the largest bucket
size that some order of filling allows is searched. All decisions are exact: integers and fractions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.buckets import Buckets, Layers
from sfumato.mechanisms.heterogeneous.diversity import diversity_layers
from sfumato.mechanisms.heterogeneous.regions import Promise
from sfumato.operators.base import FloatArray

Ceilings = Sequence[Fraction]
MORE = Fraction(5, 4)  # matches that people of a half may have for one that they would have


@dataclass(frozen=True)
class Likeness(Promise):
    """β-likeness of a region: the ceilings are those of the whole table."""

    ceilings: tuple[Fraction, ...]
    places: ClassVar[int] = 4

    @property
    def matches(self) -> int:  # type: ignore[override]
        """As many as the rarest value of the table needs to stand in one bucket."""
        return math.ceil(1 / min(ceiling for ceiling in self.ceilings if ceiling))

    def allowed(self, counts: IntArray, use: Fraction) -> bool:
        rows = int(counts.sum())
        pairs = zip(counts.tolist(), self.ceilings, strict=True)
        return all(count <= use * ceiling * rows for count, ceiling in pairs)

    def layers(self, counts: IntArray) -> Layers:
        return likeness_layers(counts, self.ceilings)

    def apart(self, counts: IntArray, halves: Sequence[IntArray]) -> bool:
        """A half whose values fill buckets badly needs many matches: then it is not worth it."""
        whole = max(layer.number for layer in self.layers(counts))
        return all(
            max(layer.number for layer in self.layers(half)) <= MORE * whole for half in halves
        )


def likeness_layers(counts: IntArray, ceilings: Ceilings) -> Layers:
    """The fewest matches that keep the ceilings: ℓ-diversity where it suffices (Theorem 4 as
    corrected in H17), else the largest bucket size that some fill allows.

    No value may have a share above its ceiling. The search ends at the GCD of the counts at the
    latest: its buckets are pure, and every value keeps its share.

    >>> counts = np.array([6, 7, 12])
    >>> layers = likeness_layers(counts, [Fraction(5, 3) * int(count) / 25 for count in counts])
    >>> [layer.counts.sum(axis=1).tolist() for layer in layers]
    [[3, 3, 3], [4, 4, 4, 4]]
    """
    short = _shortcut(counts, ceilings)
    if short is not None:
        return short
    present = counts[counts > 0]
    divisor = math.gcd(*present.tolist())
    # a value needs one bucket at least, and one of μ buckets has to be within every ceiling
    largest = min(int(present.max()), math.floor(_lowest(counts, ceilings) * int(counts.sum())))
    for size in range(largest, divisor, -1):
        for fill in (ascending_fill, descending_fill, frequent_split_fill):
            layers = fill(counts, size, ceilings)
            if layers is not None:
                return layers
    return (Buckets(_sequential(counts, range(len(counts)), divisor)),)


def _lowest(counts: IntArray, ceilings: Ceilings) -> Fraction:
    return min(c for c, count in zip(ceilings, counts.tolist(), strict=True) if count)


def _shortcut(counts: IntArray, ceilings: Ceilings) -> Layers | None:
    fewest = max(1, math.ceil(1 / _lowest(counts, ceilings)))
    most = int(counts.sum()) // int(counts.max())
    return diversity_layers(counts, fewest) if fewest <= most else None


# -- filling buckets of one size ------------------------------------------------------------


def ascending_fill(counts: IntArray, size: int, ceilings: Ceilings) -> Layers | None:
    """Values in ascending order of support, one bucket filled after the other (H12).

    None where that does not keep the ceilings. O(m) to refuse (H14): every size can be tried.

    >>> ceilings = [Fraction(8, 9), Fraction(1)]
    >>> [layer.counts.tolist() for layer in ascending_fill(np.array([4, 5]), 4, ceilings)]
    [[[3, 0], [0, 3]], [[1, 0], [0, 1], [0, 1]]]
    """
    return _ordered_fill(counts, size, ceilings, 1)


def descending_fill(counts: IntArray, size: int, ceilings: Ceilings) -> Layers | None:
    """The order that the paper's text names (H12)."""
    return _ordered_fill(counts, size, ceilings, -1)


def _ordered_fill(counts: IntArray, size: int, ceilings: Ceilings, sign: int) -> Layers | None:
    over = remainder(counts, int(counts.sum()) % size)
    left = counts - over
    order = np.argsort(sign * left, kind="stable")
    spread = sequential_spread(left[order], size)
    # a quick look in floats that never refuses what is exactly right; `_layered` decides
    limit = _as_floats(tuple(ceilings)) * (int(left.sum()) // size)
    if (spread > limit[order] * (1 + 1e-9)).any():
        return None
    return _layered(_sequential(left, order.tolist(), size), over, ceilings)


def sequential_spread(ordered: IntArray, size: int) -> IntArray:
    """|B_x| when the values fill buckets of `size` one after the other (H14).

    >>> sequential_spread(np.array([6, 7, 12]), 5).tolist()
    [2, 2, 3]
    """
    before = np.cumsum(ordered) - ordered
    return np.where(ordered > 0, (before + ordered - 1) // size - before // size + 1, 0)


def equation_7(ordered: IntArray, size: int) -> Fraction:
    """The beta that this order attains with buckets of `size`: c / min(n_x / |B_x|) − 1, without
    the ceiling that Algorithm 3 takes (H10).

    >>> [str(equation_7(np.array([6, 7, 12]), size)) for size in (4, 5, 6)]
    ['5/7', '2/3', '5/7']
    """
    spread = sequential_spread(ordered, size)
    pairs = zip(ordered.tolist(), spread.tolist(), strict=True)
    return size / min(Fraction(count, buckets) for count, buckets in pairs) - 1


def _sequential(counts: IntArray, order: Sequence[int], size: int) -> IntArray:
    table = np.zeros((int(counts.sum()) // size, len(counts)), np.int64)
    start = 0
    for code in order:
        end = start + int(counts[code])
        for bucket in range(start // size, -(-end // size)):
            table[bucket, code] = min(end, (bucket + 1) * size) - max(start, bucket * size)
        start = end
    return table


def frequent_split_fill(counts: IntArray, size: int, ceilings: Ceilings) -> Layers | None:
    """Values that can afford no further bucket go in whole pieces, best fit, largest first; the
    others fill the gaps in turn (H12, end). None where that does not keep the ceilings.
    """
    rows = int(counts.sum())
    over = remainder(counts, rows % size)
    left = counts - over
    number = rows // size
    allowed = _allowed(ceilings, number)
    order = [code for code in np.argsort(left, kind="stable").tolist() if left[code]]
    if any(allowed[code] * size < left[code] for code in order):
        return None
    table = np.zeros((number, len(counts)), np.int64)
    room = np.full(number, size, np.int64)
    tight = [code for code in order if allowed[code] * size <= left[code] + size]
    for code in reversed(tight):
        whole, rest = divmod(int(left[code]), size)
        for piece in [size] * whole + [rest] * (rest > 0):
            fitting = np.flatnonzero(room >= piece)
            if not len(fitting):
                return None
            bucket = fitting[np.argmin(room[fitting])]
            table[bucket, code] += piece
            room[bucket] -= piece
    gaps = [bucket for bucket in np.argsort(room, kind="stable").tolist() if room[bucket]]
    bucket_index = 0
    crowded = set(tight)
    for code in (code for code in order if code not in crowded):
        need = int(left[code])
        while need:
            bucket = gaps[bucket_index]
            placed = min(need, int(room[bucket]))
            table[bucket, code] += placed
            room[bucket] -= placed
            need -= placed
            bucket_index += int(room[bucket] == 0)
    return _layered(table, over, ceilings)


# -- what is over ---------------------------------------------------------------------------


def remainder(counts: IntArray, number: int) -> IntArray:
    """Which values `number` records too many are taken from: always one of the commonest.

    >>> remainder(np.array([6, 7, 12]), 1).tolist()
    [0, 0, 1]
    """
    taken = np.zeros(len(counts), np.int64)
    heap = [(-int(count), code) for code, count in enumerate(counts) if count]
    heapq.heapify(heap)
    for _ in range(number):
        negative, code = heapq.heappop(heap)
        taken[code] += 1
        heapq.heappush(heap, (negative + 1, code))
    return taken


def _layered(table: IntArray, over: IntArray, ceilings: Ceilings) -> Layers | None:
    """Filled buckets as layers, if they keep the ceilings exactly.

    The s records that are over make a bucket of their own, in a layer that takes s records from
    each of the other buckets: its people have one match more.
    """
    rest = int(over.sum())
    layers: Layers
    if rest == 0:
        layers = (Buckets(table),)
    else:
        until = np.cumsum(table, axis=1)
        size = int(until[0, -1])
        second = np.diff(until * rest // size, axis=1, prepend=0)
        layers = Buckets(table - second), Buckets(np.vstack([second, over]))
    kept = all((layer.spread <= _allowed(ceilings, layer.number)).all() for layer in layers)
    return layers if kept else None


def _allowed(ceilings: Ceilings, number: int) -> IntArray:
    """In how many of `number` buckets each value may lie."""
    allowed = [ceiling.numerator * number // ceiling.denominator for ceiling in ceilings]
    return np.array(allowed, np.int64)


@lru_cache(maxsize=4)
def _as_floats(ceilings: tuple[Fraction, ...]) -> FloatArray:
    return np.array([float(ceiling) for ceiling in ceilings])
