"""The strongest promises of a family that reach a wished-for error, found on predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from sfumato.outlook.advise.advice import Option, Spared
from sfumato.outlook.advise.families import Family, average_ceiling
from sfumato.outlook.advise.pricing import Pricing

_RARE = 0.01  # of the people: values that are proposed to be put together
_PARTS = 4  # places where the most accurate promise is looked for


def solve(pricing: Pricing, family: Family, target: float) -> Option:
    """The strongest promise of a family whose errors are within the target, else the most accurate.

    The ladders of several columns are walked down together; then each column goes up its own
    again, as far as the errors of all stay within the target.
    """
    against = str(family.against)
    if family.refused:
        return Option(family.name, against, refused=family.refused)

    def error(places: dict[str, int]) -> float:
        promise, worst = family.promise(places), math.inf
        for mechanism in reversed(family.mechanisms):  # the form that costs least comes last
            worst = min(worst, pricing.worst(promise, mechanism))
            if worst <= target:
                break
        return worst

    step = first_within(lambda step: error(family.rung(step)), family.length, target)
    places = family.rung(step)
    if family.by_column and error(places) <= target:
        for column in sorted(places, key=lambda name: len(family.ladders[name])):
            strongest = first_within(
                lambda place, column=column: error({**places, column: place}),  # type: ignore[misc]
                places[column] + 1,
                target,
            )
            places[column] = strongest
    promise = family.promise(places)
    worst, mechanism = pricing.best(promise, family.mechanisms)
    histograms = pricing.histograms
    ceilings = {h.column: average_ceiling(promise, h) for h in histograms}
    if worst == math.inf:
        names = " or ".join(dict.fromkeys(mechanism.name for mechanism in family.mechanisms))
        return Option(family.name, against, refused=f"cannot be kept here by {names}")
    return Option(
        family.name,
        against,
        guarantee=promise,
        mechanism=mechanism,
        errors=dict(pricing.errors(promise, mechanism)),
        ceilings=ceilings,
        places=family.rung(step),
        reached=worst <= target,
    )


def spared(pricing: Pricing, option: Option | None, listed: Sequence[Family]) -> Iterator[Spared]:
    """What leaving out each of several columns, or putting its rare values together, would bring
    to the others, where all of them are promised alike: before columns went up their own ladders.
    """
    if option is None or option.mechanism is None or len(option.errors) < 2:
        return
    family = next(family for family in listed if family.name == option.family)
    errors = pricing.errors(family.promise(option.places), option.mechanism)
    for column in errors:
        others = {name: place for name, place in option.places.items() if name != column}
        worst = max(error for name, error in errors.items() if name != column)
        without = pricing.without(column).worst(family.promise(others), option.mechanism)
        histogram = pricing.profile.histograms[column]
        least = max(2, round(_RARE * histogram.rows))
        rare = int((histogram.counts < least).sum())
        merged = math.nan
        if rare > 1:
            fewer = pricing.merged(column, least)
            merged = fewer.worst(family.promise(option.places), option.mechanism)
        yield Spared(column, worst, without, rare, least, merged)


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
