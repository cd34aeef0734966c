"""Which promises a table allows, and where the limit of each lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.columns import value_text
from sfumato.errors import SfumatoError
from sfumato.guarantees import parse_guarantee
from sfumato.outlook.promises import PROMISES
from sfumato.profile import Histogram, Profile


@dataclass(frozen=True)
class Allowed:
    """Whether a table allows a promise: the limit in words, and numbers that can be kept."""

    promise: str
    allowed: bool
    limit: str
    example: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "promise": self.promise,
            "allowed": self.allowed,
            "limit": self.limit,
            "example": self.example,
        }


def allowed_promises(profile: Profile) -> list[Allowed]:
    """For every promise, whether these histograms allow it. Counts decide; nothing is planned.

    >>> import numpy as np
    >>> counts = Histogram("disease", ("flu", "HIV"), np.array([3, 1]))
    >>> found = {each.promise: each for each in allowed_promises(Profile(4, {"disease": counts}))}
    >>> found["l-diversity"].allowed, found["l-diversity"].limit
    (False, "'flu' has 75 % of the records: more than half have the same value.")
    """
    histograms = list(profile.histograms.values())
    common = max(histograms, key=lambda histogram: _share(histogram, "largest"))
    found = []
    for name in PROMISES:
        if len(histograms) > 1 and name in _ONE_COLUMN:
            found.append(
                Allowed(
                    name,
                    False,
                    "Speaks of one sensitive column, and this table has "
                    f"{len(histograms)}. Keep one as sensitive and drop the others.",
                    None,
                )
            )
        elif len(common.values) < 2:
            found.append(
                Allowed(name, False, f"Column {common.column!r} has only one value.", None)
            )
        else:
            found.append(_LIMITS[name](name, histograms, common))
    return [_checked(each, profile) for each in found]


def _checked(each: Allowed, profile: Profile) -> Allowed:
    """The example stands only where the promise itself agrees."""
    if each.example is None:
        return each
    try:
        for histogram in profile.histograms.values():
            parse_guarantee(each.example).require_feasible(histogram)
    except SfumatoError as error:
        return Allowed(each.promise, False, str(error), getattr(error, "nearest", None))
    return each


def _share(histogram: Histogram, which: str) -> Fraction:
    present = [share for share in histogram.shares if share > 0]
    return max(present) if which == "largest" else min(present)


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.3g} %"


def _commonest(histogram: Histogram) -> str:
    return value_text(histogram.values[int(histogram.counts.argmax())])


def _by_commonest(name: str, _: list[Histogram], common: Histogram) -> Allowed:
    """Promises that one value's share limits: no more than one in `most` may have it."""
    largest = _share(common, "largest")
    most = math.floor(1 / largest)
    has = f"{_commonest(common)} has {_percent(largest)} of the records"
    if most < 2:
        return Allowed(name, False, f"{has}: more than half have the same value.", None)
    (parameter,) = PROMISES[name].parameters
    usual = min(int(parameter.default), most)
    return Allowed(
        name,
        True,
        f"{parameter.name} up to {most:,}: {has}.",
        str(parse_guarantee(f"{name}({parameter.name}={usual})")),
    )


def _beta(name: str, histograms: list[Histogram], common: Histogram) -> Allowed:
    largest = _share(common, "largest")
    reach = 1 / largest - 1
    return Allowed(
        name,
        True,
        f"Any beta above 0. From beta = {float(reach):.3g} on, nothing is promised about "
        f"{_commonest(common)}, which {_percent(largest)} of the records have.",
        PROMISES[name].example,
    )


def _theta(name: str, histograms: list[Histogram], common: Histogram) -> Allowed:
    largest = _share(common, "largest")
    return Allowed(
        name,
        True,
        f"theta from 1 up. From theta = {float(1 / largest):.3g} on, nothing is promised about "
        f"{_commonest(common)}, which {_percent(largest)} of the records have.",
        PROMISES[name].example,
    )


def _rho(name: str, histograms: list[Histogram], common: Histogram) -> Allowed:
    largest = _share(common, "largest")
    rarest = max(_share(histogram, "smallest") for histogram in histograms)
    before = Fraction(math.ceil(largest * 1000), 1000)
    if before >= 1:
        before = largest
    after = min(3 * before, (1 + before) / 2)
    return Allowed(
        name,
        True,
        f"rho1 from {float(rarest):.3g} up: below, nobody is protected. From rho1 = "
        f"{float(before):.3g} on, every value is covered; the commonest, {_commonest(common)}, "
        f"has {_percent(largest)} of the records.",
        str(parse_guarantee(f"{name}({before}, {after})")),
    )


def _fine_rho(name: str, histograms: list[Histogram], common: Histogram) -> Allowed:
    rarest = max(_share(histogram, "smallest") for histogram in histograms)
    reach = 1 / rarest
    if reach <= 2:
        return Allowed(
            name, False, "Every value is so common that no multiple of its share is below 1.", None
        )
    usual = min(Fraction(PROMISES[name].parameters[0].default), (1 + reach) / 2)
    return Allowed(
        name,
        True,
        f"theta above 1 and below {float(reach):.4g}: beyond, nobody is protected. Nothing is "
        "promised about values with a share of 1/theta or more.",
        str(parse_guarantee(f"{name}(theta={usual})")),
    )


def _reconstruction(name: str, histograms: list[Histogram], common: Histogram) -> Allowed:
    return Allowed(
        name,
        True,
        "Any error and chance between 0 and 1. Large groups of people with the same public "
        "columns are sampled.",
        PROMISES[name].example,
    )


_ONE_COLUMN = {"l-diversity", "beta-likeness", "f-privacy", "reconstruction-privacy"}
_LIMITS = {
    "l-diversity": _by_commonest,
    "small-sum": _by_commonest,
    "beta-likeness": _beta,
    "f-privacy": _theta,
    "rho-privacy": _rho,
    "fine-rho-privacy": _fine_rho,
    "reconstruction-privacy": _reconstruction,
}
