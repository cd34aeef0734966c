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


Requirement = partial[RequirementResult]  # of a column's `ClassCounts`


@dataclass(frozen=True)
class MeasureLimit:
    """What a requirement of the literature means: the measure takes all parameters but the first,
    the limit; `keeps` compares figure and limit."""

    parameters: tuple[Parameter, ...]
    measure: Callable[..., Worst | None]
    keeps: Callable[[Any, Any], bool]
    default: tuple[Any, ...] = ()  # of the last parameters


def _t_closeness(cells: ClassCounts, distance: str) -> Worst | None:
    return measures.t_equal(cells) if distance == "equal" else measures.t_ordered(cells)


_K, _L = (Parameter(name, least=1, whole=True) for name in "kl")
REQUIREMENTS: dict[str, MeasureLimit] = {
    "k-anonymity": MeasureLimit((_K,), measures.k_anonymity, operator.ge),
    "distinct-l-diversity": MeasureLimit((_L,), measures.distinct_l, operator.ge),
    "entropy-l-diversity": MeasureLimit(
        (Parameter("l", above=0),), measures.entropy_l, lambda n, l: n >= float(l) * (1 - ROUNDING)  # noqa: E741
    ),
    "recursive-l-diversity": MeasureLimit(
        (Parameter("c", above=0), _L), measures.recursive_c, operator.lt
    ),
    "t-closeness": MeasureLimit(
        (Parameter("t", least=0), Parameter("distance", options=("equal", "ordered"))),
        _t_closeness,
        lambda figure, t: figure <= float(t) + ROUNDING,
        ("equal",),
    ),
    "delta-disclosure": MeasureLimit(
        (Parameter("delta", above=0),), measures.delta_disclosure, operator.lt
    ),
}  # fmt: skip


def parse_requirement(text: str) -> Requirement:
    """Read a requirement from its text form: a function that holds a column to it.

    >>> parse_requirement("recursive-l-diversity(3, 2)").args
    ('recursive-l-diversity', (Fraction(3, 1), 2))
    """
    name, positional, keywords = split_call(text, "requirement")
    if name in REQUIREMENTS:
        kind = REQUIREMENTS[name]
        names = [parameter.name for parameter in kind.parameters]
        defaults = dict(zip(names[len(names) - len(kind.default) :], kind.default, strict=True))
        values = {**defaults, **dict(zip(names, positional, strict=False)), **keywords}
        if len(positional) > len(names) or {*values} != {*names}:
            raise UsageError(f"Write {name}({', '.join(names)}). Got {text!r}.")
        read = (parameter.read(values[parameter.name], name) for parameter in kind.parameters)
        return partial(_measured, name, tuple(read))
    ceilings = [key for key, cls in GUARANTEES.items() if issubclass(cls, CeilingGuarantee)]
    if name in ceilings:
        return partial(_within_ceilings, parse_guarantee(text))
    choices = ", ".join(sorted([*REQUIREMENTS, *ceilings]))
    raise UsageError(f"There is no requirement {name!r}. Choose one of: {choices}.")


def _measured(name: str, values: tuple[Any, ...], cells: ClassCounts) -> RequirementResult:
    """A measure of the column beside its limit, the first of the values."""
    kind, (limit, *others) = REQUIREMENTS[name], values
    texts = (decimal_text(v) if isinstance(v, Fraction) else str(v) for v in values)
    asked, worst = f"{name}({', '.join(texts)})", kind.measure(cells, *others)
    if worst is None:
        raise UsageError(
            f"The values of column {cells.column!r} have no order, so '{asked}' means nothing. "
            f"State the order with --domain {cells.column}=…, or ask for the equal distance."
        )
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
