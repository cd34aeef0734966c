"""Limits to hold a table to: `--require 'l-diversity(3)'`, read in the language of promises.

The promises of sfumato that are ceilings (`l-diversity`, `beta-likeness`, `f-privacy`) mean here
what they mean everywhere: no value's share in a class of people who look alike exceeds its
ceiling. The other names are the measures of the literature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sfumato.checks import measures
from sfumato.checks.counting import ClassCounts
from sfumato.columns import value_text
from sfumato.errors import UsageError
from sfumato.guarantees import GUARANTEES, CeilingGuarantee, Guarantee, parse_guarantee
from sfumato.profile import Histogram
from sfumato.textform import Parameter, TextForm, split_call

ROUNDING = 1e-9  # entropies and distances are floats: so much may be missing


@dataclass(frozen=True)
class RequirementResult:
    """Whether one column keeps one requirement; `row` is the first row of the worst class."""

    requirement: str
    column: str
    holds: bool
    measured: float
    limit: float
    row: int | None
    note: str | None = None


class Requirement(TextForm, ABC):
    """A limit on a measure. Frozen dataclass with a text form."""

    what: ClassVar[str] = "requirement"

    @abstractmethod
    def held(self, cells: ClassCounts) -> RequirementResult:
        """Measure the column and compare."""

    def _held(
        self, cells: ClassCounts, holds: bool, worst: measures.Worst, limit: float
    ) -> RequirementResult:
        return RequirementResult(str(self), cells.column, holds, worst.figure, limit, worst.row)


@dataclass(frozen=True)
class KAnonymity(Requirement):
    """Every class has at least k records."""

    k: int
    name: ClassVar[str] = "k-anonymity"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("k", least=1, whole=True),)

    def held(self, cells: ClassCounts) -> RequirementResult:
        worst = measures.k_anonymity(cells)
        return self._held(cells, worst.figure >= self.k, worst, self.k)


@dataclass(frozen=True)
class DistinctLDiversity(Requirement):
    """Every class has at least l different values."""

    l: int  # noqa: E741 - the requirement is called after it
    name: ClassVar[str] = "distinct-l-diversity"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("l", least=1, whole=True),)

    def held(self, cells: ClassCounts) -> RequirementResult:
        worst = measures.distinct_l(cells)
        return self._held(cells, worst.figure >= self.l, worst, self.l)


@dataclass(frozen=True)
class EntropyLDiversity(Requirement):
    """Every class has an entropy of at least ln l."""

    l: Fraction  # noqa: E741
    name: ClassVar[str] = "entropy-l-diversity"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("l", above=0),)

    def held(self, cells: ClassCounts) -> RequirementResult:
        worst = measures.entropy_l(cells)
        holds = worst.figure >= float(self.l) * (1 - ROUNDING)
        return self._held(cells, holds, worst, float(self.l))


@dataclass(frozen=True)
class RecursiveLDiversity(Requirement):
    """In every class r₁ < c·(r_l + … + r_m): strictly."""

    c: Fraction
    l: int  # noqa: E741
    name: ClassVar[str] = "recursive-l-diversity"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("c", above=0),
        Parameter("l", least=1, whole=True),
    )

    def held(self, cells: ClassCounts) -> RequirementResult:
        least, row = measures.recursive_c(cells, self.l)
        measured = float("inf") if least is None else float(least)
        holds = least is not None and least < self.c
        return self._held(cells, holds, measures.Worst(measured, row), float(self.c))


@dataclass(frozen=True)
class TCloseness(Requirement):
    """No class is further than t from the table; `distance` is equal or ordered."""

    t: Fraction
    distance: str = "equal"
    name: ClassVar[str] = "t-closeness"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("t", least=0),
        Parameter("distance", options=("equal", "ordered")),
    )

    def held(self, cells: ClassCounts) -> RequirementResult:
        worst = measures.t_equal(cells) if self.distance == "equal" else measures.t_ordered(cells)
        if worst is None:
            raise UsageError(
                f"The values of column {cells.column!r} have no order, so '{self}' means nothing. "
                f"State the order with --domain {cells.column}=…, or ask for the equal distance."
            )
        return self._held(cells, worst.figure <= float(self.t) + ROUNDING, worst, float(self.t))


@dataclass(frozen=True)
class DeltaDisclosure(Requirement):
    """|ln(q/p)| < delta for every class and every value."""

    delta: Fraction
    name: ClassVar[str] = "delta-disclosure"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("delta", above=0),)

    def held(self, cells: ClassCounts) -> RequirementResult:
        worst = measures.delta_disclosure(cells)
        return self._held(cells, worst.figure < float(self.delta), worst, float(self.delta))


@dataclass(frozen=True)
class WithinCeilings:
    """A promise of sfumato, held against the shares of every class, exactly."""

    guarantee: Guarantee

    def held(self, cells: ClassCounts) -> RequirementResult:
        histogram = Histogram(cells.column, cells.values, cells.totals)
        ceilings = self.guarantee.ceilings(histogram)
        posteriors = measures.largest_posteriors(cells)
        code = max(range(len(posteriors)), key=lambda k: posteriors[k][0] / ceilings[k])
        (share, row), ceiling = posteriors[code], ceilings[code]
        note = f"the share of {value_text(cells.values[code])}"
        holds = share <= ceiling
        return RequirementResult(
            str(self.guarantee), cells.column, holds, float(share), float(ceiling), row, note
        )


REQUIREMENTS: dict[str, type[Requirement]] = {
    cls.name: cls
    for cls in (
        KAnonymity,
        DistinctLDiversity,
        EntropyLDiversity,
        RecursiveLDiversity,
        TCloseness,
        DeltaDisclosure,
    )
}


def parse_requirement(text: str) -> Requirement | WithinCeilings:
    """Read a requirement from its text form.

    >>> parse_requirement("recursive-l-diversity(3, 2)")
    RecursiveLDiversity(c=Fraction(3, 1), l=2)
    """
    name, positional, keywords = split_call(text, "requirement")
    if name in REQUIREMENTS:
        return REQUIREMENTS[name].from_arguments(positional, keywords)
    ceilings = [key for key, cls in GUARANTEES.items() if issubclass(cls, CeilingGuarantee)]
    if name in ceilings:
        return WithinCeilings(parse_guarantee(text))
    choices = ", ".join(sorted([*REQUIREMENTS, *ceilings]))
    raise UsageError(f"There is no requirement {name!r}. Choose one of: {choices}.")
