"""The promises that advice chooses from: a ladder per guarantee and reader, from strong to weak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.columns import Value, value_text
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import GUARANTEES, Ceilings, Guarantee, Reader, require_known
from sfumato.guarantees.value_table import label
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.outlook.catalogue import reach_of
from sfumato.profile import Histogram
from sfumato.textform import rational


@dataclass(frozen=True, eq=False)
class Family:
    """`promises[0]` is the strongest, each later one allows more; all `mechanisms` are tried.

    Where the histogram allows none, `impossible` says why.
    """

    name: str
    guarantees: Sequence[Guarantee]
    mechanisms: tuple[Mechanism, ...]
    against: Reader
    impossible: str = ""


def families(
    histogram: Histogram,
    ceilings: Ceilings,
    *,
    cells: bool = True,
    among: Sequence[str] | None = None,
) -> list[Family]:
    """The families of the guarantees `among` or of all.

    Promises against readers who know more come first. A mechanism that holds against fewer readers
    than the guarantee says makes a family of its own. Without `cells`, mechanisms that look at
    groups of people are left out.
    """
    for name in among or ():
        require_known(name)
    found = []
    for name, cls in GUARANTEES.items():
        if among is not None and name not in among:
            continue
        guarantees = cls.ladder(histogram, ceilings)
        if guarantees:
            found += _by_reader(guarantees, cells=cells)
        else:
            limit = reach_of(cls, [histogram]).limit
            found.append(Family(name, (), (), cls.holds_against, impossible=limit))
    return sorted(found, key=lambda family: -family.against.strength)


def _by_reader(guarantees: Sequence[Guarantee], *, cells: bool) -> list[Family]:
    first = guarantees[0]
    by_reader: dict[Reader, list[Mechanism]] = {}
    for mechanism in [mechanism for cls in MECHANISMS.values() for mechanism in cls.advised()]:
        if mechanism.keeps(first) and (cells or not mechanism.needs_cells):
            by_reader.setdefault(mechanism.promised(first).against(), []).append(mechanism)
    found = []
    for reader, mechanisms in by_reader.items():
        names = dict.fromkeys(mechanism.name for mechanism in mechanisms)
        own = "" if reader == first.against() else f" by {' and '.join(names)}"
        kept = [mechanisms[0].promised(guarantee) for guarantee in guarantees]
        found.append(Family(f"{first.name}{own}", kept, tuple(mechanisms), reader))
    return found


def keeps_ceilings(guarantee: Guarantee, histogram: Histogram, ceilings: Ceilings) -> bool:
    """Whether a promise's own ceilings are as low as the steward's."""
    if not ceilings:
        return True
    own = guarantee.ceilings(histogram)
    places = {value: code for code, value in enumerate(histogram.values)}
    return all(own[places[value]] <= limit for value, limit in ceilings.items())


def average_ceiling(guarantee: Guarantee, histogram: Histogram) -> float:
    """What anybody may at most believe about a person's own value, on average over the people.

    >>> import numpy as np
    >>> from sfumato.guarantees import LDiversity
    >>> average_ceiling(LDiversity(4), Histogram("s", tuple("abcd"), np.full(4, 5)))
    0.25
    """
    pairs = zip(histogram.shares, guarantee.ceilings(histogram), strict=True)
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
                f"in column {histogram.column!r} is {float(share):.4g}: everybody gives it that "
                "chance without any release. Choose a ceiling above the share.",
                witness=value_text(value),
            )
    return found
