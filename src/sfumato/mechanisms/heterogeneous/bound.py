"""How little any release of ranges and sets can show: a lower bound of the penalty.

The rows' matches give everybody a row of their own among those that they match. What a person
matches with may show no value beyond its ceiling, so the values within reach need ceilings of 1
together; the row covers the person and the farthest of them. The sum of these distances over all
people is a bound that no mechanism with these promises can go below, however it matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, Floats, Scale

PAIRS = 1 << 24  # distances that are held at once
MOST = 4000  # people that are looked at; the bound of more is estimated from as many


def least_penalty(axes: Sequence[Axis], codes: IntArray, ceilings: Sequence[Fraction]) -> float:
    """The bound of GCP. O(N) for each of at most `MOST` people and every column.

    >>> from sfumato.mechanisms.heterogeneous.ncp import NumericAxis
    >>> age = NumericAxis("age", np.array([0, 1, 4, 9]), np.arange(10), 9)
    >>> least_penalty([age], np.array([0, 0, 1, 1]), [Fraction(1, 2)] * 2) == (4 + 3 + 3 + 8) / 36
    True
    """
    scale = Scale.of([axis.denominator for axis in axes])
    if not axes or not scale.whole or not len(codes):
        return 0.0
    people = np.arange(len(codes))
    if len(people) > MOST:
        people = Draws.from_seed(0).choose("bound", len(codes), MOST)
    order = np.argsort(codes, kind="stable")
    present = np.unique(codes)
    starts = np.searchsorted(codes[order], present)
    needed = [ceilings[code] for code in present.tolist()]
    total = 0.0
    step = max(1, PAIRS // len(codes))
    for first in range(0, len(people), step):
        some = people[first : first + step]
        nearest = np.minimum.reduceat(_distances(axes, scale, order, some), starts, axis=1)
        total += sum(_reach(row, needed) for row in nearest)
    return total / (scale.whole * len(axes) * len(people))


def _distances(axes: Sequence[Axis], scale: Scale, order: IntArray, some: IntArray) -> Floats:
    """The penalty of a row with just these two people: `distance[i, j]`."""
    distance = np.zeros((len(some), len(order)))
    for axis, unit in zip(axes, scale.units, strict=True):
        cover = axis.single(axis.codes[order][None])
        distance += float(unit) * axis.growth(cover, axis.codes[some][None])[0]
    return distance


def _reach(nearest: Floats, ceilings: Sequence[Fraction]) -> float:
    """How far one has to go until the values met have ceilings of 1 together."""
    met = Fraction(0)
    for nearest_index in np.argsort(nearest, kind="stable").tolist():
        met += ceilings[nearest_index]
        if met >= 1:
            return float(nearest[nearest_index])
    return float(nearest.max())
