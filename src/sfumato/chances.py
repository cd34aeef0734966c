"""How unlikely is what an audit found? Bounds that hold for every size.

No approximation by a normal law stands here: whoever audits a small table may trust these too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Look = tuple[FloatArray, Callable[[int], str]]  # −log chances, and what each is about

# An honest release fails with a chance of at most 1e-3, over all checks of an audit together:
# draws that agree with the truth, by everybody and by group, over all columns
AGREEMENT_ALARM = 5e-4
# which people of a value stand in which bucket, whose records show nothing that could agree
DEAL_ALARM = 5e-4
# two sensitive columns that were drawn together
COIN_ALARM = 1e-4
# a goodness of fit, each
FIT_ALARM = 1e-6


def binomial_exponents(hits: FloatArray, trials: FloatArray, chance: FloatArray) -> FloatArray:
    """−log of a bound on Pr(at least so many hits), 0 where there are no more than expected.

    n·KL(hits/n ‖ chance): Chernoff's bound, and Hoeffding's for draws without replacement.

    >>> exponent = binomial_exponents(np.array([60.0]), np.array([60.0]), np.array([0.5]))
    >>> bool(np.isclose(np.exp(-exponent[0]), 0.5**60))
    True
    """
    share = np.clip(hits / np.maximum(trials, 1e-300), 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(share > 0, share * np.log(share / chance), 0.0)
        down = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - chance)), 0.0)
        return np.where(share > chance, trials * (up + down), 0.0)


def rank_exponents(counts: IntArray, means: FloatArray) -> FloatArray:
    """−log of a bound on the chance that so many ranks, in [0, 1], have a mean so far from 1/2.

    Ranks drawn without replacement concentrate as uniform ones do, or more (Hoeffding 1963), and a
    uniform one has the moments log(sinh(s/2) / (s/2)). Both sides together.

    >>> rank_exponents(np.array([400]), np.array([0.5])).tolist()
    [0.0]
    >>> bool(rank_exponents(np.array([400]), np.array([0.6]))[0] > 20)
    True
    """
    gap = np.abs(means - 0.5)
    best = np.zeros(len(counts))
    for s in np.geomspace(0.01, 200.0, 60):
        moment = s / 2 + np.log1p(-np.exp(-s)) - np.log(s)
        best = np.maximum(best, counts * (s * gap - moment))
    return np.asarray(np.maximum(best - np.log(2.0), 0.0))


def matching_exponents(found: FloatArray, expected: FloatArray) -> FloatArray:
    """−log of a bound on the chance that a random matching scores so far from what is expected.

    Σ a[i, π(i)] with all a in [0, 1] and π a random permutation, or independent ones within strata:
    2 exp(−t² / (4·expected + 2t)) (Chatterjee 2007, Proposition 1.1).

    >>> bool(matching_exponents(np.array([500.0]), np.array([250.0]))[0] > 40)
    True
    """
    gap = np.abs(found - expected)
    exponent = gap**2 / np.maximum(4 * expected + 2 * gap, 1e-300)
    return np.asarray(np.maximum(exponent - np.log(2.0), 0.0))


def chance_of(exponent: float, tests: int) -> float:
    """The chance of the worst of so many tests, by Bonferroni's inequality.

    >>> chance_of(0.0, 5), round(chance_of(10.0, 5), 6)
    (1.0, 0.000227)
    """
    return float(min(1.0, tests * np.exp(-exponent)))


@dataclass(frozen=True)
class Told:
    """What many tests together say: the chance of the worst, and all that is less likely than told.

    `patterns` are those that tell something, the clearest first.
    """

    tests: int
    chance: float
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, looks: Iterable[Look], alarm: float) -> Told:
        """Together they find something in a random order with a chance of at most `alarm`."""
        made = list(looks)
        tests = max(sum(len(exponents) for exponents, _ in made), 1)
        least = float(np.log(tests / alarm))
        found = [
            (float(exponents[place]), told(int(place)))
            for exponents, told in made
            for place in np.flatnonzero(exponents > least)
        ]
        worst = max((float(exponents.max(initial=0.0)) for exponents, _ in made), default=0.0)
        found.sort(key=lambda each: -each[0])
        return cls(tests, chance_of(worst, tests), tuple(text for _, text in found))
