"""The promises that advice chooses from: families of one parameter, from strong to weak."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.columns import Value, value_text
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import (
    GUARANTEES,
    BetaLikeness,
    FineRhoPrivacy,
    FPrivacy,
    Guarantee,
    LDiversity,
    RhoPrivacy,
    SmallSum,
)
from sfumato.guarantees.f_privacy import ValueCeilings
from sfumato.guarantees.fine_rho import Limit, Limits
from sfumato.guarantees.limit_rows import EVERY_OTHER, label
from sfumato.guarantees.reconstruction import ReconstructionPrivacy
from sfumato.guarantees.small_sum import LARGEST_GROUPS
from sfumato.mechanisms import Mechanism, parse_mechanism
from sfumato.profile import Histogram
from sfumato.textform import rational

_THOUSAND = 1000
_COARSE = 2  # digits for buckets: integers make their errors jump, more digits would mean nothing
_LARGEST_FACTOR = 10_000  # times a share that a promise may still call a limit
ANYBODY = "anybody whose other knowledge gives no value more than rho1"
NO_LINK = "whoever knows no link between quasi columns and the sensitive one"
SHARES_ONLY = "whoever knows only how common each value is"
SUMS = "sums over few people only; one person's value has no ceiling"
GROUPS = "estimates for people who share all quasi values; one person's value has no ceiling"

Ceilings = Mapping[Value, Fraction]


@dataclass(frozen=True, eq=False)
class Family:
    """`promises[0]` is the strongest, each later one allows more; all `mechanisms` are tried."""

    name: str
    promises: Sequence[Guarantee]
    mechanisms: tuple[Mechanism, ...]
    against: str
    needs_cells: bool = False


def families(
    histogram: Histogram,
    ceilings: Ceilings,
    *,
    cells: bool = True,
    among: Sequence[str] | None = None,
) -> list[Family]:
    """The families that this histogram allows, of the guarantees `among` or of all.

    Promises against stronger adversaries come first.
    """
    unknown = sorted(set(among or ()) - set(GUARANTEES))
    if unknown:
        raise UsageError(
            f"There is no guarantee {unknown[0]!r}. Choose among: {', '.join(sorted(GUARANTEES))}."
        )
    perturbing = _ways("fine-grain(objective=counts)", "uniform")
    cutting = _ways("partitioned", "partitioned(inside=fine-grain)")
    bucketing = _ways("optimal")
    found = [
        Family("rho-privacy", _rho(histogram), perturbing, ANYBODY),
        Family("rho-privacy in parts", _rho(histogram), cutting, SHARES_ONLY),
        Family("fine-rho-privacy", _fine_rho(histogram, ceilings), perturbing, ANYBODY),
        Family("l-diversity", _diversities(histogram), bucketing, NO_LINK),
        Family("beta-likeness", _likenesses(histogram), bucketing, NO_LINK),
        Family("f-privacy", _f_privacy(histogram, ceilings), bucketing, NO_LINK),
        Family("small-sum", _small_sums(histogram), _ways("splu"), SUMS),
    ]
    if cells:
        found.append(
            Family(
                "reconstruction-privacy", _reconstruction(), _ways("sps"), GROUPS, needs_cells=True
            )
        )
    return [
        family
        for family in found
        if family.promises and (among is None or family.promises[0].name in among)
    ]


def keeps_ceilings(promise: Guarantee, histogram: Histogram, ceilings: Ceilings) -> bool:
    """Whether a promise's own ceilings are as low as the steward's."""
    own = promise.ceilings(histogram)
    places = {value: code for code, value in enumerate(histogram.values)}
    return all(own[places[value]] <= limit for value, limit in ceilings.items())


def average_ceiling(promise: Guarantee, histogram: Histogram) -> float:
    """What anybody may at most believe about a person's own value, on average over the people.

    >>> import numpy as np
    >>> average_ceiling(LDiversity(4), Histogram("s", tuple("abcd"), np.full(4, 5)))
    0.25
    """
    pairs = zip(histogram.shares, promise.ceilings(histogram), strict=True)
    return float(sum((share * ceiling for share, ceiling in pairs), Fraction(0)))


def stated_ceilings(histogram: Histogram, given: Mapping[object, object]) -> dict[Value, Fraction]:
    """The steward's ceilings by value of the domain, exact; a value may be given as its text."""
    names = {label(value): value for value in histogram.values}
    found: dict[Value, Fraction] = {}
    for name, limit in given.items():
        text = name if isinstance(name, str) else label(name)
        if text not in names:
            raise UsageError(
                f"The ceiling names {text!r}, which column {histogram.column!r} does not have."
            )
        value = names[text]
        found[value] = rational(limit, f"ceiling of {text}")
        if not 0 < found[value] < 1:
            raise UsageError(
                f"The ceiling of {text!r} must lie between 0 and 1, both excluded. Got {limit} "
                "instead."
            )
        share = histogram.shares[histogram.values.index(value)]
        if share >= found[value]:
            raise InfeasibleGuarantee(
                f"The ceiling of {value_text(value)} is {float(found[value]):.4g}, but its share "
                f"in column {histogram.column!r} is {float(share):.4g}: everybody may believe that "
                "much without any release. Choose a ceiling above the share.",
                witness=value_text(value),
            )
    return found


def _ways(*texts: str) -> tuple[Mechanism, ...]:
    return tuple(parse_mechanism(text) for text in texts)


def _above(share: Fraction, digits: int = 3) -> Fraction:
    """The share rounded up to a short decimal that is still below 1.

    >>> _above(Fraction(749, 10_000)), _above(Fraction(1, 3000))
    (Fraction(3, 40), Fraction(17, 50000))
    """
    if share <= 0:
        return Fraction(1, 10**6)
    places = digits + max(0, -math.floor(math.log10(float(share))) - 2)
    rounded = Fraction(math.ceil(share * 10**places), 10**places)
    return rounded if rounded < 1 else (1 + share) / 2


def _rho(histogram: Histogram) -> list[Guarantee]:
    """rho1 covers every value; rho2 in steps of a thousandth of what is left above it."""
    rho1 = _above(max(histogram.shares))
    return [RhoPrivacy(rho1, rho2) for rho2 in _up_to_one(rho1)]


def _up_to_one(low: Fraction) -> list[Fraction]:
    """Short decimals above `low` and below 1, the odds in even steps at both ends."""
    steps = [Fraction(k, _THOUSAND) for k in range(1, _THOUSAND)]
    steps += [1 - Fraction(k, _THOUSAND * 100) for k in (1, 2, 5, 10, 20, 50)]
    return sorted(step for step in set(steps) if step > low)


def _factors(largest: float, digits: int = 3) -> list[Fraction]:
    """Numbers of so many digits from just above 1 up to `largest`.

    >>> [float(factor) for factor in _factors(1.55, 2)], float(_factors(25, 2)[-1])
    ([1.1, 1.2, 1.3, 1.4, 1.5], 24.0)
    """
    found: list[Fraction] = []
    step = Fraction(1, 10 ** (digits - 1))
    number = 1 + step
    while number < min(largest, _LARGEST_FACTOR):
        found.append(number)
        if number >= 10**digits * step:
            step *= 10
        number += step
    return found


def _rarest(histogram: Histogram) -> Fraction:
    return min((share for share in histogram.shares if share > 0), default=Fraction(1))


def _fine_rho(histogram: Histogram, ceilings: Ceilings) -> list[Guarantee]:
    if not ceilings:
        return [FineRhoPrivacy(theta=theta) for theta in _factors(float(1 / _rarest(histogram)))]
    own = [
        Limit(label(value), _between(histogram, value, limit), limit)
        for value, limit in ceilings.items()
    ]
    others = [
        s for v, s in zip(histogram.values, histogram.shares, strict=True) if v not in ceilings
    ]
    rho1 = _above(max(others, default=Fraction(0)))
    rest = [Limit(EVERY_OTHER, rho1, rho2) for rho2 in _up_to_one(rho1)]
    rest.append(Limit(EVERY_OTHER, None, None))
    return [FineRhoPrivacy(limits=Limits((*own, row))) for row in rest]


def _between(histogram: Histogram, value: Value, limit: Fraction) -> Fraction:
    """A short decimal from the value's share up, below its limit."""
    share = histogram.shares[histogram.values.index(value)]
    return next(
        (rho1 for digits in range(3, 9) if (rho1 := _above(share, digits)) < limit),
        (share + limit) / 2,
    )


def _diversities(histogram: Histogram) -> list[Guarantee]:
    most = histogram.rows // max(int(histogram.counts.max(initial=0)), 1)
    return [LDiversity(number) for number in range(most, 1, -1)]


def _likenesses(histogram: Histogram) -> list[Guarantee]:
    return [BetaLikeness(t - 1) for t in _factors(float(1 / _rarest(histogram)), _COARSE)]


def _f_privacy(histogram: Histogram, ceilings: Ceilings) -> list[Guarantee]:
    """The share of a value plus a floor, the same for all: no chance rises by more than that."""
    if not ceilings:
        hundredths = [Fraction(k, 100) for k in range(10, 100)]
        floors = [Fraction(k, 1000) for k in range(10, 100)] + hundredths
        return [FPrivacy(theta=Fraction(1), floor=floor) for floor in floors]
    own = tuple((label(value), limit) for value, limit in ceilings.items())
    others = [
        s for v, s in zip(histogram.values, histogram.shares, strict=True) if v not in ceilings
    ]
    steps = [*_up_to_one(max(others, default=Fraction(0))), Fraction(1)]
    return [FPrivacy(limits=ValueCeilings((*own, (EVERY_OTHER, step)))) for step in steps]


def _small_sums(histogram: Histogram) -> list[Guarantee]:
    most = histogram.rows // max(int(histogram.counts.max(initial=0)), 1)
    return [SmallSum(groups) for groups in range(min(most, LARGEST_GROUPS), 1, -1)]


def _reconstruction() -> list[Guarantee]:
    """The paper's λ = 0.3; the chance δ that an estimate errs by more, in steps of 0.05."""
    return [
        ReconstructionPrivacy(Fraction(3, 10), Fraction(twentieths, 20))
        for twentieths in range(9, 0, -1)
    ]
