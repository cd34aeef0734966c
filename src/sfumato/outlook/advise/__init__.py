"""Which promise can be kept at a wished-for accuracy, and what accuracy a promise leaves.

Errors are means of |estimate − truth| / truth over random conjunctions of quasi columns and one
sensitive value whose true count has the size asked for, predicted from plans in closed form.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from sfumato.draws import Draws
from sfumato.engines.choosing import possible_mechanisms
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.people import one_row_each
from sfumato.errors import InfeasibleGuarantee, SingularOperator, UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import (
    Mechanism,
    given_mechanism,
    mechanisms_for,
    mechanisms_on_request,
)
from sfumato.operators.base import FloatArray
from sfumato.outlook.advise.advice import Advice, Cost, Option, Priced
from sfumato.outlook.advise.families import (
    average_ceiling,
    families,
    stated_ceilings,
)
from sfumato.outlook.advise.search import solve
from sfumato.outlook.advise.study import Study
from sfumato.table import as_table
from sfumato.workloads import SizeClass

QUESTIONS = 300
NEAR = 1.02  # times the smallest average ceiling: as good as equal


@overload
def advise(table: Any, *, guarantee: None = None, **settings: Any) -> Advice: ...


@overload
def advise(table: Any, *, guarantee: Guarantee | str, **settings: Any) -> Cost: ...


def advise(
    table: Any,
    *,
    guarantee: Guarantee | str | None = None,
    mechanism: Mechanism | str | None = None,
    target_error: float = 0.1,
    min_count: int = 500,
    ceilings: Mapping[Any, Any] | None = None,
    among: Sequence[str] | None = None,
    seed: int = 0,
    questions: int = QUESTIONS,
    progress: Progress = no_progress,
    **roles: Any,
) -> Advice | Cost:
    """Which guarantee fits a table, and what it costs; nothing is published.

    `table` comes from `read`, or is anything that `read` takes, with its roles. Found is the
    strongest promise of each family that keeps the mean relative error of counts of at least
    `min_count` at `target_error`; `ceilings` say, by sensitive value, how much anybody may believe
    at most; `among` names the guarantees to choose from, all by default. Of the promises that
    reach the target the one with the smallest average ceiling is recommended.

    With a `guarantee` it is the other way round: the expected error of counts, by their size, under
    that promise, one line per mechanism that keeps it, or for the given `mechanism`, and why the
    others cannot. Raises `InfeasibleGuarantee` where nothing keeps it, as `publish` would.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 300, "ill": ["a", "b", "c"] * 200})
    >>> known = dict(quasi="sex", sensitive="ill", min_count=50, questions=20)
    >>> found = advise(people, target_error=0.3, among=["l-diversity"], **known)
    >>> str(found.recommended.guarantee)
    'l-diversity(3)'
    >>> cost = advise(people, guarantee="l-diversity(2)", mechanism="optimal", **known)
    >>> [str(line.mechanism) for line in cost.lines]
    ['optimal']
    """
    declared = one_row_each(as_table(table, roles), Draws.system())
    if guarantee is not None:
        if ceilings or among:
            raise UsageError("Give ceilings or among to choose a guarantee, or name one, not both.")
        guarantee = parse_guarantee(guarantee).for_columns(declared.sensitive)
        mechanism = given_mechanism(mechanism)
        sizes = _sizes(min_count)
        possible_mechanisms(guarantee, mechanism)  # refuses what does not keep it
        study = Study.of(declared, sizes, questions=questions, seed=seed, progress=progress)
        return _cost(study, sizes, guarantee, mechanism)
    if mechanism is not None:
        raise UsageError("A mechanism is for a guarantee that is named, too.")
    if not 0 < target_error < 1:
        raise UsageError(
            "The target error must lie between 0 and 1, both excluded: 0.1 is 10 %. "
            f"Got {target_error:g} instead."
        )
    least, steps = [_at_least(min_count)], _Steps(progress)
    study = Study.of(declared, least, questions=questions, seed=seed, progress=steps)
    stated = stated_ceilings(study.histogram, ceilings or {})
    listed = families(study.histogram, stated, cells=bool(declared.quasi), among=among)
    steps.total, options = len(listed), []
    for steps.done, family in enumerate(listed):
        options.append(solve(study, family, target_error, stated))
    if not options:
        raise UsageError("None of these guarantees can be kept on this table. Name others.")
    return Advice(
        target_error=target_error,
        min_count=min_count,
        ceilings=stated,
        questions=len(study.workload),
        options=tuple(options),
        recommended=_strongest(options),
    )


@dataclass
class _Steps:
    """Tells how many families are done, whatever a study says by itself."""

    progress: Progress
    done: int = 0
    total: int = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.progress(stage, self.done, self.total)


def _strongest(options: list[Option]) -> Option | None:
    """Smallest average ceiling; among equals the one that holds against more adversaries.

    Families are listed so that promises against stronger adversaries come first.
    """
    able = [option for option in options if option.reached]
    if not able:
        return None
    least = min(option.ceiling for option in able)
    return next(option for option in able if option.ceiling <= NEAR * least)


def _cost(
    study: Study, sizes: tuple[SizeClass, ...], guarantee: Guarantee, given: Mechanism | None
) -> Cost:
    """The expected error under a promise, by mechanism and size of count."""
    guarantee.require_feasible(study.histogram)
    mechanisms = mechanisms_for(guarantee) + mechanisms_on_request(guarantee)
    lines, refused = [], []
    asked = [given] if given is not None else mechanisms
    for done, mechanism in enumerate(asked):
        study.progress(f"predicting {mechanism}", done, len(asked))
        try:
            errors = study.errors(guarantee, mechanism)
        except (InfeasibleGuarantee, UsageError, SingularOperator) as error:  # others may
            if given is not None:
                raise
            refused.append((mechanism, str(error)))
            continue
        means = tuple(_mean(errors[size.holds(study.truth)]) for size in sizes)
        lines.append(Priced(mechanism, means))
    lines.sort(key=lambda line: math.inf if math.isnan(line.errors[-1]) else line.errors[-1])
    ceiling = average_ceiling(guarantee, study.histogram)
    return Cost(guarantee, ceiling, sizes, len(study.workload), tuple(lines), tuple(refused))


def _mean(errors: FloatArray) -> float:
    return float(np.mean(errors)) if len(errors) else float("nan")


def _sizes(min_count: int) -> tuple[SizeClass, ...]:
    """Sizes of counts up to the one asked for, and above it."""
    edges = [edge for edge in (1, 11, 101) if edge < min_count] + [min_count]
    found = [
        SizeClass(f"{low:,} to {high - 1:,}" if high - 1 > low else f"{low:,}", low, high - 1)
        for low, high in itertools.pairwise(edges)
    ]
    return (*found, _at_least(min_count))


def _at_least(count: int) -> SizeClass:
    if count < 1:
        raise UsageError(f"The smallest count must be at least 1. Got {count} instead.")
    return SizeClass(f"{count:,} or more", count, sys.maxsize)


__all__ = ["Advice", "Cost", "Option", "Priced", "advise"]
