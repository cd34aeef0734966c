"""Layers for β-likeness: a value lies in at most (1+β) f_x μ buckets (Algorithm 3, corrected).

A record takes one match from every bucket, so that bounds the share of x among anybody's matches
by (1+β) f_x. Few large buckets mean few matches and narrow ranges; the largest bucket size that
some order of filling allows is searched. All decisions are exact: integers and fractions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.buckets import Buckets, Layers, attained_beta
from sfumato.mechanisms.heterogeneous.diversity import diversity_layers


def likeness_layers(counts: IntArray, beta: Fraction) -> Layers:
    """The fewest matches that keep β-likeness: ℓ-diversity where it suffices (Theorem 4 as
    corrected in H17), else the largest bucket size that some fill allows.

    The search ends at the GCD of the counts at the latest: its buckets are pure, β = 0.

    >>> layers = likeness_layers(np.array([6, 7, 12]), Fraction(2, 3))
    >>> [layer.counts.sum(axis=1).tolist() for layer in layers]
    [[3, 3, 3], [4, 4, 4, 4]]
    """
    present = counts[counts > 0]
    divisor = math.gcd(*present.tolist())
    if beta > 0:
        short = _shortcut(counts, beta)
        if short is not None:
            return short
        # no size above (1+β)·min n_x can work: a value needs one bucket at least
        largest = min(int(present.max()), math.floor((1 + beta) * int(present.min())))
        for size in range(largest, divisor, -1):
            for fill in (ascending_fill, descending_fill, frequent_split_fill):
                layers = fill(counts, size, beta)
                if layers is not None:
                    return layers
    return (Buckets(_sequential(counts, range(len(counts)), divisor)),)


def _shortcut(counts: IntArray, beta: Fraction) -> Layers | None:
    present = counts[counts > 0]
    rows = int(counts.sum())
    fewest = max(1, math.ceil(Fraction(rows) / ((1 + beta) * int(present.min()))))
    most = rows // int(present.max())
    for number in range(fewest, min(most, fewest + 3) + 1):
        layers = diversity_layers(counts, number)
        if attained_beta(layers) <= beta:
            return layers
    return None


# -- filling buckets of one size ------------------------------------------------------------


def ascending_fill(counts: IntArray, size: int, beta: Fraction) -> Layers | None:
    """Values in ascending order of support, one bucket filled after the other (H12).

    None where that does not keep `beta`: O(m) to refuse (H14), so that every size can be tried.

    >>> [layer.counts.tolist() for layer in ascending_fill(np.array([4, 5]), 4, Fraction(1))]
    [[[3, 0], [0, 3]], [[1, 0], [0, 1], [0, 1]]]
    """
    return _ordered_fill(counts, size, beta, 1)


def descending_fill(counts: IntArray, size: int, beta: Fraction) -> Layers | None:
    """The order that the paper's text names (H12)."""
    return _ordered_fill(counts, size, beta, -1)


def _ordered_fill(counts: IntArray, size: int, beta: Fraction, sign: int) -> Layers | None:
    over = remainder(counts, int(counts.sum()) % size)
    left = counts - over
    order = np.argsort(sign * left, kind="stable")
    spread = sequential_spread(left[order], size)
    # a quick look in floats that never refuses what is exactly right; `_layered` decides
    limit = (1 + float(beta)) * (1 + 1e-9) * (int(left.sum()) // size) / counts.sum()
    if (spread > limit * counts[order]).any():
        return None
    return _layered(_sequential(left, order.tolist(), size), over, counts, beta)


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


def frequent_split_fill(counts: IntArray, size: int, beta: Fraction) -> Layers | None:
    """Values that can afford no further bucket go in whole pieces, best fit, largest first; the
    others fill the gaps in turn (H12, end). None where that does not keep `beta`.
    """
    rows = int(counts.sum())
    over = remainder(counts, rows % size)
    left = counts - over
    number = rows // size
    allowed = [math.floor((1 + beta) * Fraction(int(count) * number, rows)) for count in counts]
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
    place = 0
    for code in (code for code in order if code not in set(tight)):
        need = int(left[code])
        while need:
            bucket = gaps[place]
            placed = min(need, int(room[bucket]))
            table[bucket, code] += placed
            room[bucket] -= placed
            need -= placed
            place += int(room[bucket] == 0)
    return _layered(table, over, counts, beta)


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


def _layered(table: IntArray, over: IntArray, counts: IntArray, beta: Fraction) -> Layers | None:
    """Filled buckets as layers, if they keep `beta` exactly.

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
    return layers if attained_beta(layers) <= beta else None
