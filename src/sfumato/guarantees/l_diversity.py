"""l-diversity: no value is likelier than 1/l for anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.errors import UsageError
from sfumato.guarantees.base import Ceilings, Guarantee
from sfumato.guarantees.ceilings import BUCKETS, CeilingGuarantee
from sfumato.guarantees.ladders import one_in, reach_by_commonest
from sfumato.guarantees.words import Parameter, Reach
from sfumato.profile import Histogram


@dataclass(frozen=True)
class LDiversity(CeilingGuarantee):
    """In every group of people that the release forms, at most one in `l` has the same value.

    >>> import numpy as np
    >>> LDiversity(4).ceilings(Histogram("s", ("a", "b"), np.array([1, 1])))
    [Fraction(1, 4), Fraction(1, 4)]
    >>> str(LDiversity("5"))
    'l-diversity(5)'
    """

    l: int  # noqa: E741 - the promise is called after it

    name: ClassVar[str] = "l-diversity"
    title: ClassVar[str] = "No value likelier than 1 in l"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value of that person a "
        "chance of at most 1 in l."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "l",
            "l: one in how many",
            "integer",
            "3",
            2,
            50,
            "A smaller l protects less; counts become more accurate.",
            "A larger l protects more; counts become less accurate, and a very common value may "
            "make it impossible.",
        ),
    )

    def __post_init__(self) -> None:
        try:
            value = int(str(self.l))
        except ValueError:
            value = 0
        if value < 2:
            raise UsageError(
                f"The 'l' parameter of {self.name} must be a whole number of at least 2. "
                f"Got {str(self.l)!r} instead."
            )
        object.__setattr__(self, "l", value)

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [Fraction(1, self.l)] * len(histogram.values)

    def nearest(self, histogram: Histogram) -> Guarantee | None:
        most = one_in(histogram)
        return LDiversity(most) if most >= 2 else None

    def advice(self) -> str:
        return (
            "One value alone has more than half of the records: no l-diversity can be kept. What "
            "can be done: recode the column before publishing, so that this value is split into "
            "finer ones; or limit the other values only, with 'f-privacy(theta=2, floor=0.05)' or "
            "'beta-likeness(3)', which promise nothing about a value that common."
        )

    def statement(self, histogram: Histogram) -> str:
        return f"{self.about_chances(histogram, f'a chance of at most 1 in {self.l}')}."

    def formula(self) -> str:
        return f"{BUCKETS}1/{self.l}"

    @classmethod
    def reach(cls, histograms: Sequence[Histogram]) -> Reach:
        return reach_by_commonest(cls, histograms)

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        return [cls(number) for number in range(one_in(histogram), 1, -1)]
