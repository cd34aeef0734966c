"""(λ, δ)-reconstruction privacy: what concerns one person cannot be reconstructed well."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.guarantees.base import Ceilings, Guarantee, require_two_values
from sfumato.guarantees.words import FRESH_DRAWS, GROUPS, Reader, fraction
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text


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
    title: ClassVar[str] = "What concerns one person cannot be reconstructed"
    sentence: ClassVar[str] = (
        "Whoever estimates how many of the people with exactly the same public columns have a "
        "value is off by more than the error with at least the stated chance."
    )
    # errata R8: an error of 1 or more has no lower tail
    parameters: ClassVar[tuple[Parameter, ...]] = (
        fraction(
            "error",
            "error: how far off",
            "0.3",
            "A smaller error protects less; counts become more accurate.",
            "A larger error protects more; counts become less accurate.",
        ),
        fraction(
            "chance",
            "chance: how often off that far",
            "0.3",
            "A smaller chance protects less; counts become more accurate.",
            "A larger chance protects more; counts become less accurate.",
        ),
        fraction(
            "retention",
            "retention: how often a value stays as it was",
            "0.5",
            "A smaller retention perturbs more records.",
            "A larger retention perturbs fewer records, but fewer of them can be used.",
        ),
    )
    holds_against: ClassVar[Reader] = GROUPS
    limits_belief: ClassVar[bool] = False
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
        FRESH_DRAWS,
    )

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [Fraction(1)] * len(histogram.values)  # it limits accuracy, not belief

    def require_feasible(self, histogram: Histogram) -> None:
        require_two_values(histogram)

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

    def formula(self) -> str:
        error, chance = decimal_text(self.error), decimal_text(self.chance)
        return (
            "for everybody who shares the published quasi values, f the share of their commonest "
            "value and F' its estimate:\n"
            f"Pr(F' > (1 + {error})·f) ≥ {chance}  and  Pr(F' < (1 − {error})·f) ≥ {chance}"
        )

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        """The paper's λ = 0.3; the chance δ that an estimate errs by more, in steps of 0.05."""
        return [cls(Fraction(3, 10), Fraction(twentieths, 20)) for twentieths in range(9, 0, -1)]
