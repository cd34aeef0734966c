"""The strongest promise of a family that reaches a wished-for error, found on few predictions."""

from __future__ import annotations

import math

from sfumato.guarantees import Ceilings, Guarantee
from sfumato.mechanisms import Mechanism, mechanisms_for
from sfumato.outlook.advise.advice import Option
from sfumato.outlook.advise.families import Family, average_ceiling, keeps_ceilings
from sfumato.outlook.advise.study import Study

CLOSE = 0.98  # of the target: a promise whose error is that near needs no better one
_ROUNDS = 5
_MOST_VALUES = 200  # with more, what is searched for is what is priced: an upper bound
_PARTS = 4  # places where the most accurate promise is looked for


def solve(study: Study, family: Family, target: float, ceilings: Ceilings) -> Option:
    """The strongest promise of a family that reaches the target."""
    histogram, against = study.histogram, str(family.against)
    if family.impossible:
        return Option(family.name, against, refused=f"cannot be kept: {family.impossible}")
    allowed = [p for p in family.guarantees if keeps_ceilings(p, histogram, ceilings)]
    if not allowed:
        return Option(family.name, against, refused="keeps no such ceiling")
    place, reached = _search(study, family, allowed, target)
    guarantee = allowed[place]
    error, mechanism = _picked(study, family, guarantee)
    return Option(
        family.name,
        against,
        guarantee=guarantee,
        mechanism=mechanism,
        error=error,
        ceiling=average_ceiling(guarantee, histogram),
        reached=reached or error <= target,
    )


def _picked(study: Study, family: Family, guarantee: Guarantee) -> tuple[float, Mechanism]:
    """The error of what `publish` would pick by itself for a promise.

    It may be a mechanism that takes too long to be looked at for every promise of the search. So
    that is priced once, for the promise that was found: a few questions tell how it compares.
    """
    error, mechanism = study.best(guarantee, family.mechanisms)
    if not study.table.quasi or len(study.histogram.values) > _MOST_VALUES:
        return error, mechanism
    few = study.error(guarantee, mechanism, few=True)
    for other in mechanisms_for(guarantee):
        same = other.promised(guarantee).against() == family.against
        if same and other.needs_bins and 0 < few < math.inf:
            ratio = study.error(guarantee, other, few=True) / few
            if ratio < 1:
                return error * ratio, other
    return error, mechanism


def _search(
    study: Study, family: Family, allowed: list[Guarantee], target: float
) -> tuple[int, bool]:
    """The strongest that reaches the target, or else the most accurate, and whether it does.

    Bisection on a few questions, aimed anew until all of them agree. Before it gives up it looks
    at what the few questions found most accurate.
    """
    aim, tried = target, dict[int, float]()
    for _ in range(_ROUNDS):
        place = _bisect(study, family, allowed, aim)
        if place in tried:
            break
        error = tried[place] = study.best(allowed[place], family.mechanisms)[0]
        if CLOSE * target <= error <= target or error == 0 or not math.isfinite(error):
            break
        few, _ = study.best(allowed[place], family.mechanisms, few=True)
        aim = target * few / error * (CLOSE if error > target else 1.0)
    if min(tried.values()) > target:
        place = _bisect(study, family, allowed, 0.0)
        tried[place] = study.best(allowed[place], family.mechanisms)[0]
    reached = [place for place, error in tried.items() if error <= target]
    return (min(reached), True) if reached else (min(tried, key=tried.__getitem__), False)


def _bisect(study: Study, family: Family, allowed: list[Guarantee], aim: float) -> int:
    """The first promise, from the strongest, whose few questions are within `aim`.

    Weaker promises have smaller errors, but for what integers do to buckets, and where a weak
    promise leaves values that cannot be told apart. So where the weakest is not within `aim`, the
    most accurate of some is where the search starts; or ends, if that is not within it either.
    Every other step looks where the logarithms of the errors known so far point, the others halve
    what is left.
    """

    def error(place: int) -> float:
        return study.best(allowed[place], family.mechanisms, few=True)[0]

    low, high = -1, len(allowed) - 1
    above, below = math.inf, error(high)
    if below > aim:
        high = min({high * part // _PARTS for part in range(1, _PARTS + 1)}, key=error)
        below = error(high)
        if below > aim:
            return high
    guessing = False
    while high - low > 1:
        middle = (low + high) // 2
        if guessing and math.isfinite(above) and below > 0:
            part = math.log(above / aim) / math.log(above / below)
            middle = min(max(low + round(part * (high - low)), low + 1), high - 1)
        found = error(middle)
        if found <= aim:
            high, below = middle, found
        else:
            low, above = middle, found
        guessing = not guessing
    return high
