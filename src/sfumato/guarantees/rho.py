"""(rho1, rho2)-privacy: who was unlikely before stays unlikely after."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sfumato.columns import value_text
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.profile import Histogram
from sfumato.textform import decimal_text, rational


@dataclass(frozen=True)
class RhoPrivacy(Guarantee):
    """A value that a person had with chance at most `rho1` has chance at most `rho2` afterwards.

    (Perturbation thesis, Definition 1, promised as "at most": errata T1.) Values more common than
    `rho1` are not covered; the statement names them.

    >>> RhoPrivacy("1/13", "1/6").gamma
    Fraction(12, 5)
    >>> str(RhoPrivacy(0.075, "1/3"))
    'rho-privacy(0.075, 1/3)'
    """

    rho1: Fraction
    rho2: Fraction

    name: ClassVar[str] = "rho-privacy"
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "values whose share of the table is above rho1: nothing is promised about them",
        "learning that somebody is in the table, or their quasi columns, which are published as "
        "they are",
        "an adversary whose own knowledge already gives a value more than rho1",
        "conclusions that hold for everybody alike (smoking and cancer)",
        "several releases of the same people with fresh draws: they average out",
    )

    def __post_init__(self) -> None:
        for parameter in ("rho1", "rho2"):
            value = rational(getattr(self, parameter), parameter)
            if not 0 < value < 1:
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must lie between 0 and 1, "
                    f"both excluded. Got {decimal_text(value)} instead."
                )
            object.__setattr__(self, parameter, value)
        if self.rho1 >= self.rho2:
            raise UsageError(
                f"{self.name} needs rho1 < rho2 (chance before, chance after). "
                f"Got rho1 = {decimal_text(self.rho1)}, rho2 = {decimal_text(self.rho2)}."
            )

    @property
    def gamma(self) -> Fraction:
        """The amplification that the promise allows (methods, section 1)."""
        return self.rho2 * (1 - self.rho1) / (self.rho1 * (1 - self.rho2))

    def uncovered(self, histogram: Histogram) -> list[int]:
        """Codes of the values that are too common to be covered."""
        return [code for code, share in enumerate(histogram.shares) if share > self.rho1]

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [Fraction(1) if share > self.rho1 else self.rho2 for share in histogram.shares]

    def require_feasible(self, histogram: Histogram) -> None:
        shares = histogram.shares
        present = [code for code, count in enumerate(histogram.counts) if count > 0]
        if len(histogram.values) < 2:
            raise InfeasibleGuarantee(
                f"Column {histogram.column!r} has only one value: no perturbation can hide it. "
                "Choose another sensitive column, or state a wider domain.",
                witness=value_text(histogram.values[0]) if histogram.values else "(no value)",
            )
        if all(shares[code] > self.rho1 for code in present):
            rarest = min(present, key=lambda code: shares[code])
            share = shares[rarest]
            nearest = self._reaching(share)
            advice = (
                f"Nearest that protects something: '{nearest}'."
                if nearest
                else "Nothing can: choose another sensitive column."
            )
            raise InfeasibleGuarantee(
                f"'{self}' would protect nobody: every value of column {histogram.column!r} has a "
                f"share above rho1 = {decimal_text(self.rho1)}; the rarest, "
                f"{value_text(histogram.values[rarest])}, has {float(share):.4g}. {advice}",
                witness=value_text(histogram.values[rarest]),
                nearest=str(nearest) if nearest else None,
            )

    def _reaching(self, share: Fraction) -> RhoPrivacy | None:
        """The nearest promise that covers a value of this share; none where everybody has it."""
        if share < self.rho2:
            return RhoPrivacy(share, self.rho2)
        if share >= 1:
            return None
        odds = self.gamma * share / (1 - share)  # the same amplification, so the same operator
        return RhoPrivacy(share, odds / (1 + odds))

    def statement(self, histogram: Histogram) -> str:
        text = (
            f"Column {histogram.column!r}: whoever believes, from anything but a person's own "
            "record, that the person has some value with a chance of at most "
            f"{float(self.rho1):.4g} still gives it a chance of at most {float(self.rho2):.4g} "
            "after seeing that record."
        )
        return text + self.uncovered_text(histogram)

    def uncovered_text(self, histogram: Histogram) -> str:
        """The sentence that names the values that are not covered; empty if all are."""
        uncovered = [value_text(histogram.values[code]) for code in self.uncovered(histogram)]
        if not uncovered:
            return ""
        return (
            f" Not covered, because more than {float(self.rho1):.4g} of the people have them: "
            f"{', '.join(uncovered)}."
        )
