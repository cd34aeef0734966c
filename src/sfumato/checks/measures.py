"""What a table of classes promises, one function per measure, each in O(cells), and limits to hold
it to: `--require 'l-diversity(3)'`, read in the language of promises.

Every function gives the worst class: the measured figure and the first row of that class. Shares
are q (within the class) and p (in the whole table). As a limit, a promise of sfumato that is a
ceiling (`l-diversity`, `beta-likeness`, `f-privacy`) means what it means everywhere: no value's
share in a class exceeds its ceiling.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from sfumato.checks.classes import ClassCounts
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.errors import UsageError
from sfumato.guarantees import GUARANTEES, CeilingGuarantee, Guarantee, parse_guarantee
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text, split_call

ROUNDING = 1e-9  # distances are floats: so much may be missing


@dataclass(frozen=True)
class Worst:
    """The worst figure of a measure and the first row of the class where it is, from 0."""

    figure: Any  # a number: a fraction where it is exact
    row: int


def k_anonymity(cells: ClassCounts) -> Worst:
    """The smallest class (Samarati, Sweeney)."""
    return _worst(cells, cells.sizes, smallest=True)


def distinct_l(cells: ClassCounts) -> Worst:
    """The fewest different values in a class (Machanavajjhala et al., Section 4)."""
    return _worst(cells, np.bincount(cells.classes), smallest=True)


def frequency_l(cells: ClassCounts) -> Worst:
    """One over the largest share of a value in a class: the `l-diversity(l)` of sfumato."""
    largest = np.maximum.reduceat(cells.counts, cells.starts)
    return _worst(cells, cells.sizes / largest, smallest=True)


def basic_beta(cells: ClassCounts) -> Worst:
    """Largest (q − p)/p of a value that a class has more often (Cao & Karras, Definition 2)."""
    return _worst_cell(cells, np.maximum(_gains(cells), 0.0))


def enhanced_beta(cells: ClassCounts) -> Worst:
    """The least beta with (q − p)/p ≤ min(beta, −ln p) throughout (Cao & Karras, Definition 3).

    Infinite where (q − p)/p exceeds −ln p: no beta allows that. A class with one value only is
    always such a case, unless the whole table has no other.
    """
    gain = np.maximum(_gains(cells), 0.0)
    limit = -np.log(cells.totals[cells.codes] / cells.totals.sum())
    return _worst_cell(cells, np.where(gain > limit, np.inf, gain))


def t_equal(cells: ClassCounts) -> Worst:
    """Largest Σ|q − p|/2: t-closeness with the equal distance (Li et al., Section 3.1)."""
    share, prior = _shares(cells)
    return _worst(cells, np.add.reduceat(np.maximum(share - prior, 0.0), cells.starts))


def largest_posteriors(cells: ClassCounts) -> list[tuple[Fraction, int]]:
    """Per value, its largest share in any class, exactly, and the first row of that class."""
    share = cells.counts / cells.sizes[cells.classes]
    order = np.lexsort((-share, cells.codes))
    first = order[np.searchsorted(cells.codes[order], np.arange(len(cells.values)))]
    return [
        (
            Fraction(int(cells.counts[cell]), int(cells.sizes[cells.classes[cell]])),
            int(cells.rows[cells.classes[cell]]),
        )
        for cell in first.tolist()
    ]


def _shares(cells: ClassCounts) -> tuple[FloatArray, FloatArray]:
    share = cells.counts / cells.sizes[cells.classes]
    return share, (cells.totals / cells.totals.sum())[cells.codes]


def _gains(cells: ClassCounts) -> FloatArray:
    """(q − p)/p per cell: exactly 0 where q = p, from one division of integers."""
    expected = cells.totals[cells.codes] * cells.sizes[cells.classes]
    return np.asarray((cells.counts * cells.totals.sum() - expected) / expected)


def _worst(cells: ClassCounts, figures: FloatArray | IntArray, smallest: bool = False) -> Worst:
    index = int(figures.argmin() if smallest else figures.argmax())
    return Worst(figures[index].item(), int(cells.rows[index]))


def _worst_cell(cells: ClassCounts, figures: FloatArray) -> Worst:
    return _worst(cells, np.maximum.reduceat(figures, cells.starts))


@dataclass(frozen=True)
class Measure:
    """A figure of every column; one with a parameter is a limit, too, which `keeps` compares."""

    name: str
    worst: Callable[[ClassCounts], Worst]
    parameter: Parameter | None = None
    keeps: Callable[[Any, Any], bool] = operator.ge
    note: str = ""


MEASURES = (
    Measure("k-anonymity", k_anonymity, Parameter("k", least=1, whole=True)),
    Measure("distinct-l-diversity", distinct_l, Parameter("l", least=1, whole=True)),
    Measure("l-diversity", frequency_l, note="1 / the largest share in a class"),
    Measure("beta-likeness", basic_beta),
    Measure("enhanced-beta-likeness", enhanced_beta),
    Measure(
        "t-closeness", t_equal, Parameter("t", least=0), lambda far, t: far <= float(t) + ROUNDING
    ),
)


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


def parse_requirement(text: str) -> Requirement:
    """Read a requirement from its text form: a function that holds a column to it.

    >>> parse_requirement("t-closeness(0.2)").args[1]
    Fraction(1, 5)
    """
    name, positional, keywords = split_call(text, "requirement")
    limits = {measure.name: measure for measure in MEASURES if measure.parameter}
    if name in limits:
        parameter = limits[name].parameter
        assert parameter is not None
        given = [*((parameter.name, value) for value in positional), *keywords.items()]
        if [key for key, _ in given] != [parameter.name]:
            raise UsageError(f"Write {name}({parameter.name}). Got {text!r}.")
        return partial(_measured, limits[name], parameter.read(given[0][1], name))
    ceilings = [key for key, cls in GUARANTEES.items() if issubclass(cls, CeilingGuarantee)]
    if name in ceilings:
        return partial(_within_ceilings, parse_guarantee(text))
    choices = ", ".join(sorted([*limits, *ceilings]))
    raise UsageError(f"There is no requirement {name!r}. Choose one of: {choices}.")


def _measured(measure: Measure, limit: Any, cells: ClassCounts) -> RequirementResult:
    """A measure of the column beside its limit."""
    asked, worst = f"{measure.name}({decimal_text(Fraction(limit))})", measure.worst(cells)
    holds, figure = measure.keeps(worst.figure, limit), float(worst.figure)
    return RequirementResult(asked, cells.column, holds, figure, float(limit), worst.row)


def _within_ceilings(guarantee: Guarantee, cells: ClassCounts) -> RequirementResult:
    """The shares of every class beside the ceilings of a promise of sfumato, exactly."""
    ceilings = guarantee.ceilings(Histogram(cells.column, cells.values, cells.totals))
    posteriors = largest_posteriors(cells)
    code = max(range(len(posteriors)), key=lambda k: posteriors[k][0] / ceilings[k])
    (share, row), ceiling = posteriors[code], ceilings[code]
    figures, note = (float(share), float(ceiling)), f"the share of {value_text(cells.values[code])}"
    return RequirementResult(str(guarantee), cells.column, share <= ceiling, *figures, row, note)
