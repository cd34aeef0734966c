"""Promises about odds: what is published of a person raises the odds of no value by too much.

Any operator P with P[x, y] / P[x', y] ≤ γₓ for all x', y keeps them, whatever a reader knew before;
so mechanisms that draw each record by an operator plan with the limits γₓ, and audits hold them to
those (methods, section 1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from sfumato.columns import Value
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.words import ANYBODY, Reader
from sfumato.profile import Histogram

LIMIT_BITS = 6  # significant binary digits of γ − 1 that planning sees where it follows from shares


class OddsGuarantee(Guarantee):
    """A promise that says itself completely by `odds_limits`."""

    holds_against: ClassVar[Reader] = ANYBODY
    several_columns: ClassVar[bool] = True

    @abstractmethod
    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        """How much each value's odds may be raised; None where nothing is promised."""

    def together(self, histograms: Mapping[str, Histogram]) -> Guarantee:
        from sfumato.guarantees.odds_of_people import OddsOfPeople

        return OddsOfPeople(self, histograms, 1, len(histograms))

    def odds_gains(self, histogram: Histogram) -> list[Fraction | None]:
        return self.odds_limits(histogram)

    @abstractmethod
    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        """A limit that is below none of `odds_limits`, whatever the counts are."""

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

    def planning_weights(self, column: str, values: Sequence[Value]) -> list[Fraction | None]:
        """What keeping a record of each value is worth, where the promise says so."""
        return [None] * len(values)


def round_down(number: Fraction, bits: int) -> Fraction:
    """The largest number with that many significant binary digits that is at most `number` > 0.

    >>> round_down(Fraction(28, 5), 4), round_down(Fraction(1, 3), 2)
    (Fraction(11, 2), Fraction(1, 4))
    """
    above, below = number.numerator, number.denominator
    shift = bits + below.bit_length() - above.bit_length()  # one too many digits, or as many
    digits = _shifted(above, shift) // _shifted(below, -shift)
    if digits >> bits:
        digits, shift = digits >> 1, shift - 1
    return Fraction(digits << max(-shift, 0), 1 << max(shift, 0))


def _shifted(number: int, by: int) -> int:
    return number << by if by > 0 else number
