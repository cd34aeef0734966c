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
    from real ones: they are drawn in proportion to the histogram, which comes close (the audit
    measures how close).

    >>> [str(certainty(5, 2, known)) for known in range(5)]
    ['1/7', '1/6', '1/5', '1/4', '1/3']
    """
    if not 0 <= corrupted < size:
        raise ValueError(f"{corrupted} of {size} records cannot be known while one is not")
    return Fraction(1, size - corrupted + fakes)


@dataclass(frozen=True, eq=False)
class Fakes:
    """σ fake values per bucket, each drawn in proportion to the histogram among those not listed.

    The draw is exact: integers below the sum of the counts that are left.
    """

    number: int
    counts: IntArray
    draws: Draws

    def add(self, first: int, held: IntArray, barred: BoolArray | None = None) -> IntArray:
        """The values of buckets `first …` with their fakes, in the order of codes.

        `held` is buckets by places, all different in a row; `barred` marks values (buckets by
        values) that would be recognised as fake. Fewer fakes are added where nothing is left.
        """
        rows, values = len(held), len(self.counts)
        weights = np.broadcast_to(self.counts, (rows, values)).copy()
        np.put_along_axis(weights, held.astype(np.int64), 0, axis=1)
        if barred is not None:
            weights[barred] = 0
        listed = [held.astype(np.int64)]
        for number in range(self.number):
            running = np.cumsum(weights, axis=1)
            total = running[:, -1]
            place = Positions(first, rows)
            drawn = self.draws.below(f"fake {number}", place, np.maximum(total, 1))
            chosen = (running <= drawn[:, None]).sum(axis=1)
            chosen[total == 0] = -1
            listed.append(chosen[:, None])
            np.put_along_axis(weights, np.maximum(chosen, 0)[:, None], 0, axis=1)
        return np.sort(np.concatenate(listed, axis=1), axis=1)
