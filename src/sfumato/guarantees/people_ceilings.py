"""Ceilings for people: of whom several rows are published, or of several columns together.

In buckets a person is one of those who stand there, and of each of them the bucket lists all that
their rows hold. So the chance that a person has a value in any row is the share of the people of
the bucket who have it in any row: that share has the ceiling, whatever a reader knows of how the
rows of a person hang together. The same of a combination of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from sfumato.errors import UsageError
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.guarantees.words import Reader
from sfumato.profile import Histogram


@dataclass(frozen=True, eq=False)
class CeilingsOfPeople(CeilingGuarantee):
    """`promise` for people of whom at most `rows_per_person` rows are published.

    Plans are made with it; releases name the promise itself. `holders` are, by column, the people
    who have each value in some row. With more than one of `columns`, combinations have ceilings
    too: those that the promise gives to values of the same shares.
    """

    promise: CeilingGuarantee
    holders: Mapping[str, Histogram]
    rows_per_person: int = 1
    columns: int = 1

    name: ClassVar[str] = "ceilings-for-people"

    def __post_init__(self) -> None:
        if self.columns > 1 and self.promise.names_values:
            raise UsageError(
                f"'{self.promise}' names values of one column, so it says nothing of combinations. "
                "Leave --joint out, or promise it without names."
            )

    def __str__(self) -> str:
        return str(self.promise)

    def against(self) -> Reader:
        return self.promise.against()

    @property
    def looks(self) -> int:
        return self.rows_per_person * self.columns

    def _of_people(self, histogram: Histogram) -> Histogram:
        return self.holders.get(histogram.column, histogram)

    def own_ceilings(self, histogram: Histogram) -> list[Fraction]:
        return self.promise.own_ceilings(self._of_people(histogram))

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return self.promise.ceilings(self._of_people(histogram))

    def open_codes(self, histogram: Histogram) -> list[int]:
        return self.promise.open_codes(histogram)

    def together(self, histograms: Mapping[str, Histogram]) -> CeilingsOfPeople:
        return replace(self, columns=len(histograms))

    def require_feasible(self, histogram: Histogram) -> None:
        self.promise.require_feasible(self._of_people(histogram))

    def statement(self, histogram: Histogram) -> str:
        return self.promise.statement(histogram)

    def formula(self) -> str:
        return self.promise.formula()
