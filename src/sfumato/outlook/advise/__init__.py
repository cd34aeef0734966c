"""Which promise can be kept at a wished-for accuracy, and what accuracy a promise leaves.

An error is the mean of |estimate − truth| / truth over the sensitive values that so many people
have, for a count of that size, predicted from plans in closed form. Previews of a promise, on the
page and in `describe`, show the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from sfumato.draws import Draws
from sfumato.engines.choosing import possible_mechanisms
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import (
    Mechanism,
    given_mechanism,
    mechanisms_for,
    mechanisms_on_request,
)
from sfumato.outlook.advise.advice import Advice, Cost, Option, Priced, Spared
from sfumato.outlook.advise.families import average_ceiling, families, stated_ceilings
from sfumato.outlook.advise.pricing import CANNOT, Pricing
from sfumato.outlook.advise.search import solve, spared
from sfumato.table import as_table

NEAR = 1.02  # times the smallest average ceiling: as good as equal


@overload
def advise(table: Any, *, guarantee: None = None, **settings: Any) -> Advice: ...


@overload
def advise(
    table: Any, *, guarantee: Guarantee | str | Mapping[str, str], **settings: Any
) -> Cost: ...


def advise(
    table: Any,
    *,
    guarantee: Guarantee | str | Mapping[str, str] | None = None,
    mechanism: Mechanism | str | None = None,
    target_error: float = 0.1,
    min_count: int = 500,
    ceilings: Mapping[Any, Any] | None = None,
    among: Sequence[str] | None = None,
    progress: Progress = no_progress,
    **roles: Any,
) -> Advice | Cost:
    """Which guarantee fits a table, and what it costs; nothing is published.

    `table` comes from `read`, or is anything that `read` takes, with its roles. Found is the
    strongest promise of each family under which a count of `min_count` people is expected to be
    off by at most `target_error`, for every sensitive column; columns have promises of their own
    where that is stronger. `ceilings` say, by sensitive value, its largest
    posterior; `among` names the guarantees to choose from, all by default. Of the promises that
    reach the target the one with the smallest average ceiling is recommended. With several
    sensitive columns the advice says which of them costs most, and what leaving it out would
    bring.

    With a `guarantee` it is the other way round: the expected error of counts, by their size, under
    that promise, one line per mechanism that keeps it, or for the given `mechanism`, and why the
    others cannot. Raises `InfeasibleGuarantee` where nothing keeps it, as `publish` would.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 300, "ill": ["a", "b", "c"] * 200})
    >>> known = dict(quasi="sex", sensitive="ill", min_count=50)
    >>> found = advise(people, target_error=0.3, among=["l-diversity"], **known)
    >>> str(found.recommended.guarantee)
    'l-diversity(2)'
    >>> cost = advise(people, guarantee="l-diversity(2)", mechanism="optimal", **known)
    >>> [str(line.mechanism) for line in cost.lines]
    ['optimal']
    """
    declared = one_row_each(as_table(table, roles), Draws.system())
    if min_count < 1:
        raise UsageError(f"The smallest count must be at least 1. Got {min_count} instead.")
    if guarantee is not None:
        if ceilings or among:
            raise UsageError("Give ceilings or among to choose a guarantee, or name one, not both.")
        promise = parse_guarantee(guarantee).for_columns(declared.sensitive)
        named = given_mechanism(mechanism)
        possible_mechanisms(promise, named)  # refuses what does not keep it
        return _cost(Pricing.of(declared, min_count, progress), promise, named)
    if mechanism is not None:
        raise UsageError("A mechanism is for a guarantee that is named, too.")
    if not 0 < target_error < 1:
        raise UsageError(
            "The target error must lie between 0 and 1, both excluded: 0.1 is 10 %. "
            f"Got {target_error:g} instead."
        )
    steps = _Steps(progress)
    pricing = Pricing.of(declared, min_count, steps)
    stated = stated_ceilings(pricing.histograms, ceilings or {})
    listed = families(pricing.histograms, stated, cells=bool(declared.quasi), among=among)
    steps.total, options = len(listed), list[Option]()
    for steps.done, family in enumerate(listed):
        options.append(solve(pricing, family, target_error))
    recommended = _strongest(options)
    return Advice(
        target_error=target_error,
        min_count=min_count,
        ceilings={value: limit for own in stated.values() for value, limit in own.items()},
        options=tuple(options),
        recommended=recommended,
        spared=tuple(spared(pricing, recommended, listed)),
    )


@dataclass
class _Steps:
    """Tells how many families are done, whatever a prediction says by itself."""

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


def _cost(pricing: Pricing, guarantee: Guarantee, named: Mechanism | None) -> Cost:
    """The expected error under a promise, by mechanism and size of count."""
    for histogram in pricing.histograms:
        guarantee.require_feasible(histogram)
    sizes = tuple(sorted({size for size in (10, 100) if size < pricing.count} | {pricing.count}))
    asked = (
        [named]
        if named is not None
        else mechanisms_for(guarantee) + mechanisms_on_request(guarantee)
    )
    lines, refused = list[Priced](), list[tuple[Mechanism, str]]()
    for done, mechanism in enumerate(asked):
        pricing.progress(f"predicting {mechanism}", done, len(asked))
        try:
            by_column = pricing.by_size(guarantee, mechanism, sizes)
        except CANNOT as error:  # others may
            if named is not None:
                raise
            refused.append((mechanism, str(error)))
            continue
        lines += [Priced(mechanism, column, tuple(e)) for column, e in by_column.items()]
    worst = {str(line.mechanism): -math.inf for line in lines}
    for line in lines:
        last = line.errors[-1]
        worst[str(line.mechanism)] = max(
            worst[str(line.mechanism)], math.inf if math.isnan(last) else last
        )
    lines.sort(key=lambda line: worst[str(line.mechanism)])
    ceilings = {h.column: average_ceiling(guarantee, h) for h in pricing.histograms}
    return Cost(guarantee, ceilings, sizes, tuple(lines), tuple(refused))


__all__ = ["Advice", "Cost", "Option", "Priced", "Spared", "advise"]
