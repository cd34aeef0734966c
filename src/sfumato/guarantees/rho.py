"""(rho1, rho2)-privacy: who was unlikely before stays unlikely after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import Value, value_text
from sfumato.errors import UsageError
from sfumato.guarantees.base import Ceilings, refused, require_two_values
from sfumato.guarantees.ladders import COARSE, just_above, up_to_one
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.guarantees.words import (
    CONCLUSIONS,
    FRESH_DRAWS,
    IN_TABLE,
    SHARES_ONLY,
    Reader,
    fraction,
)
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text

ANY_READER, SHARES_READER = "anybody", "shares"


@dataclass(frozen=True)
class RhoPrivacy(OddsGuarantee):
    """A value that a person had with chance at most `rho1` has chance at most `rho2` afterwards.

    (Perturbation thesis, Definition 1, promised as "at most": errata T1.) Values more common than
    `rho1` are not covered. `reader` is "anybody", whatever they knew before; "shares" is content
    with whoever knows of a person no more than how common each value is.

    >>> RhoPrivacy("1/13", "1/6").gamma
    Fraction(12, 5)
    >>> str(RhoPrivacy(0.075, "1/3"))
    'rho-privacy(0.075, 1/3)'
    >>> print(RhoPrivacy("1/13", "1/6").formula())
    Pr(X = x) ≤ 1/13  implies  Pr(X = x | Y = y) ≤ 1/6
    kept where  P[x, y] / P[x', y] ≤ γ = ρ₂(1 − ρ₁) / (ρ₁(1 − ρ₂)) = 2.4
    """

    rho1: Fraction
    rho2: Fraction
    reader: str = ANY_READER

    name: ClassVar[str] = "rho-privacy"
    title: ClassVar[str] = "Who was unlikely before stays unlikely after"
    sentence: ClassVar[str] = (
        "Whoever gives a person's sensitive value a chance of at most rho1 without that person's "
        "own record gives it at most rho2 with it."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        fraction(
            "rho1",
            "rho1: the chance before",
            "0.1",
            "A smaller rho1 covers fewer values: those whose share is above it are not protected.",
            "A larger rho1 covers more common values too.",
        ),
        fraction(
            "rho2",
            "rho2: the chance after",
            "0.3",
            "A smaller rho2 protects more; counts become less accurate.",
            "A larger rho2 protects less; counts become more accurate.",
        ),
        Parameter("reader", options=(ANY_READER, SHARES_READER)),
    )
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "values whose share of the table is above rho1: nothing is promised about them",
        IN_TABLE,
        "an adversary whose own knowledge already gives a value more than rho1",
        CONCLUSIONS,
        FRESH_DRAWS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho1 >= self.rho2:
            raise UsageError(
                f"{self.name} needs rho1 < rho2 (chance before, chance after). "
                f"Got rho1 = {decimal_text(self.rho1)}, rho2 = {decimal_text(self.rho2)}."
            )

    def against(self) -> Reader:
        return self.holds_against if self.reader == ANY_READER else SHARES_ONLY

    def kept_against(self, reader: Reader | None) -> Self:
        """
        >>> str(RhoPrivacy("1/13", "1/6").kept_against(SHARES_ONLY))
        'rho-privacy(1/13, 1/6, reader=shares)'
        """
        return replace(self, reader=SHARES_READER if reader == SHARES_ONLY else ANY_READER)

    @property
    def gamma(self) -> Fraction:
        """The amplification that the promise allows (methods, section 1)."""
        return self.rho2 * (1 - self.rho1) / (self.rho1 * (1 - self.rho2))

    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        return [None if share > self.rho1 else self.gamma for share in histogram.shares]

    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        return self.gamma

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [Fraction(1) if share > self.rho1 else self.rho2 for share in histogram.shares]

    def require_feasible(self, histogram: Histogram) -> None:
        require_two_values(histogram)
        shares = histogram.shares
        present = [code for code, count in enumerate(histogram.counts) if count > 0]
        rarest = min(present, key=lambda code: shares[code], default=0)
        if shares[rarest] > self.rho1:
            raise refused(
                f"'{self}' would protect nobody: every value of column {histogram.column!r} has a "
                f"share above rho1 = {decimal_text(self.rho1)}; the rarest, "
                f"{value_text(histogram.values[rarest])}, has {float(shares[rarest]):.4g}.",
                histogram,
                rarest,
                self._reaching(shares[rarest]),
                can="that protects something",
                otherwise="Nothing can: choose another sensitive column.",
            )

    def _reaching(self, share: Fraction) -> RhoPrivacy | None:
        """A promise near by that covers a value of this share, which it does not tell exactly;
        none where everybody has it."""
        if share >= 1:
            return None
        rho1, rho2 = just_above(share, COARSE), self.rho2
        if rho1 >= rho2:
            odds = self.gamma * rho1 / (1 - rho1)  # about the same amplification
            rho2 = just_above(odds / (1 + odds))
        return replace(self, rho1=rho1, rho2=rho2)

    def statement(self, histogram: Histogram) -> str:
        text = (
            f"Column {histogram.column!r}: whoever, from anything but a person's own record (that "
            "this table was published included), gives some value of the person a chance of at "
            f"most {float(self.rho1):.4g} still gives it a chance of at most "
            f"{float(self.rho2):.4g} after seeing that record."
        )
        return text + self._uncovered()

    def statement_by_parts(self, histogram: Histogram, failure: float) -> str:
        # Definition 1 speaks of any prior; sub-tables keep it for the prior that they have (T11)
        text = (
            f"Column {histogram.column!r}: whoever knows of a person no more than how common each "
            f"value is gives a value with a share of at most {float(self.rho1):.4g} a chance of at "
            f"most {float(self.rho2):.4g} after seeing the release"
        )
        if self.reader == SHARES_READER:
            text += (
                ", all of its records and the exact shares included; at most one release in "
                f"{round(1 / failure):,} is drawn so oddly that it may be more"
            )
        return f"{text}.{self._uncovered()}"

    def _uncovered(self) -> str:
        """The rule by which values are not covered; their names would follow from exact counts."""
        return (
            f" A value that more than {float(self.rho1):.4g} of the people have is not covered: "
            "nothing is promised about it."
        )

    def formula(self) -> str:
        before, after = decimal_text(self.rho1), decimal_text(self.rho2)
        return (
            f"Pr(X = x) ≤ {before}  implies  Pr(X = x | Y = y) ≤ {after}\n"
            "kept where  P[x, y] / P[x', y] ≤ γ = ρ₂(1 − ρ₁) / (ρ₁(1 − ρ₂)) = "
            f"{float(self.gamma):.4g}"
        )

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        """rho1 covers every value; rho2 in steps of a thousandth."""
        rho1 = just_above(max(histogram.shares))
        return [cls(rho1, rho2) for rho2 in up_to_one(rho1)]
