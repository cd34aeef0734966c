"""Layers of buckets: what keeps the promise, whoever matches whom.

A *layer* has μ buckets of equal size. Each of its records takes one match from every bucket, so a
value that lies in |B_x| of the buckets is at most |B_x|/μ of anybody's matches. A table that does
not fit into one layer takes several, each of which keeps the promise by itself: nobody is left out,
and no value is excepted. `diversity` and `likeness` make layers from the sensitive histogram alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import IntArray


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


def attained_beta(layers: Layers) -> Fraction:
    """By how much a share among matches can exceed the share in the table, relatively.

    >>> attained_beta((Buckets(np.array([[5, 0], [1, 4]])),))
    Fraction(2, 3)
    """
    totals = published(layers)
    rows = int(totals.sum())
    shares = zip(largest_shares(layers), totals.tolist(), strict=True)
    worst = max(share * Fraction(rows, total) for share, total in shares if total)
    return worst - 1


def check_layers(layers: Layers, counts: IntArray) -> None:
    """Buckets of a layer are equal, and every record of the histogram has its place."""
    for layer in layers:
        assert (layer.counts >= 0).all(), layer.counts
        assert layer.size > 0, layer.counts
        assert (layer.counts.sum(axis=1) == layer.size).all(), layer.counts.sum(axis=1)
    assert (published(layers) == counts).all(), (published(layers), counts)
