"""Which promise can be kept at a wished-for accuracy, and what accuracy a promise leaves.

An error is the median of |estimate − truth| / truth for a count of that size, over the sensitive
values that so many people have, told from plans. Previews of a promise on the page show the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.draws import Draws
from sfumato.engines.choosing import possible_mechanisms
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, given_mechanism, mechanisms_for, mechanisms_on_request
from sfumato.outlook.advise.advice import Advice, Option
from sfumato.outlook.advise.families import Family, average_ceiling, families
from sfumato.outlook.advise.pricing import CANNOT, Pricing
from sfumato.table import as_table

NEAR = 1.02  # times the smallest average ceiling: as good as equal
_PARTS = 4  # places where the most accurate promise is looked for


def advise(
    table: Any,
    *,
    guarantee: Guarantee | str | Mapping[str, str] | None = None,
    mechanism: Mechanism | str | None = None,
    target_error: float = 0.1,
    min_count: int = 500,
    progress: Progress = no_progress,
    **roles: Any,
) -> Advice:
    """Which guarantee fits a table, and what it costs; nothing is published.

    `table` comes from `read`, or is anything that `read` takes, with its roles. Found is the
    strongest promise of each family under which counts of `min_count` people are off by at most
    `target_error` in the median, for every sensitive column; columns have promises of their own
    where that is stronger. Of the promises that reach the target, and leave the fewest people
    without one, that with the smallest average ceiling is recommended.

    With a `guarantee` it is the other way round: the median error of counts, by their size, under
    that promise by every mechanism that keeps it, or by the given `mechanism`, and why the others
    cannot. Raises `InfeasibleGuarantee` where nothing keeps it, as `publish` would.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 300, "ill": ["a", "b", "c"] * 200})
    >>> known = dict(quasi="sex", sensitive="ill", min_count=50)
    >>> cost = advise(people, guarantee="l-diversity(2)", mechanism="optimal", **known)
    >>> [str(option.mechanism) for option in cost.options]
    ['optimal']
    """
    declared = one_row_each(as_table(table, roles), Draws.system())
    if min_count < 1:
        raise UsageError(f"The smallest count must be at least 1. Got {min_count} instead.")
    if guarantee is None and mechanism is not None:
        raise UsageError("A mechanism is for a guarantee that is named, too.")
    if not 0 < target_error < 1:
        raise UsageError(
            "The target error must lie between 0 and 1, both excluded: 0.1 is 10 %. "
            f"Got {target_error:g} instead."
        )
    named = given_mechanism(mechanism)
    promise = None if guarantee is None else parse_guarantee(guarantee)
    if promise is not None:
        promise = promise.for_columns(declared.sensitive, declared.drop)
        possible_mechanisms(promise, named)  # refuses what does not keep it
    pricing = Pricing.of(declared, min_count, progress)
    if not pricing.columns:
        most = max(int(histogram.counts.max(initial=0)) for histogram in pricing.histograms)
        raise UsageError(
            f"No sensitive value has {min_count:,} people or more; the commonest has {most:,}. "
            "Choose a smaller --min-count."
        )
    if promise is not None:
        return _cost(pricing, promise, named)
    listed = families(pricing.histograms, cells=bool(declared.quasi))
    return strongest(pricing, listed, target_error)


def strongest(pricing: Pricing, listed: Sequence[Family], target: float) -> Advice:
    """The strongest promise of every family within the target, and which of them to take.

    Families are listed so that promises against stronger adversaries come first: of equals the
    first is taken.
    """
    options, say = list[Option](), pricing.progress
    for done, family in enumerate(listed):
        # how many families are done, whatever a prediction says by itself
        pricing.progress = lambda stage, *_, done=done: say(stage, done, len(listed))
        options.append(_solve(pricing, family, target))
    able = [option for option in options if option.reached]
    least = min((max(option.without.values()) for option in able), default=0.0)
    able = [option for option in able if max(option.without.values()) <= least]
    ceiling = min((option.ceiling for option in able), default=1.0)
    chosen = next((option for option in able if option.ceiling <= NEAR * ceiling), None)
    if chosen is not None and len(chosen.errors) > 1:
        place = options.index(chosen)
        chosen = options[place] = _by_column(pricing, chosen, listed[place], target)
    pricing.progress = say
    return Advice(target, (pricing.count,), tuple(options), chosen)


def _solve(pricing: Pricing, family: Family, target: float) -> Option:
    """The strongest promise of a family whose errors are within the target, else the most accurate.

    The ladders of several columns are walked down together.
    """
    if family.refused:
        return Option(family.name, str(family.against), refused=family.refused)

    def error(step: int) -> float:
        promise, least = family.promise(family.rung(step)), math.inf
        for mechanism in reversed(family.mechanisms):  # the form that costs least comes last
            least = min(least, pricing.best(promise, [mechanism])[0])
            if least <= target:
                break
        return least

    step = first_within(error, family.length, target)
    promise = family.promise(family.rung(step))
    worst, mechanism = pricing.best(promise, family.mechanisms)
    if worst == math.inf:
        names = " or ".join(dict.fromkeys(mechanism.name for mechanism in family.mechanisms))
        refused = f"cannot be kept here by {names}"
        return Option(family.name, str(family.against), refused=refused)
    errors = {column: [told] for column, told in pricing.errors(promise, mechanism).items()}
    option = _option(pricing, promise, mechanism, errors, family.name)
    return replace(option, places=family.rung(step), reached=worst <= target)


def _by_column(pricing: Pricing, option: Option, family: Family, target: float) -> Option:
    """Each column goes up its own ladder again, as far as the errors of all stay within the target;
    those with the shortest first."""
    if not family.by_column or option.mechanism is None:
        return option
    places, by = dict(option.places), [option.mechanism]
    for column in sorted(places, key=lambda name: len(family.ladders[name])):

        def error(place: int, column: str = column) -> float:
            return pricing.best(family.promise({**places, column: place}), by)[0]

        places[column] = first_within(error, places[column] + 1, target)
    promise = family.promise(places)
    errors = {column: [told] for column, told in pricing.errors(promise, *by).items()}
    climbed = _option(pricing, promise, option.mechanism, errors, family.name)
    return replace(climbed, places=option.places)


def _option(
    pricing: Pricing,
    promise: Guarantee,
    mechanism: Mechanism,
    errors: Mapping[str, Sequence[float]],
    family: str,
) -> Option:
    ceilings = {h.column: average_ceiling(promise, h) for h in pricing.histograms}
    without = {
        h.column: int(h.counts[promise.left_out(h)].sum()) / max(h.rows, 1)
        for h in pricing.histograms
    }
    against = str(mechanism.promised(promise).against())
    return Option(family, against, promise, mechanism, errors, ceilings, without, reached=True)


def _cost(pricing: Pricing, guarantee: Guarantee, named: Mechanism | None) -> Advice:
    """The median error under a promise, by mechanism and size of count, the best one first."""
    for histogram in pricing.histograms:
        guarantee.require_feasible(histogram)
    sizes = tuple(sorted({size for size in (10, 100) if size < pricing.count} | {pricing.count}))
    asked = mechanisms_for(guarantee) + mechanisms_on_request(guarantee)
    options, refused = list[Option](), list[Option]()
    for done, mechanism in enumerate(asked if named is None else [named]):
        pricing.progress(f"predicting {mechanism}", done, len(asked))
        try:
            errors = pricing.by_size(guarantee, mechanism, sizes)
        except CANNOT as error:  # others may
            if named is not None:
                raise
            refused.append(Option(str(guarantee), "", None, mechanism, refused=str(error)))
            continue
        options.append(_option(pricing, guarantee, mechanism, errors, str(guarantee)))
    options.sort(key=lambda option: math.inf if math.isnan(option.error) else option.error)
    return Advice(None, sizes, (*options, *refused), options[0] if options else None)


def first_within(error: Callable[[int], float], length: int, target: float) -> int:
    """The first place whose error is within the target, else that of the smallest error seen.

    Later places have smaller errors, but for what integers do to buckets, and where a weak promise
    leaves values that cannot be told apart: then the most accurate of some places is the end of the
    search.

    >>> first_within([9, 7, 4, 2, 1].__getitem__, 5, 4.5), first_within([3, 2].__getitem__, 2, 1)
    (2, 1)
    """
    high = length - 1
    if error(high) > target:
        high = min({high * part // _PARTS for part in range(_PARTS + 1)}, key=error)
        if error(high) > target:
            return high
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= target else (middle, high)
    return high


__all__ = ["Advice", "advise", "first_within", "strongest"]
