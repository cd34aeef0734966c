"""A guarantee, its audit and a mechanism that no module of sfumato knows.

`register` is all it takes: what a contributor would write as lines of the three registries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.audits import CHECKS, AuditCase, AuditCheck, Disclosure, Finding
from sfumato.draws import Draws
from sfumato.guarantees import GUARANTEES, Ceilings, Guarantee, Parameter, Reader
from sfumato.guarantees.base import require_two_values
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.operators import Uniform
from sfumato.operators.base import dyadic_floor
from sfumato.profile import Histogram, Profile
from sfumato.release import PerturbedRelease


@dataclass(frozen=True)
class CoinToss(Guarantee):
    """What is published of a person is their own value with a chance of at most `kept`."""

    kept: Fraction

    name: ClassVar[str] = "coin-toss"
    title: ClassVar[str] = "A coin stands between the person and what is published"
    sentence: ClassVar[str] = "A value is published as it is only where a coin says so."
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "kept",
            above=0,
            below=1,
            title="kept: how often the coin says so",
            default="0.5",
            less="A smaller chance protects more.",
            more="A larger chance protects less.",
        ),
    )
    holds_against: ClassVar[Reader] = Reader("whoever trusts coins", 5)
    does_not_protect: ClassVar[tuple[str, ...]] = ("whoever looks at the coin",)

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        """Bayes' rule for a value that is published, kept or drawn among all."""
        drawn = (1 - self.kept) / max(len(histogram.values), 1)
        return [(self.kept + drawn) * f / (self.kept * f + drawn) for f in histogram.shares]

    def require_feasible(self, histogram: Histogram) -> None:
        require_two_values(histogram)

    def statement(self, histogram: Histogram) -> str:
        return (
            f"Column {histogram.column!r}: a value is kept with a chance of at most "
            f"{float(self.kept):g}, and else drawn among all values."
        )

    def formula(self) -> str:
        return f"Pr(kept) ≤ {float(self.kept):g}"

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        return [cls(Fraction(k, 20)) for k in range(1, 20)]


KEPT = AuditCheck("coin", "chance that {column} is kept", Disclosure.PUBLIC, judges=True)


def check_coin(case: AuditCase) -> Iterator[Finding]:
    """The operator keeps no value more often than the promise allows."""
    assert isinstance(case.guarantee, CoinToss)
    assert isinstance(case.release, PerturbedRelease)
    for column, operator in case.release.operators.items():
        assert isinstance(operator, Uniform)
        yield Finding.limited(KEPT, operator.retention, case.guarantee.kept, column=column)


@dataclass(frozen=True)
class Coin(Mechanism):
    """Toss it."""

    name: ClassVar[str] = "coin"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CoinToss,)
    sentence: ClassVar[str] = "Tosses a coin for every record."

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> PerturbedPlan:
        assert isinstance(guarantee, CoinToss)
        operators, limits = {}, {}
        for column, histogram in profile.histograms.items():
            guarantee.require_feasible(histogram)
            operators[column] = Uniform(len(histogram.values), dyadic_floor(guarantee.kept))
            limits[column] = operators[column].amplification()
        return PerturbedPlan(operators, limits, profile.rows, profile.histograms)


def register() -> None:
    GUARANTEES[CoinToss.name] = CoinToss
    MECHANISMS[Coin.name] = Coin
    CHECKS[CoinToss] = [check_coin]


def forget() -> None:
    del GUARANTEES[CoinToss.name], MECHANISMS[Coin.name], CHECKS[CoinToss]
