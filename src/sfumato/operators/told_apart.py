"""What buckets of several columns, dealt apart, tell together about each of the columns.

Who has a value stands in a bucket that lists it c of its n times with the chance c/n, and the deals
of the columns are independent. So with n(x) people of each combination x, a reader who knows these
numbers, and sees that a person stands in the buckets g₁ … g_J, finds the combination x with a
chance in proportion to n(x)·Π_j c_{x_j}(g_j)/n_{x_j}: exactly, for whom the other people's places
tell nothing. Screened in floating point; whatever comes near a ceiling is decided in integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray

_AT_ONCE = 1 << 22  # chances that are held at the same time
_NEAR = 1e-9  # relative: so close to a ceiling integers decide


@dataclass(frozen=True, eq=False)
class Apart:
    """Combinations `held` by (combination, column) that `counts` people have; by column what
    buckets list, by (bucket, value), and how many people have each value."""

    held: IntArray
    counts: IntArray
    listed: Sequence[IntArray]
    totals: Sequence[IntArray]

    def chances(self, places: IntArray, column: int) -> Iterator[tuple[int, FloatArray]]:
        """Of every value of a column, by (place, value), some places at a time; `places` are
        buckets by (place, column)."""
        rate = [
            each / np.maximum(total, 1)
            for each, total in zip(self.listed, self.totals, strict=True)
        ]
        own = np.zeros((len(self.held), self.listed[column].shape[1]))
        own[np.arange(len(own)), self.held[:, column]] = 1.0
        step = max(_AT_ONCE // max(len(self.held), 1), 1)
        for low in range(0, len(places), step):
            chosen = places[low : low + step]
            found = np.tile(self.counts.astype(np.float64), (len(chosen), 1))
            for each, (shares, buckets) in enumerate(zip(rate, chosen.T, strict=True)):
                found *= shares[buckets][:, self.held[:, each]]
            total = found.sum(axis=1, keepdims=True)
            yield low, np.asarray((found @ own) / np.where(total > 0, total, 1.0))

    def exactly(self, place: IntArray, column: int, value: int) -> Fraction:
        """The chance of one value at one place."""
        totals = [each.tolist() for each in self.totals]
        wanted, whole = Fraction(0), Fraction(0)
        for codes, number in zip(self.held.tolist(), self.counts.tolist(), strict=True):
            slots = prod(
                int(self.listed[each][place[each], code]) for each, code in enumerate(codes)
            )
            if slots:
                weight = Fraction(
                    number * slots, prod(totals[each][code] for each, code in enumerate(codes))
                )
                whole += weight
                wanted += weight if codes[column] == value else 0
        return wanted / whole if whole else Fraction(0)


@dataclass(frozen=True, eq=False)
class ToldApart:
    """Of one column: the value that comes furthest, its exact chance, where, and which places go
    beyond a ceiling."""

    value: int
    chance: Fraction
    place: int
    beyond: BoolArray


def told_apart(
    apart: Apart, places: IntArray, column: int, ceilings: Sequence[Fraction]
) -> ToldApart:
    """For a column whose values have these ceilings, over places that people stand in.

    >>> mixed, alone = np.array([[1, 1], [1, 1]]), np.array([[2, 0], [0, 2]])
    >>> two = np.array([2, 2])
    >>> same = Apart(np.array([[0, 0], [1, 1]]), two, [mixed, alone], [two, two])
    >>> told = told_apart(same, np.array([[0, 0], [1, 1]]), 0, [Fraction(1, 2)] * 2)
    >>> told.chance, told.beyond.tolist()
    (Fraction(1, 1), [True, True])
    """
    limits = np.array([float(each) for each in ceilings])
    limited = np.where(limits < 1, np.maximum(limits, 1e-300), np.inf)
    beyond = np.zeros(len(places), np.bool_)
    best, where = -1.0, (0, 0)
    for low, chance in apart.chances(places, column):
        pressure = chance / limited
        beyond[low : low + len(chance)] = (pressure > 1 + _NEAR).any(axis=1)
        for place in np.flatnonzero((np.abs(pressure - 1) <= _NEAR).any(axis=1)).tolist():
            if not beyond[low + place]:
                near = np.flatnonzero(np.abs(pressure[place] - 1) <= _NEAR).tolist()
                at = places[low + place]
                beyond[low + place] = any(
                    apart.exactly(at, column, value) > ceilings[value] for value in near
                )
        # values without a ceiling come last
        ranked = np.where(np.isfinite(limited), pressure, chance * 1e-12)
        top = np.unravel_index(int(np.argmax(ranked)), ranked.shape) if ranked.size else (0, 0)
        if ranked.size and ranked[top] > best:
            best, where = float(ranked[top]), (low + int(top[0]), int(top[1]))
    if not len(places):
        return ToldApart(0, Fraction(0), 0, beyond)
    exact = apart.exactly(places[where[0]], column, where[1])
    return ToldApart(where[1], exact, where[0], beyond)
