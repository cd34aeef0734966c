"""Numbers for advice to walk over: short decimals, close where promises differ much."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

import numpy as np

from sfumato.guarantees.base import Ceilings
from sfumato.guarantees.value_table import OpenValues
from sfumato.profile import Histogram

_THOUSAND = 1000
_LARGEST_FACTOR = 10_000  # times a share that a promise may still call a limit
COARSE = 2  # digits for buckets: integers make their errors jump, more digits would mean nothing


def just_above(share: Fraction, digits: int = 3) -> Fraction:
    """The share rounded up to a short decimal that is still below 1.

    >>> just_above(Fraction(749, 10_000)), just_above(Fraction(1, 3000))
    (Fraction(3, 40), Fraction(17, 50000))
    """
    if share <= 0:
        return Fraction(1, 10**6)
    places = digits + max(0, -math.floor(math.log10(float(share))) - 2)
    rounded = Fraction(math.ceil(share * 10**places), 10**places)
    return rounded if rounded < 1 else (1 + share) / 2


def up_to_one(low: Fraction) -> list[Fraction]:
    """Short decimals above `low` and below 1, the odds in even steps at both ends."""
    steps = [Fraction(k, _THOUSAND) for k in range(1, _THOUSAND)]
    steps += [1 - Fraction(k, _THOUSAND * 100) for k in (1, 2, 5, 10, 20, 50)]
    return sorted(step for step in set(steps) if step > low)


def factors(largest: float, digits: int = 3) -> list[Fraction]:
    """Numbers of so many digits from just above 1 up to `largest`.

    >>> [float(factor) for factor in factors(1.55, 2)], float(factors(25, 2)[-1])
    ([1.1, 1.2, 1.3, 1.4, 1.5], 24.0)
    """
    steps: list[Fraction] = []
    step = Fraction(1, 10 ** (digits - 1))
    number = 1 + step
    while number < min(largest, _LARGEST_FACTOR):
        steps.append(number)
        if number >= 10**digits * step:
            step *= 10
        number += step
    return steps


def largest_other(histogram: Histogram, ceilings: Ceilings) -> Fraction:
    """The largest share of a value that has no ceiling of its own."""
    shares = zip(histogram.values, histogram.shares, strict=True)
    return max((share for value, share in shares if value not in ceilings), default=Fraction(0))


def one_in(histogram: Histogram, free: Collection[int] = ()) -> int:
    """One record in how many, at most, may have the commonest value, but for those in `free`."""
    counts = np.delete(histogram.counts, list(free))
    return histogram.rows // max(int(counts.max(initial=0)), 1)


def unlimited(ceilings: Ceilings) -> OpenValues | None:
    """The values that the steward's ceilings leave open, with a limit of 1."""
    values = [value for value, limit in ceilings.items() if limit >= 1]
    return OpenValues.of(values) if values else None
