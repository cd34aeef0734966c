"""beta-likeness: no value becomes more than 1 + beta times as likely as it was."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sfumato.errors import UsageError
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.profile import Histogram
from sfumato.textform import decimal_text, rational


@dataclass(frozen=True)
class BetaLikeness(CeilingGuarantee):
    """The chance of a value x is at most (1 + beta) times its share in the whole table.

    >>> import numpy as np
    >>> BetaLikeness(3).ceilings(Histogram("s", ("a", "b"), np.array([1, 9])))
    [Fraction(2, 5), Fraction(1, 1)]
    """

    beta: Fraction

    name: ClassVar[str] = "beta-likeness"

    def __post_init__(self) -> None:
        beta = rational(self.beta, "beta")
        if beta <= 0:
            raise UsageError(
                f"The 'beta' parameter of {self.name} must be above 0. "
                f"Got {decimal_text(beta)} instead."
            )
        object.__setattr__(self, "beta", beta)

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [min(Fraction(1), (1 + self.beta) * share) for share in histogram.shares]

    def statement(self, histogram: Histogram) -> str:
        return (
            f"Column {histogram.column!r}: whoever knows the quasi columns of a person, and no "
            "link between them and the sensitive column, gives each sensitive value at most "
            f"{float(1 + self.beta):.4g} times its share in the table after seeing the release. "
            "Values whose share makes that 1 or more are not limited."
        )
