"""beta-likeness: no value becomes more than 1 + beta times as likely as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.guarantees.base import Ceilings
from sfumato.guarantees.ceilings import BUCKETS, CeilingGuarantee
from sfumato.guarantees.ladders import COARSE, factors, unlimited
from sfumato.guarantees.value_table import OPEN, OpenValues
from sfumato.guarantees.words import Extremes, Reach, amount, rarest_share
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text


@dataclass(frozen=True)
class BetaLikeness(CeilingGuarantee):
    """The chance of a value x is at most (1 + beta) times its share in the whole table.

    >>> import numpy as np
    >>> BetaLikeness(3).ceilings(Histogram("s", ("a", "b"), np.array([1, 9])))
    [Fraction(2, 5), Fraction(1, 1)]
    """

    beta: Fraction
    open: OpenValues | None = None

    name: ClassVar[str] = "beta-likeness"
    title: ClassVar[str] = "No value much likelier than it was"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta times "
        "its share in the whole table."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "beta",
            above=0,
            title="beta: how much likelier a value may become",
            default="3",
            slider=(0.1, 50),
            less="A smaller beta protects more, rare values most of all; counts become less "
            "accurate.",
            more="A larger beta protects less; counts become more accurate.",
        ),
        OPEN,
    )

    def own_ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [min(Fraction(1), (1 + self.beta) * share) for share in histogram.shares]

    def statement(self, histogram: Histogram) -> str:
        most = f"at most {amount(1 + self.beta)} times its share in the table"
        return (
            f"{self.about_chances(histogram, most)}. Values whose share makes that 1 or more are "
            f"not limited.{self.open_text()}"
        )

    def formula(self) -> str:
        return f"{BUCKETS}(1 + {decimal_text(self.beta)})·fₓ"

    @classmethod
    def reach(cls, histograms: Sequence[Histogram]) -> Reach:
        extremes = Extremes.of(histograms)
        limit = f"Any beta above 0. {extremes.left_open('beta', 1 / extremes.largest - 1)}"
        ends = {"beta": (0.01, float(1 / extremes.rarest - 1))}
        return Reach(True, limit, str(cls.usual()), ends)

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        most, free = float(1 / rarest_share(histogram)), unlimited(ceilings)
        return [cls(factor - 1, free) for factor in factors(most, COARSE)]
