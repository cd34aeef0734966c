"""l-diversity: no value is likelier than 1/l for anybody."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
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
        most = histogram.rows // max(int(histogram.counts.max()), 1)
        return LDiversity(most) if most >= 2 else None

    def advice(self) -> str:
        return "One value alone has more than half of the records: no l-diversity can be kept."

    def statement(self, histogram: Histogram) -> str:
        return (
            f"Column {histogram.column!r}: whoever knows the quasi columns of a person, and no "
            "link between them and the sensitive column, gives each sensitive value a chance of "
            f"at most 1 in {self.l} after seeing the release."
        )
