"""(λ, δ)-reconstruction privacy: what concerns one person cannot be reconstructed well."""

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
class ReconstructionPrivacy(Guarantee):
    """Shares in a personal group are misjudged by more than λ = `error` with chance δ = `chance`.

    (Reconstruction privacy, Definition 3 as errata R13 reads it.) A personal group is all people
    with the same quasi values. Values are perturbed with probability 1 − `retention`. For the
    commonest value of a group either way of erring, too high and too low, has chance δ on its
    own; for every other value that occurs, whichever way the estimate errs, it errs by more than
    λ with chance δ.

    >>> str(ReconstructionPrivacy(0.3, 0.3, "0.5"))
    'reconstruction-privacy(0.3, 0.3)'
    >>> str(ReconstructionPrivacy(0.3, "1/4", retention=0.3))
    'reconstruction-privacy(0.3, 0.25, retention=0.3)'
    """

    error: Fraction
    chance: Fraction
    retention: Fraction = Fraction(1, 2)

    name: ClassVar[str] = "reconstruction-privacy"
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "what holds for larger groups of people, reconstructed over several quasi values on "
        "purpose: that is what the release is for",
        "an adversary who knows, against the chi-square test, that quasi values do not matter, and "
        "pools groups over them",
        "an adversary who has other knowledge that links quasi and sensitive values, or people "
        "with one another",
        "learning how large a group is, and, from its copies, at which of the published levels "
        "its largest share is",
        "estimates other than the unbiased one: where everybody in a group has the same value, "
        "cutting the estimate off at 1 is right about as often as a value is published unchanged",
        "learning that a person is in the table",
        "several releases of the same people with fresh draws: they average out",
    )

    def __post_init__(self) -> None:
        for parameter in ("error", "chance", "retention"):
            value = rational(getattr(self, parameter), parameter)
            if not 0 < value < 1:  # errata R8: an error of 1 or more has no lower tail
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must lie between 0 and 1, "
                    f"both excluded. Got {decimal_text(value)} instead."
                )
            object.__setattr__(self, parameter, value)

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [Fraction(1)] * len(histogram.values)  # it limits accuracy, not belief

    def require_feasible(self, histogram: Histogram) -> None:
        if len(histogram.values) < 2:
            raise InfeasibleGuarantee(
                f"Column {histogram.column!r} has only one value: no perturbation can hide it. "
                "Choose another sensitive column, or state a wider domain.",
                witness=value_text(histogram.values[0]) if histogram.values else "(no value)",
            )

    def statement(self, histogram: Histogram) -> str:
        error, chance = f"{float(self.error):.4g}", f"{float(self.chance):.4g}"
        return (
            f"Column {histogram.column!r}: take all people who share their published quasi values. "
            "Whoever undoes the perturbation to estimate how many of them have the value that is "
            f"commonest among them errs upwards by more than {error} of the truth with a chance of "
            f"at least {chance}, and downwards likewise. For every other value that occurs among "
            f"them: whichever way the estimate errs, it errs by more than {error} of the truth "
            f"with a chance of at least {chance}."
        )
