"""Fake values against adversaries who know others in the bucket (F'-privacy paper, Section 6).

A bucket of |g| different values lists σ more that nobody in it has. Whoever knows the values of q
of its records is left with |g| − q + σ listed values for the other |g| − q records.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.mechanisms.buckets.settings import Limits


def certainty(size: int, fakes: int, corrupted: int) -> Fraction:
    """How sure of a value one can be after learning `corrupted` records of a bucket.

    1/(|g| − q + σ) each for the values that remain (errata F15), as long as fakes cannot be told
    from real ones.

    >>> [str(certainty(5, 2, known)) for known in range(5)]
    ['1/7', '1/6', '1/5', '1/4', '1/3']
    """
    if not 0 <= corrupted < size:
        raise ValueError(f"{corrupted} of {size} records cannot be known while one is not")
    return Fraction(1, size - corrupted + fakes)


def odds_weights(held: IntArray, absent: IntArray) -> IntArray:
    """The odds that a bucket holds a value, in units of 2⁻²⁰; not 0 where any does.

    >>> odds_weights(np.array([1, 3, 0]), np.array([1, 0, 4])).tolist()
    [1048576, 3145728, 0]
    """
    return np.asarray(np.maximum((held << 20) // np.maximum(absent, 1), held > 0), np.int64)


@dataclass(frozen=True, eq=False)
class Fakes:
    """σ fake values per bucket, drawn among those that nobody in it has.

    In proportion to the odds that a bucket holds the value, o_x : b − o_x. For rare values that is
    the histogram; common values are seldom absent, so when they are they must be likelier fakes,
    or a common value listed would be a real one (errata F15: with fakes drawn evenly a listed
    value is real with 19 to 97 %). The draw is exact: integers below the sum of the weights left.
    A value whose ceiling is below 1/(|g| + σ) is not listed as a fake: that alone would break the
    ceiling.
    """

    number: int
    counts: IntArray
    buckets: int
    draws: Draws
    ceilings: tuple[Fraction, ...]

    @property
    def weights(self) -> IntArray:
        """What fakes are drawn in proportion to: o_x/(b − o_x)."""
        return odds_weights(self.counts, self.buckets - self.counts)

    def listable(self, sizes: IntArray) -> BoolArray:
        """Values that a bucket of so many records may list, real or fake, by bucket."""
        first = Limits(self.ceilings).first_sizes  # f' ≥ 1/size from this size on
        allowed = (sizes[:, None] + self.number >= first) & (first > 0)
        return np.asarray(allowed & (self.counts > 0), np.bool_)

    def add(self, first: int, held: BoolArray, odds: IntArray | None = None) -> BoolArray:
        """What buckets `first …` list: the values that they hold (buckets by values), and fakes.

        `odds` are weights by bucket and value that replace `weights`, but where they leave nothing
        to list.
        """
        listed, rows = held.copy(), np.arange(len(held))
        listable = self.listable(held.sum(axis=1))
        usual = np.where(listable, self.weights, 0)
        weights = usual if odds is None else np.where(listable, odds, 0)
        for number in range(self.number):
            left = np.where(listed, 0, weights)
            exhausted = left.sum(axis=1) == 0
            left[exhausted] = np.where(listed, 0, usual)[exhausted]
            running = np.cumsum(left, axis=1)
            drawn = self.draws.below(f"fake {number}", Positions(first, len(held)), running[:, -1])
            listed[rows, (running <= drawn[:, None]).sum(axis=1)] = True
        return listed
