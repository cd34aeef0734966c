"""Small-sum privacy: sums over few people are wrong, sums over many are right (SPLU)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import value_text
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Ceilings, Guarantee, refused
from sfumato.guarantees.ladders import one_in
from sfumato.guarantees.small_sum_tails import large_sum, small_sum_privacy
from sfumato.guarantees.words import FRESH_DRAWS, IN_TABLE, SUMS, Reader
from sfumato.profile import Histogram
from sfumato.textform import Parameter

LARGEST_GROUPS = 50  # beyond it the tails are those of a Poisson law: larger groups gain nothing

# what the statement says about sums when only the group size was chosen
USUAL_ERROR, USUAL_UP_TO, USUAL_PROBABILITY = Fraction(3, 10), 3, Fraction(1, 20)


@dataclass(frozen=True)
class SmallSum(Guarantee):
    """Every value is published in place of one of `groups` different values.

    Either the group size is given, or what is to hold: a sum of at most `up_to` people with the
    same value is wrong by `error` or more with at least `probability`; the smallest group size
    that does it is then found (`size`). (Definitions 2 and 4, Lemma 2; errata S7: for single
    values, not for combinations with quasi columns.)

    >>> SmallSum(error=0.3, probability=0.6, up_to=3).size
    7
    >>> str(SmallSum(5)), str(SmallSum(error="0.3", probability="1/2", up_to=3))
    ('small-sum(groups=5)', 'small-sum(error=0.3, probability=0.5, up_to=3)')
    """

    groups: int | None = None
    error: Fraction | None = None
    probability: Fraction | None = None
    up_to: int | None = None

    name: ClassVar[str] = "small-sum"
    title: ClassVar[str] = "Small sums hidden, large sums kept"
    sentence: ClassVar[str] = (
        "Every published value was drawn from several different values, so that a number over few "
        "people is badly wrong and a number over many is right."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "groups",
            least=2,
            whole=True,
            title="groups: how many different values each is drawn from",
            default="5",
            slider=(2, 50),
            less="Smaller groups hide small sums less; counts become more accurate.",
            more="Larger groups hide small sums more; counts become less accurate, and a very "
            "common value may make it impossible.",
        ),
        Parameter("error", above=0, below=1),
        Parameter("probability", above=0, below=1),
        Parameter("up_to", least=1, whole=True),
    )
    holds_against: ClassVar[Reader] = SUMS
    several_columns: ClassVar[bool] = True
    limits_belief: ClassVar[bool] = False
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "people who share all their quasi-identifiers and also their sensitive value: a condition "
        "that selects only them shows the value more often than chance, and the promise about "
        "small sums does not cover it",
        "sums over many people: they stay accurate on purpose",
        IN_TABLE,
        "an adversary who already links quasi-identifiers and sensitive values, or knows most of "
        "the "
        "other people in a group",
        FRESH_DRAWS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        aims = (self.error, self.probability, self.up_to)
        if (self.groups is None) == all(aim is None for aim in aims) or (
            self.groups is None and None in aims
        ):
            raise UsageError(
                f"{self.name} takes either a group size or all of error, probability and up_to. "
                f"Write {self.name}(groups=5) or {self.name}(error=0.3, probability=0.5, up_to=3)."
            )

    @property
    def size(self) -> int:
        """The number of different values in a group: given, or the smallest that keeps the aim.

        Raises `InfeasibleGuarantee` where no group size does.
        """
        if self.groups is not None:
            return self.groups
        assert self.error is not None
        assert self.probability is not None
        assert self.up_to is not None
        sizes = range(2, LARGEST_GROUPS + 1)
        for groups in sizes:
            if small_sum_privacy(groups, self.error, self.up_to) >= self.probability:
                return groups
        best = max(small_sum_privacy(groups, self.error, self.up_to) for groups in sizes)
        nearest = replace(self, probability=Fraction(int(best * 100), 100))
        raise InfeasibleGuarantee(
            f"No group size keeps '{self}': some sum of at most {self.up_to} people is off by "
            f"{float(self.error):.4g} or more with a chance of only {float(best):.4g}, however "
            f"large the groups. Nearest that can be kept: '{nearest}'.",
            witness=f"sums of 1 to {self.up_to}",
            nearest=str(nearest),
        )

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        # the promise is about sums: people who are all alike have no ceiling (errata S7)
        return [Fraction(1)] * len(histogram.values)

    def require_feasible(self, histogram: Histogram) -> None:
        """Eligibility: no value in more than ⌊N/c⌋ records (errata S11)."""
        groups, rows = self.size, histogram.rows
        if rows == 0:
            raise InfeasibleGuarantee(
                f"Column {histogram.column!r} holds no records to make groups of. "
                "Publish a table with records.",
                witness="(no value)",
            )
        common = max(range(len(histogram.values)), key=lambda code: int(histogram.counts[code]))
        count = int(histogram.counts[common])
        if count <= rows // groups:
            return
        most = rows // count
        raise refused(
            f"'{self}' needs groups of {groups} records with different values of column "
            f"{histogram.column!r}, so no value may have more than 1/{groups} of the records; "
            f"{value_text(histogram.values[common])} has {count / rows:.4g}.",
            histogram,
            common,
            SmallSum(most) if most >= 2 else None,
            otherwise="No group size can be kept: more than half of the records have it.",
        )

    def statement(self, histogram: Histogram) -> str:
        groups = self.size
        error, up_to = self.error or USUAL_ERROR, self.up_to or USUAL_UP_TO
        wrong = small_sum_privacy(groups, error, up_to)
        right = large_sum(groups, error, USUAL_PROBABILITY)
        return (
            f"{self._drawn(histogram)} Of the people who are published, the number with a value is "
            f"shown wrong by {float(error):.4g} of itself or more: where it is at most {up_to}, "
            f"with a chance of at least {int(wrong * 1000) / 1000:g}; where it is {right} or more, "
            f"of at most {float(USUAL_PROBABILITY):g}. This is promised for values, not for "
            "combinations of a value with quasi-identifiers."
        )

    def statement_of_further(self, histogram: Histogram) -> str:
        # who is not published follows from the first column: here the law is not a binomial one
        return f"{self._drawn(histogram)} No chances are promised for numbers of people here."

    def _drawn(self, histogram: Histogram) -> str:
        return (
            f"Column {histogram.column!r}: every published value was drawn from {self.size} "
            "different values, of which the person's own is one."
        )

    def formula(self) -> str:
        return (
            f"groups of c = {self.size} records with c different values, each showing one of them\n"
            "published count F of a value that f published people have ~ Binomial(c·f, 1/c):\n"
            "mean f, variance f(1 − 1/c)"
        )

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        return [cls(groups) for groups in range(min(one_in(histogram), LARGEST_GROUPS), 1, -1)]
