"""Limits to hold a table to: `--require 'l-diversity(3)'`, read in the language of promises.

The promises of sfumato that are ceilings (`l-diversity`, `beta-likeness`, `f-privacy`) mean here
what they mean everywhere: no value's share in a class of people who look alike exceeds its
ceiling. The other names are the measures of the literature.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.checks import measures
from sfumato.checks.counting import ClassCounts
from sfumato.checks.measures import Worst
from sfumato.columns import value_text
from sfumato.errors import UsageError
from sfumato.guarantees import GUARANTEES, CeilingGuarantee, Guarantee, parse_guarantee
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text, split_call

ROUNDING = 1e-9  # distances are floats: so much may be missing


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


Requirement = partial[RequirementResult]  # of a column's `ClassCounts`


@dataclass(frozen=True)
class MeasureLimit:
    """What a requirement of the literature means; `keeps` compares figure and limit."""

    parameter: Parameter
    measure: Callable[[ClassCounts], Worst]
    keeps: Callable[[Any, Any], bool]


REQUIREMENTS: dict[str, MeasureLimit] = {
    "k-anonymity": MeasureLimit(
        Parameter("k", least=1, whole=True), measures.k_anonymity, operator.ge
    ),
    "distinct-l-diversity": MeasureLimit(
        Parameter("l", least=1, whole=True), measures.distinct_l, operator.ge
    ),
    "t-closeness": MeasureLimit(
        Parameter("t", least=0), measures.t_equal, lambda figure, t: figure <= float(t) + ROUNDING
    ),
}


def parse_requirement(text: str) -> Requirement:
    """Read a requirement from its text form: a function that holds a column to it.

    >>> parse_requirement("t-closeness(0.2)").args
    ('t-closeness', Fraction(1, 5))
    """
    name, positional, keywords = split_call(text, "requirement")
    if name in REQUIREMENTS:
        parameter = REQUIREMENTS[name].parameter
        given = [*((parameter.name, value) for value in positional), *keywords.items()]
        if [key for key, _ in given] != [parameter.name]:
            raise UsageError(f"Write {name}({parameter.name}). Got {text!r}.")
        return partial(_measured, name, parameter.read(given[0][1], name))
    ceilings = [key for key, cls in GUARANTEES.items() if issubclass(cls, CeilingGuarantee)]
    if name in ceilings:
        return partial(_within_ceilings, parse_guarantee(text))
    choices = ", ".join(sorted([*REQUIREMENTS, *ceilings]))
    raise UsageError(f"There is no requirement {name!r}. Choose one of: {choices}.")


def _measured(name: str, limit: Any, cells: ClassCounts) -> RequirementResult:
    """A measure of the column beside its limit."""
    kind = REQUIREMENTS[name]
    asked = f"{name}({decimal_text(Fraction(limit))})"
    worst = kind.measure(cells)
    holds, figure = kind.keeps(worst.figure, limit), float(worst.figure)
    return RequirementResult(asked, cells.column, holds, figure, float(limit), worst.row)


def _within_ceilings(guarantee: Guarantee, cells: ClassCounts) -> RequirementResult:
    """The shares of every class beside the ceilings of a promise of sfumato, exactly."""
    ceilings = guarantee.ceilings(Histogram(cells.column, cells.values, cells.totals))
    posteriors = measures.largest_posteriors(cells)
    code = max(range(len(posteriors)), key=lambda k: posteriors[k][0] / ceilings[k])
    (share, row), ceiling = posteriors[code], ceilings[code]
    figures, note = (float(share), float(ceiling)), f"the share of {value_text(cells.values[code])}"
    return RequirementResult(str(guarantee), cells.column, share <= ceiling, *figures, row, note)
