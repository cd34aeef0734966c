"""Fake values against adversaries who know others in the bucket (F'-privacy paper, Section 6).

A bucket of |g| different values lists σ more that nobody in it has. Whoever knows the values of q
of its records is left with |g| − q + σ listed values for the other |g| − q records.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions


def certainty(size: int, fakes: int, corrupted: int) -> Fraction:
    """How sure of a value one can be after learning `corrupted` records of a bucket.

    1/(|g| − q + σ) each for the values that remain (errata F15), as long as fakes cannot be told
    from real ones (`papers.telling_fakes` measures how nearly that is so).

    >>> [str(certainty(5, 2, known)) for known in range(5)]
    ['1/7', '1/6', '1/5', '1/4', '1/3']
    """
    if not 0 <= corrupted < size:
        raise ValueError(f"{corrupted} of {size} records cannot be known while one is not")
    return Fraction(1, size - corrupted + fakes)


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
        """What fakes are drawn in proportion to: o_x/(b − o_x) in units of 2⁻²⁰."""
        absent = np.maximum(self.buckets - self.counts, 1)
        return np.asarray(np.maximum((self.counts << 20) // absent, self.counts > 0), np.int64)

    def listable(self, size: int) -> BoolArray:
        """Values that a bucket of `size` records may list, real or fake."""
        least = Fraction(1, size + self.number)
        allowed = [ceiling >= least for ceiling in self.ceilings]
        return np.array(allowed, np.bool_) & (self.counts > 0)

    def add(self, first: int, held: IntArray, barred: BoolArray | None = None) -> IntArray:
        """The values of buckets `first …` with their fakes, in the order of codes.

        `held` is buckets by places, all different in a row; `barred` marks values (buckets by
        values) that would be recognised as fake: they are drawn only where no others are left.
        """
        rows, values = len(held), len(self.counts)
        possible = np.where(self.listable(held.shape[1]), self.weights, 0)
        weights = np.broadcast_to(possible, (rows, values)).copy()
        np.put_along_axis(weights, held.astype(np.int64), 0, axis=1)
        listed = [held.astype(np.int64)]
        for number in range(self.number):
            free = weights if barred is None else np.where(barred, 0, weights)
            exhausted = free.sum(axis=1) == 0
            free = np.where(exhausted[:, None], weights, free)
            running = np.cumsum(free, axis=1)
            place = Positions(first, rows)
            drawn = self.draws.below(f"fake {number}", place, running[:, -1])
            chosen = (running <= drawn[:, None]).sum(axis=1)[:, None]
            listed.append(chosen)
            np.put_along_axis(weights, chosen, 0, axis=1)
        return np.sort(np.concatenate(listed, axis=1), axis=1)
