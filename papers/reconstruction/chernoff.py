"""Equation 9 as the paper tests it: Chernoff's bound, which is far too generous (errata R1)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Level
from sfumato.mechanisms.reconstruction.tails import Setting, tails
from sfumato.mechanisms.reconstruction.testing import choose_samples

_RATIO = 3.0  # between the levels of f


def chernoff_size(share: float | Fraction, setting: Setting) -> float:
    """s_g: the largest group that Chernoff's bound calls private (Equation 10).

    Far too generous: the exact tails at s_g are 7 to 250 times smaller than δ (errata R1).

    >>> setting = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 10)
    >>> math.floor(chernoff_size(0.5, setting))
    128
    """
    p, f = float(setting.retention), float(share)
    spread = f * p + float(setting.background)
    return -2 * spread * math.log(setting.chance) / (float(setting.error) * p * f) ** 2


def exact_limit(share: Fraction, setting: Setting) -> int:
    """The largest group, without sampling, whose exact tails both reach δ; 0 where there is none.

    Sizes n for which n·f is a whole number; beyond s_g Chernoff's bound already rules them out.

    >>> exact_limit(Fraction(1, 2), Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 10))
    10
    """
    step = share.denominator
    n = np.arange(step, math.floor(chernoff_size(share, setting)) + 1, step, dtype=np.int64)
    private = tails(setting, n, n, n // step * share.numerator).both_ways(float(setting.chance))
    return int(n[private].max()) if private.any() else 0


def chernoff_private(
    setting: Setting, sizes: IntArray, samples: IntArray, counts: IntArray, largest: IntArray
) -> BoolArray:
    """Equation 9 on the sample as rounding may leave it (errata R3): n ≤ s(⌈n·c/N⌉/n)."""
    share = -(-samples * counts // sizes) / samples
    p, q = float(setting.retention), float(setting.background)
    limit = -2 * (share * p + q) * np.log(float(setting.chance))
    return np.asarray(samples * (float(setting.error) * p * share) ** 2 <= limit)


def chernoff_levels(setting: Setting) -> tuple[Level, ...]:
    """Levels of the largest share, each a third of the one above.

    >>> from fractions import Fraction
    >>> half = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 50)
    >>> [level.sample for level in chernoff_levels(half)]
    [54, 170, 568, 2224]
    """
    found, top = [], 1.0
    while top > 1 / setting.values:
        found.append(Level(top / _RATIO, top, math.floor(chernoff_size(top, setting))))
        top /= _RATIO
    return tuple(found)


def chernoff_samples(groups: PersonalGroups, setting: Setting) -> IntArray:
    """Samples by level, held to Equation 9."""
    return choose_samples(groups, setting, chernoff_levels(setting), chernoff_private)


def chernoff_violations(groups: PersonalGroups, setting: Setting) -> BoolArray:
    """Which groups plain uniform perturbation of every record would expose by Equation 9."""
    sizes, largest = groups.sizes, groups.largest
    return ~chernoff_private(setting, sizes, sizes, largest, largest)
