"""enhanced-beta-likeness: beta-likeness that limits common values too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.guarantees.base import Ceilings
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.guarantees.ceilings import BUCKETS, CeilingGuarantee
from sfumato.guarantees.ladders import COARSE, factors, unlimited
from sfumato.guarantees.value_table import OpenValues
from sfumato.guarantees.words import Reach, rarest_share
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text

_DIGITS = 50  # of logarithms
_MARGIN = Fraction(1, 10**40)  # more than rounding can make them too large


@dataclass(frozen=True)
class EnhancedBetaLikeness(CeilingGuarantee):
    """The chance of a value x is at most 1 + min(beta, −ln fₓ) times its share fₓ (Cao and Karras,
    Publishing microdata with a robust privacy guarantee, Definition 3).

    fₓ·(1 − ln fₓ) is below 1 for every value that not everybody has: unlike under beta-likeness, no
    value is left open.

    >>> import numpy as np
    >>> column = Histogram("s", ("a", "b"), np.array([1, 9]))
    >>> [round(float(ceiling), 4) for ceiling in EnhancedBetaLikeness(1).ceilings(column)]
    [0.2, 0.9948]
    """

    beta: Fraction
    open: OpenValues | None = None

    name: ClassVar[str] = "enhanced-beta-likeness"
    title: ClassVar[str] = "No value much likelier than it was, and none certain"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta times "
        "its share in the whole table, and common values less: never 1."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = BetaLikeness.parameters

    def own_ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [share * (1 + min(self.beta, _log(share))) for share in histogram.shares]

    def statement(self, histogram: Histogram) -> str:
        most = (
            f"at most {float(1 + self.beta):.4g} times its share f in the table, and at most "
            "1 − ln f times"
        )
        return f"{self.about_chances(histogram, most)}.{self.open_text()}"

    def formula(self) -> str:
        return f"{BUCKETS}(1 + min({decimal_text(self.beta)}, −ln fₓ))·fₓ"

    @classmethod
    def reach(cls, histograms: Sequence[Histogram]) -> Reach:
        return Reach(True, "Any beta above 0; every value is limited.", str(cls.usual()))

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        most, free = float(1 / rarest_share(histogram)), unlimited(ceilings)
        return [cls(factor - 1, free) for factor in factors(most, COARSE)]


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
