"""Two halves of a region that do not both allow ℓ-diversity, made to by setting a few people aside.

Values are put into ℓ groups of the same size that have nearly as many people in each half as one
another. In each half all groups keep as many people as the smallest there, whoever they are, so
that the half allows the promise by itself; the others, equally many of every group, make buckets of
their own across the halves. How many have which value is public; how they spread over the halves is
looked at through noise, so that one person's value changes no grouping's chance by a factor e.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.heterogeneous.buckets import Buckets, packed
from sfumato.mechanisms.heterogeneous.packing import even_groups

FROM = 512  # places of a bucket: below, noise would set too many aside
MOST = 20  # at most one in so many people may be set aside, by the noisy counts
KICKS = 100
RATIO = Fraction(61, 100)  # of the chances of neighbouring noise: 2·ln(100/61) < 1
LONGEST = 64  # a longer noise has a chance below 10⁻¹³


@dataclass(frozen=True, eq=False)
class Balanced:
    """Places in the region: of the two halves, of those aside with their buckets, of the rest."""

    halves: tuple[IntArray, IntArray]
    aside: IntArray
    buckets: Buckets
    rest: IntArray


def balanced(codes: IntArray, right: IntArray, number: int, draws: Draws) -> Balanced | None:
    """Records with `codes`, those of the second half marked in `right`; None where too many would
    have to be set aside.

    >>> codes = np.repeat(np.arange(40), 100)
    >>> right = (np.arange(4000) % 100 < np.repeat([80, 20], 2000)).astype(np.int64)
    >>> found = balanced(codes, right, 4, Draws.from_seed(1))
    >>> len(found.halves[0]) % 4, len(found.aside) < 200, len(found.rest)
    (0, True, 0)
    """
    values = int(codes.max()) + 1
    counts = np.bincount(codes, minlength=values)
    if len(codes) < FROM * number:
        return None
    second = np.bincount(codes[right > 0], minlength=values) + noise(values, draws)
    second = np.clip(second, 0, counts)
    seen = np.stack([counts - second, second, counts], axis=1)
    groups = even_groups(seen, number, draws, KICKS)
    layer = packed(counts, groups)
    sums = np.array([seen[group, :2].sum(axis=0) for group in groups])
    if layer is None or (len(codes) - number * int(sums.min(axis=0).sum())) * MOST > len(codes):
        return None
    group_of = np.empty(values, np.int64)
    for index, group in enumerate(groups):
        group_of[group] = index
    order = draws.order("aside", len(codes))
    inside = _rank(codes[order]) < layer.counts.sum(axis=0)[codes[order]]
    rest, order = order[~inside], order[inside]
    cell = 2 * group_of[codes[order]] + right[order]
    kept = np.bincount(cell, minlength=2 * number).reshape(-1, 2).min(axis=0)
    stays = _rank(cell) < kept[right[order]]
    aside = order[~stays]
    held_counts = np.bincount(codes[aside], minlength=values)
    table = np.zeros((number, values), np.int64)
    table[group_of, np.arange(values)] = held_counts
    sides = tuple(order[stays & (right[order] == side)] for side in (0, 1))
    return Balanced((sides[0], sides[1]), aside, Buckets(table), rest)


def _rank(keys: IntArray) -> IntArray:
    """How many earlier places have the same key."""
    order = np.argsort(keys, kind="stable")
    starts = np.searchsorted(keys[order], keys[order])
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - starts
    return rank


def noise(cells: int, draws: Draws) -> IntArray:
    """Two-sided geometric noise: one person's value moves two counts by one, which changes no
    outcome's chance by more than (100/61)² < e.

    >>> bool(abs(noise(2000, Draws.from_seed(1)).mean()) < 0.3)
    True
    """
    tosses = draws.bernoulli("noise", Positions(0, 2 * cells * LONGEST), RATIO)
    runs = np.cumprod(tosses.reshape(2, cells, LONGEST), axis=2).sum(axis=2)
    return np.asarray(runs[0] - runs[1], np.int64)
