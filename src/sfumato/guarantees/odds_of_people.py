"""A promise about odds, for people of whom several rows are published.

The rows of a person are drawn independently of one another. So what is shown of all of them, y, has
Pr(y | x₁ … xₖ) / Pr(y | x'₁ … x'ₖ) = Π P[xᵢ, yᵢ] / P[x'ᵢ, yᵢ] ≤ gᵏ, where g is the amplification of
the operator, and the odds of anything about these rows, such as "x in one of them", rise by gᵏ at
most: whatever a reader knows of how a person's rows hang together, also that they are all alike.

One limit serves for all values. A limit of its own for each value would not do: another row, drawn
under a looser one, tells about this one by such a link. Nor may equal values of a person share one
draw: rows that differ would then show that their values do, and rows that agree, that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from sfumato.columns import Value
from sfumato.guarantees.base import ForPlans
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.profile import Histogram

_BITS = 40  # binary digits behind the point of a row's limit


@dataclass(frozen=True, eq=False)
class OddsOfPeople(ForPlans, OddsGuarantee):
    """`promise` for people of whom at most `rows_per_person` rows are published.

    `holders` are, by column, the people who have each value in some row. With more than one of
    `columns`, it speaks of what these tell together: draws for two columns are as independent as
    those for two rows.

    >>> from sfumato.guarantees.rho import RhoPrivacy
    >>> promise = OddsOfPeople(RhoPrivacy("1/13", "1/6"), {}, 2)
    >>> str(promise), round(float(promise.common_limit("s", "abc")), 6)  # the root of 12/5
    ('rho-privacy(1/13, 1/6)', 1.549193)
    """

    promise: OddsGuarantee
    holders: Mapping[str, Histogram]
    rows_per_person: int = 1
    columns: int = 1

    name: ClassVar[str] = "for-people"
    shows_left_out: ClassVar[bool] = False  # one limit is on all values

    @property
    def looks(self) -> int:
        return self.rows_per_person * self.columns

    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        limit = self.promise.common_limit(column, values)
        if self.columns > 1:  # the smallest limit of any of them
            limit = min(
                self.promise.common_limit(histogram.column, histogram.values)
                for histogram in self.holders.values()
            )
        return root_below(limit, self.looks)

    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        return [self.common_limit(histogram.column, histogram.values)] * len(histogram.values)

    def planning_shares(self, column: str, values: Sequence[Value]) -> list[Fraction] | None:
        return self.promise.planning_shares(column, values)

    def planning_weights(self, column: str, values: Sequence[Value]) -> list[Fraction | None]:
        return self.promise.planning_weights(column, values)

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return self.promise.ceilings(self.holders[histogram.column])

    def together(self, histograms: Mapping[str, Histogram]) -> OddsOfPeople:
        return replace(self, columns=len(histograms))

    def require_feasible(self, histogram: Histogram) -> None:
        self.promise.require_feasible(self.holders[histogram.column])


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
