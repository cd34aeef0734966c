"""l-diversity: no value is likelier than 1/l for anybody."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.guarantees.base import Ceilings, Guarantee
from sfumato.guarantees.ceilings import BUCKETS, CeilingGuarantee
from sfumato.guarantees.ladders import one_in, unlimited
from sfumato.guarantees.value_table import OPEN, OpenValues
from sfumato.profile import Histogram
from sfumato.textform import Parameter


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
    open: OpenValues | None = None

    name: ClassVar[str] = "l-diversity"
    title: ClassVar[str] = "No value likelier than 1 in ℓ"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value of that person a "
        "chance of at most 1 in ℓ."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "l",
            least=2,
            whole=True,
            title="ℓ: one in how many",
            default="3",
            slider=(2, 50),
            less="A smaller ℓ protects less; counts become more accurate.",
            more="A larger ℓ protects more; counts become less accurate, and a very common value "
            "may make it impossible.",
        ),
        OPEN,
    )

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return self.but_open(histogram, [Fraction(1, self.l)] * len(histogram.values))

    def nearest(self, histogram: Histogram) -> Guarantee | None:
        most = one_in(histogram, self.open_codes(histogram))
        return LDiversity(most, self.open) if most >= 2 else None

    def advice(self, histogram: Histogram) -> str:
        return (
            "One value alone has more than half of the records: no l-diversity can be kept. What "
            "can be done: recode the column before publishing, so that this value is split into "
            "finer ones; give every value its own ceiling with f-privacy; or, if this value needs "
            f'no protection, say so: "{self.with_commonest_open(histogram)}".'
        )

    def with_commonest_open(self, histogram: Histogram) -> LDiversity:
        """The promise for all but the commonest value, with the largest l up to its own."""
        free = {*self.open_codes(histogram), int(histogram.counts.argmax())}
        most = max(2, min(self.l, one_in(histogram, free)))
        return LDiversity(most, OpenValues.of([histogram.values[code] for code in sorted(free)]))

    def statement(self, histogram: Histogram) -> str:
        said = self.about_chances(histogram, f"a chance of at most 1 in {self.l}")
        return f"{said}.{self.open_text()}"

    def formula(self) -> str:
        return f"{BUCKETS}1/{self.l}"

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        free = unlimited(ceilings)
        most = one_in(histogram, [] if free is None else free.codes(histogram))
        return [cls(number, free) for number in range(most, 1, -1)]
