"""Layers of buckets for l-diversity (Algorithm 1, corrected) and for likeness (Algorithm 3).

*Diversity*: no value lies in two buckets of a layer, so no match set shows a value twice, whatever
is handed out. Algorithm 1 of the paper splits values over buckets instead and forbids that a row
meets a value twice; that keeps the promise for the people behind one published record, not for the
published records of one person (errata H1).

*Likeness*: a value x lies in at most (1+β) f_x μ buckets. A record takes one match from every
bucket, so that bounds the share of x among anybody's matches by its ceiling. Few large buckets mean
few matches and narrow ranges; the largest bucket size that can be filled is searched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.buckets import Buckets, Layers, leveled, packed
from sfumato.mechanisms.heterogeneous.packing import even_groups, stretches

Ceilings = Sequence[Fraction]
LEAST = Fraction(1, 8)  # of the places that are left: a smaller layer is not worth packing
FIXED = Draws.from_seed(0)  # for a search on counts: nothing secret, nobody's draws


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
        layer = packed(left, even_groups(stretches(left, number), number, FIXED))
        if layer is None or layer.size < LEAST * places:
            return (*layers, *straight_layers(left, number))
        layers.append(layer)
        left = left - layer.counts.sum(axis=0)
    return tuple(layers)


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
        codes = [
            code
            for code, start, end in zip(order, starts, ends, strict=True)
            if start + (first - start) % rows < end  # the first record that row `first` could get
        ]
        table = np.zeros((len(codes), len(counts)), np.int64)
        table[np.arange(len(codes)), codes] = last - first
        layers.append(Buckets(table))
    return tuple(layers)


def likeness_layers(counts: IntArray, ceilings: Ceilings) -> Layers:
    """The fewest matches that keep the ceilings: ℓ-diversity where it suffices (Theorem 4 as
    corrected in H17), else the largest bucket size that can be filled.

    No value may have a share above its ceiling. The search ends at the GCD of the counts at the
    latest: its buckets are pure, and every value keeps its share.

    >>> counts = np.array([6, 7, 12])
    >>> layers = likeness_layers(counts, [Fraction(5, 3) * int(count) / 25 for count in counts])
    >>> [layer.counts.sum(axis=1).tolist() for layer in layers]
    [[3, 3, 3], [4, 4, 4, 4]]
    """
    rows, present = int(counts.sum()), counts[counts > 0]
    lowest = min(c for c, count in zip(ceilings, counts.tolist(), strict=True) if count)
    fewest = max(1, math.ceil(1 / lowest))
    if fewest <= rows // int(counts.max()):
        return diversity_layers(counts, fewest)
    divisor = math.gcd(*present.tolist())
    # a value needs one bucket at least, and one of μ buckets has to be within every ceiling
    largest = min(int(present.max()), math.floor(lowest * rows))
    for size in range(largest, divisor, -1):
        layers = filled(counts, size, ceilings)
        if layers is not None:
            return layers
    pure = np.repeat(np.eye(len(counts), dtype=np.int64) * divisor, counts // divisor, axis=0)
    return (Buckets(pure),)


def filled(counts: IntArray, size: int, ceilings: Ceilings) -> Layers | None:
    """Buckets of one size: values that can afford no further bucket go in whole pieces, best fit,
    largest first; the others fill the gaps in turn (H12, end). None where that does not keep the
    ceilings. O(m) to refuse (H14): every size can be tried.
    """
    rows = int(counts.sum())
    left = leveled(counts, rows - rows % size)  # what is over is always of the commonest
    number = rows // size
    most = _allowed(ceilings, number) * size
    if (most < left).any():
        return None
    table = np.zeros((number, len(counts)), np.int64)
    room = np.full(number, size, np.int64)
    order = [code for code in np.argsort(left, kind="stable").tolist() if left[code]]
    tight = [code for code in order if most[code] <= left[code] + size]
    for code in reversed(tight):
        whole, rest = divmod(int(left[code]), size)
        for piece in [size] * whole + [rest] * (rest > 0):
            fitting = np.flatnonzero(room >= piece)
            if not len(fitting):
                return None
            bucket = fitting[np.argmin(room[fitting])]
            table[bucket, code] += piece
            room[bucket] -= piece
    others = np.array([code for code in order if most[code] > left[code] + size], np.int64)
    gaps = np.argsort(room, kind="stable")
    # both end to end on one line, cut by values and by gaps
    slots = np.repeat(others, left[others]), np.repeat(gaps, room[gaps])
    np.add.at(table, (slots[1], slots[0]), 1)
    return _layered(table, counts - left, ceilings)


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
