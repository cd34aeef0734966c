"""Layers for ℓ-diversity: no value lies in two buckets of a layer (Algorithm 1, corrected).

Then no match set shows a value twice, whatever is handed out. Algorithm 1 of the paper splits
values over buckets instead and forbids that a row meets a value twice; that keeps the promise for
the people behind one published record, not for the published records of one person (errata H1).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.balance import Balanced, balanced
from sfumato.mechanisms.heterogeneous.buckets import Buckets, Layers, packed
from sfumato.mechanisms.heterogeneous.packing import even_groups, stretches
from sfumato.mechanisms.heterogeneous.regions import Promise

LEAST = Fraction(1, 8)  # of the places that are left: a smaller layer is not worth packing
FIXED = Draws.from_seed(0)  # for a search on counts: nothing secret, nobody's draws


@dataclass(frozen=True)
class Diversity(Promise):
    """ℓ-diversity of a region: no value has more than ⌊n/ℓ⌋ of its n people."""

    matches: int
    places: ClassVar[int] = 64

    def allowed(self, counts: IntArray, use: Fraction) -> bool:
        return int(counts.max()) <= use * (int(counts.sum()) // self.matches)

    def layers(self, counts: IntArray) -> Layers:
        return diversity_layers(counts, self.matches)

    def balanced(self, codes: IntArray, right: IntArray, draws: Draws) -> Balanced | None:
        return balanced(codes, right, self.matches, draws)


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
