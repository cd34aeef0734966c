"""Ceilings of combinations: a promise about what several columns tell together.

In buckets a person is anybody who stands there, so the chance of a combination is its share in the
bucket: that share has the ceiling that the promise gives to a value as common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sfumato.errors import UsageError
from sfumato.guarantees.base import ForPlans
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.profile import Histogram


@dataclass(frozen=True, eq=False)
class JointCeilings(ForPlans, CeilingGuarantee):
    """`promise` for every column, and for the combinations of all of them."""

    promise: CeilingGuarantee

    name: ClassVar[str] = "joint-ceilings"

    def __post_init__(self) -> None:
        if self.promise.names_values:
            raise UsageError(
                f"'{self.promise}' names values or columns, so it says nothing of combinations. "
                "Leave --joint out, or promise it without names."
            )

    def own_ceilings(self, histogram: Histogram) -> list[Fraction]:
        return self.promise.own_ceilings(histogram)

    def together(self, histograms: Mapping[str, Histogram]) -> JointCeilings:
        return self
