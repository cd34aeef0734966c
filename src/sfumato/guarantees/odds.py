"""Promises about odds: what is published of a person raises the odds of no value by too much.

Any operator P with P[x, y] / P[x', y] ≤ γₓ for all x', y keeps them, whatever a reader knew before;
so mechanisms that draw each record by an operator plan with the limits γₓ, and audits hold them to
those (methods, section 1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from sfumato.columns import Value
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.words import ANYBODY, Reader
from sfumato.profile import Histogram

_BITS = 40  # binary digits behind the point of a row's limit
LIMIT_BITS = 6  # significant binary digits of γ − 1 that planning sees where it follows from shares


class OddsGuarantee(Guarantee):
    """A promise that says itself completely by `odds_limits`."""

    holds_against: ClassVar[Reader] = ANYBODY
    several_columns: ClassVar[bool] = True

    @abstractmethod
    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        """How much each value's odds may be raised; None where nothing is promised."""

    def odds_gains(self, histogram: Histogram) -> list[Fraction | None]:
        return self.odds_limits(histogram)

    @abstractmethod
    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        """A limit that is below none of `odds_limits`, whatever the counts are."""

    def stated_limits(self, histogram: Histogram) -> list[Fraction | None]:
        """What every value's odds may be raised whatever the counts are; None: nothing is said."""
        return [self.common_limit(histogram.column, histogram.values)] * len(histogram.values)

    @property
    def limits_follow_shares(self) -> bool:
        """Whether a limit tells how common its value is; else it is a number of the promise."""
        return False

    def planning_limits(self, histogram: Histogram) -> list[Fraction | None]:
        """The limits that a plan is made with: at most the exact ones.

        A plan is published, so it must not betray what it was made from: limits that follow from
        shares are coarse here.
        """
        exact = self.odds_limits(histogram)
        if not self.limits_follow_shares:
            return exact
        return [None if gamma is None else 1 + round_down(gamma - 1, LIMIT_BITS) for gamma in exact]

    def planning_shares(self, column: str, values: Sequence[Value]) -> list[Fraction] | None:
        """Shares to plan for that follow from the promise; None where plans must look at counts."""
        return None


def round_down(number: Fraction, bits: int) -> Fraction:
    """The largest number with that many significant binary digits that is at most `number` > 0.

    >>> round_down(Fraction(28, 5), 4), round_down(Fraction(1, 3), 2)
    (Fraction(11, 2), Fraction(1, 4))
    """
    length = number.numerator.bit_length() - number.denominator.bit_length()
    step = Fraction(2) ** (length - bits)  # one digit too many, or as many
    step *= 2 if number // step >> bits else 1
    return number // step * step


def root_below(number: Fraction, k: int) -> Fraction:
    """The largest r of 40 binary digits behind the point with rᵏ ≤ number, for a number from 1 up.

    >>> root_below(Fraction(9), 2), root_below(Fraction(2), 1)
    (Fraction(3, 1), Fraction(2, 1))
    >>> r = root_below(Fraction(2), 3)
    >>> r**3 <= 2 < (r + Fraction(1, 2**40)) ** 3
    True
    """
    scaled = (number.numerator << (_BITS * k)) // number.denominator  # n**k ≤ this, n = r·2⁴⁰
    low, high = 1, 1 << (scaled.bit_length() // k + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**k <= scaled else (low, middle)
    return Fraction(low, 1 << _BITS)
