"""The guarantees side by side, for somebody who chooses: their words, and what a table allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import GUARANTEES, Guarantee
from sfumato.limits import memory_allowed
from sfumato.mechanisms import mechanisms_for, mechanisms_on_request
from sfumato.profile import Histogram, Profile


def guarantee_list() -> list[dict[str, Any]]:
    """Every registered guarantee in its own words, ready to be shown.

    >>> [told["name"] for told in guarantee_list()][:2]
    ['l-diversity', 'beta-likeness']
    """
    return [_words(cls) for cls in GUARANTEES.values()]


def _words(cls: type[Guarantee]) -> dict[str, Any]:
    usual = cls.usual()
    offered = {mechanism.name: type(mechanism) for mechanism in mechanisms_for(usual)}
    others = {mechanism.name: type(mechanism) for mechanism in mechanisms_on_request(usual)}
    return {
        "name": cls.name,
        "title": cls.title,
        "sentence": cls.sentence,
        "example": str(usual),
        "parameters": [parameter.to_json() for parameter in cls.moved()],
        "mechanisms": [
            {
                "name": name,
                "sentence": mechanism.sentence,
                "standing": mechanism.standing,
                "chosen": name in offered,
            }
            for name, mechanism in (offered | others).items()
        ],
        "holds_against": str(cls.holds_against),
        "does_not_protect": list(cls.does_not_protect),
    }


@dataclass(frozen=True)
class Reach:
    """What histograms allow of a guarantee: in words, an example, and where parameters end."""

    allowed: bool
    limit: str
    example: str | None = None
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def allowed_guarantees(profile: Profile) -> dict[str, Reach]:
    """For every guarantee, whether these histograms allow it. Counts decide; nothing is planned.

    >>> import numpy as np
    >>> counts = Histogram("disease", ("flu", "HIV"), np.array([3, 1]))
    >>> reach = allowed_guarantees(Profile(4, {"disease": counts}))["l-diversity"]
    >>> reach.allowed, reach.limit[:38]
    (False, "'l-diversity(3)' cannot be kept: in co")
    """
    histograms = list(profile.histograms.values())
    return {name: reach_of(cls, histograms) for name, cls in GUARANTEES.items()}


def reach_of(cls: type[Guarantee], histograms: Sequence[Histogram]) -> Reach:
    """What these histograms allow of a guarantee: the part of its ladder that all have."""
    for histogram in histograms:
        if (crowd := too_many_values(histogram)) is not None:
            return Reach(False, crowd)
    if len(histograms) > 1 and not cls.several_columns:
        return Reach(
            False,
            f"Speaks of one sensitive column, and this table has {len(histograms)}. Keep one as "
            "sensitive and drop the others.",
        )
    for histogram in histograms:
        if len(histogram.values) < 2 or not histogram.rows:
            return Reach(False, f"Column {histogram.column!r} has only one value.")
    ladders = [cls.ladder(histogram, {}) for histogram in histograms]
    ladder, usual = min(ladders, key=len), cls.usual()
    refused = next(filter(None, (_refusal(usual, histogram) for histogram in histograms)), None)
    if not ladder:
        return Reach(False, str(refused), refused.nearest if refused else None)
    # the usual promise, else one from the middle on that leaves nobody out
    tried = [usual] * (refused is None) + list(ladder[len(ladder) // 2 :: -1])
    whole = (each for each in tried if not any(map(each.left_out, histograms)))
    example = next(whole, tried[0])
    moved = {parameter.name: [getattr(each, parameter.name) for each in ladder]
             for parameter in cls.moved()}  # fmt: skip
    ends = {name: (float(min(n)), float(max(n))) for name, n in moved.items() if min(n) < max(n)}
    limit = f"From '{ladder[0]}', the strongest, to '{ladder[-1]}'."
    for histogram in histograms:  # the example stands only where the promise itself agrees
        if (error := _refusal(example, histogram)) is not None:
            return Reach(False, str(error), error.nearest)
    return Reach(True, limit, str(example), ends)


def _refusal(promise: Guarantee, histogram: Histogram) -> InfeasibleGuarantee | None:
    try:
        promise.require_feasible(histogram)
    except InfeasibleGuarantee as error:
        return error
    return None


def too_many_values(histogram: Histogram) -> str | None:
    """Why a column has more values than can be worked with here; None where it has not.

    Answers weigh every value against every other: so many numbers must find room.

    >>> import numpy as np
    >>> too_many_values(Histogram("ill", ("a", "b"), np.array([1, 2])))
    """
    values = len(histogram.values)
    needed, room = 8 * values**2, memory_allowed() // 2
    if needed <= room:
        return None
    return (
        f"Column {histogram.column!r} has {values:,} different values. Answers about it weigh "
        f"every value against every other, {needed / 1e9:,.1f} GB of numbers, and there is room "
        f"for {room / 1e9:,.1f}. Give it a coarser form: bins for numbers, or a recode such as "
        "prefix(3) or rare(20)."
    )
