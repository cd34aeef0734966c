"""linked-diversity: hardly anybody's value is likelier than 1/l to a reader who knows the links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import value_text
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Ceilings, Guarantee, set_fractions
from sfumato.guarantees.words import LINKS, Parameter, Reach, Reader, fraction
from sfumato.profile import Histogram
from sfumato.textform import decimal_text, rational

MODEL = "naive Bayes of the raw table"


@dataclass(frozen=True)
class LinkedDiversity(Guarantee):
    """For at least `share` of the people no value is likelier than 1/l to the linked reader.

    That reader knows how quasi columns and values hang together in the raw table, as naive Bayes
    has it, knows whose record is whose, and weighs all ways to deal the values of a bucket
    (methods, section 7). It is measured against that model, not proved against every reader.

    >>> str(LinkedDiversity("2", "0.9"))
    'linked-diversity(2, share=0.9)'
    """

    l: Fraction  # noqa: E741 - the promise is called after it
    share: Fraction = Fraction(99, 100)

    name: ClassVar[str] = "linked-diversity"
    title: ClassVar[str] = "No value likelier than 1 in ℓ, links known, for most people"
    sentence: ClassVar[str] = (
        "Whoever knows how the columns hang together, as a named model has it, gives each "
        "sensitive value of a person a chance of at most 1 in ℓ, for all but few people."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "l",
            "l: one in how many",
            "number",
            "1.5",
            1.0,
            50.0,
            "A smaller l protects less.",
            "A larger l protects more; links alone may make it impossible.",
        ),
        fraction(
            "share",
            "share: of how many people",
            "0.8",
            "A smaller share leaves more people out.",
            "A larger share leaves fewer people out; links alone may make it impossible.",
        ),
    )
    holds_against: ClassVar[Reader] = LINKS
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "a reader who knows sharper links than naive Bayes of this table: the promise is measured "
        "against that model, not proved against every reader",
        "the people that the share leaves out",
        "an adversary who knows the values of other people in the bucket",
        "learning that a person is in the table",
        "several releases of the same people with fresh draws: their buckets can be intersected",
    )

    def __post_init__(self) -> None:
        number = rational(self.l, "l")
        if number <= 1:
            raise UsageError(
                f"The 'l' parameter of {self.name} must be above 1. "
                f"Got {decimal_text(number)} instead."
            )
        object.__setattr__(self, "l", number)
        set_fractions(self, "share")

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [1 / self.l] * len(histogram.values)

    def require_feasible(self, histogram: Histogram) -> None:
        code = int(histogram.counts.argmax())
        largest = histogram.shares[code]
        if largest > 1 / self.l:
            nearest = Fraction(int(100 / largest), 100)
            told = f" The nearest: {LinkedDiversity(nearest, self.share)}." if nearest > 1 else ""
            raise InfeasibleGuarantee(
                f"'{self}' cannot be kept: {value_text(histogram.values[code])} is the value of "
                f"{float(100 * largest):.3g} % of the people, more than 1 in {float(self.l):.3g}, "
                f"whatever is known of links.{told}",
                witness=value_text(histogram.values[code]),
                nearest=str(LinkedDiversity(nearest, self.share)) if nearest > 1 else None,
            )

    def statement(self, histogram: Histogram) -> str:
        return (
            f"Column {histogram.column!r}: for at least {float(100 * self.share):.4g} % of the "
            f"people, a reader who knows the links between quasi columns and values as {MODEL} has "
            "them, and whose record is whose, gives no value a chance of more than 1 in "
            f"{float(self.l):.4g}. This is measured against that model, not proved for every "
            "reader."
        )

    def formula(self) -> str:
        return (
            "with P(x | q) by naive Bayes of the raw table, over all ways to deal a bucket's "
            f"values to its people:\nchance of every value ≤ 1/{decimal_text(self.l)} for at least "
            f"{decimal_text(self.share)} of the people"
        )

    @classmethod
    def reach(cls, histograms: Sequence[Histogram]) -> Reach:
        largest = max(max(histogram.shares) for histogram in histograms)
        limit = "What links alone tell about people decides what can be kept: publish to see."
        usual = cls.usual()
        allowed = len(histograms) == 1 and largest <= 1 / usual.l
        return Reach(allowed, limit, str(usual) if allowed else None)

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        """Three l for four people in five; what links tell decides which can be kept."""
        rungs = (Fraction(3), Fraction(2), Fraction(3, 2))
        return [cls(rung, Fraction(4, 5)) for rung in rungs if max(histogram.shares) <= 1 / rung]
