"""beta-likeness: no value becomes more than 1 + beta times as likely as it was; enhanced, it limits
common values too."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.guarantees.base import Ceilings
from sfumato.guarantees.ceilings import BUCKETS, CeilingGuarantee
from sfumato.guarantees.ladders import COARSE, factors, unlimited
from sfumato.guarantees.value_table import OPEN, OpenValues
from sfumato.guarantees.words import amount, rarest_share
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text

_DIGITS = 50  # of logarithms
_MARGIN = Fraction(1, 10**40)  # more than rounding can make them too large


@dataclass(frozen=True)
class LikenessGuarantee(CeilingGuarantee):
    """A promise about how many times its share the chance of a value may be."""

    beta: Fraction
    open: OpenValues | None = None

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

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        most, free = float(1 / rarest_share(histogram)), unlimited(ceilings)
        return [cls(factor - 1, free) for factor in factors(most, COARSE)]


@dataclass(frozen=True)
class BetaLikeness(LikenessGuarantee):
    """The chance of a value x is at most (1 + beta) times its share in the whole table.

    >>> import numpy as np
    >>> BetaLikeness(3).ceilings(Histogram("s", ("a", "b"), np.array([1, 9])))
    [Fraction(2, 5), Fraction(1, 1)]
    """

    name: ClassVar[str] = "beta-likeness"
    title: ClassVar[str] = "No value much likelier than it was"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta times "
        "its share in the whole table."
    )

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        limits = [min(Fraction(1), (1 + self.beta) * share) for share in histogram.shares]
        return self.but_open(histogram, limits)

    def statement(self, histogram: Histogram) -> str:
        most = f"at most {amount(1 + self.beta)} times its share in the table"
        return (
            f"{self.about_chances(histogram, most)}. Values whose share makes that 1 or more are "
            f"not limited.{self.open_text()}"
        )

    def formula(self) -> str:
        return f"{BUCKETS}(1 + {decimal_text(self.beta)})·fₓ"


@dataclass(frozen=True)
class EnhancedBetaLikeness(LikenessGuarantee):
    """The chance of a value x is at most 1 + min(beta, −ln fₓ) times its share fₓ (Cao and Karras,
    Publishing microdata with a robust privacy guarantee, Definition 3).

    fₓ·(1 − ln fₓ) is below 1 for every value that not everybody has: unlike under beta-likeness, no
    value is left open.

    >>> import numpy as np
    >>> column = Histogram("s", ("a", "b"), np.array([1, 9]))
    >>> [round(float(ceiling), 4) for ceiling in EnhancedBetaLikeness(1).ceilings(column)]
    [0.2, 0.9948]
    """

    name: ClassVar[str] = "enhanced-beta-likeness"
    title: ClassVar[str] = "No value much likelier than it was, and none certain"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta times "
        "its share in the whole table, and common values less: never 1."
    )

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        limits = [share * (1 + min(self.beta, _log(share))) for share in histogram.shares]
        return self.but_open(histogram, limits)

    def statement(self, histogram: Histogram) -> str:
        most = (
            f"at most {float(1 + self.beta):.4g} times its share f in the table, and at most "
            "1 − ln f times"
        )
        return f"{self.about_chances(histogram, most)}.{self.open_text()}"

    def formula(self) -> str:
        return f"{BUCKETS}(1 + min({decimal_text(self.beta)}, −ln fₓ))·fₓ"


def _log(share: Fraction) -> Fraction:
    """A fraction just below −ln(share), so that ceilings are never too high.

    >>> round(float(_log(Fraction(1, 2))), 12), _log(Fraction(1)), _log(Fraction(0))
    (0.69314718056, Fraction(0, 1), Fraction(0, 1))
    """
    if not share:
        return Fraction(0)
    with localcontext() as context:
        context.prec = _DIGITS
        logarithm = Fraction(-(Decimal(share.numerator) / Decimal(share.denominator)).ln())
    return max(logarithm - _MARGIN, Fraction(0))
