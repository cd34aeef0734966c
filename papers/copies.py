"""Counting copies: what scaling betrays of a group's largest share (errata R2).

SPS copies every perturbed record of a sampled group about |g|/n times. Whoever finds n from the
copies can turn the rule that chose it around: with s_g itself (Equation 10 is strictly decreasing)
that gives f, the largest share, almost exactly. With levels it gives a level.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.drawing import Drawn
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Level
from sfumato.mechanisms.reconstruction.tails import FloatArray


def guess_samples(groups: PersonalGroups, drawn: Drawn, possible: IntArray) -> IntArray:
    """The smallest number of records, of those possible, that explains each group's copies.

    T copies come from o records when T is o·N/n rounded up or down. A group whose copies nothing
    explains counts as whole.
    """
    sizes = groups.sizes
    guess = sizes.copy()
    size = sizes[drawn.groups]
    for n in np.sort(possible)[::-1]:
        record = np.rint(drawn.counts * n / size)
        fits = np.abs(drawn.counts * n - record * size) < n
        total = np.bincount(drawn.groups, record, minlength=len(sizes))
        bad = np.zeros(len(sizes), np.bool_)
        bad[drawn.groups[~fits | (record < 1)]] = True
        explained = ~bad & (total == n) & (sizes > n)
        guess[explained] = n
    return guess


def guess_shares(samples: IntArray, sizes: IntArray, levels: tuple[Level, ...]) -> FloatArray:
    """The largest share that each number of sampled records stands for; NaN for whole groups."""
    guess = np.full(len(samples), np.nan)
    for level in levels:
        guess[(samples == level.sample) & (samples < sizes)] = level.to
    return guess


@dataclass(frozen=True)
class CopiesOutcome:
    """How often the guess is within `error` of the truth, among all and among sampled groups."""

    groups: int
    sampled: int
    read_off: int
    error: float

    @property
    def missed(self) -> float:
        """The share of sampled groups whose f is not read off."""
        return 1 - self.read_off / max(self.sampled, 1)


def copies_attack(
    groups: PersonalGroups,
    drawn: Drawn,
    levels: tuple[Level, ...],
    sampled: BoolArray,
    error: Fraction = Fraction(1, 10),
) -> CopiesOutcome:
    """Guess every group's largest share from its copies, and compare."""
    possible = np.array(sorted({level.sample for level in levels if level.sample}), np.int64)
    guess = guess_shares(guess_samples(groups, drawn, possible), groups.sizes, levels)
    truth = groups.largest / groups.sizes
    right = np.abs(guess - truth) <= float(error) * truth
    return CopiesOutcome(len(groups), int(sampled.sum()), int(right.sum()), float(error))
