"""The promises that advice chooses from: a ladder per column, guarantee and reader, from strong to
weak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.columns import Value, label, value_text
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import (
    DEFAULT_PROMISE,
    GUARANTEES,
    CeilingGuarantee,
    Ceilings,
    Guarantee,
    OddsGuarantee,
    Reader,
    conjunction,
    parse_guarantee,
)
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.outlook.catalogue import reach_of
from sfumato.profile import Histogram
from sfumato.textform import rational


@dataclass(frozen=True, eq=False)
class Family:
    """For every sensitive column a ladder: the first promise is the strongest, each later one
    allows more. `mechanisms` hold against the same reader; all are tried.

    Where the counts allow none, `refused` says why.
    """

    name: str
    ladders: Mapping[str, Sequence[Guarantee]]
    mechanisms: tuple[Mechanism, ...]
    against: Reader
    refused: str = ""

    @property
    def length(self) -> int:
        return max(map(len, self.ladders.values()))

    def rung(self, step: int) -> dict[str, int]:
        """For every column the place in its ladder after so many of `length` steps."""
        last = max(self.length - 1, 1)
        return {name: round(step * (len(one) - 1) / last) for name, one in self.ladders.items()}

    def promise(self, places: Mapping[str, int]) -> Guarantee:
        """What is promised with each column at its place."""
        named = {column: self.ladders[column][place] for column, place in places.items()}
        first, *others = named.values()
        if all(promise == first for promise in others):
            return first
        return conjunction(list(named.values()), list(named))

    @property
    def by_column(self) -> bool:
        """Whether columns may have different promises."""
        first = next(iter(self.ladders.values()))[0]
        return len(self.ladders) > 1 and isinstance(first, CeilingGuarantee | OddsGuarantee)


def families(
    histograms: Sequence[Histogram],
    ceilings: Mapping[str, Ceilings] | None = None,
    *,
    cells: bool = True,
    among: Sequence[str] | None = None,
) -> list[Family]:
    """The families of the guarantees `among` or of all, under ceilings of values by column.

    Promises against readers who know more come first. A mechanism that holds against fewer readers
    than the guarantee says makes a family of its own. Without `cells`, mechanisms that look at
    groups of people are left out.
    """
    listed: list[Family] = []
    stated = ceilings or {}
    for name, cls in GUARANTEES.items():
        if among is not None and name not in among:
            continue
        ladders = {h.column: _ladder(cls, h, stated.get(h.column, {}), len(histograms))
                   for h in histograms}  # fmt: skip
        kept = {
            h.column: [
                p for p in ladders[h.column] if keeps_ceilings(p, h, stated.get(h.column, {}))
            ]
            for h in histograms
        }
        if len(histograms) > 1 and not cls.several_columns:
            refused = "speaks of one sensitive column"
        elif not all(ladders.values()):
            refused = reach_of(cls, [h for h in histograms if not ladders[h.column]]).limit
        elif not all(kept.values()):
            refused = "keeps no such ceiling"
        else:
            listed += _by_reader(cls, kept, cells=cells)
            continue
        listed.append(Family(name, {}, (), cls.holds_against, refused))
    return sorted(listed, key=lambda family: -family.against.strength)


def _ladder(
    cls: type[Guarantee], histogram: Histogram, ceilings: Ceilings, columns: int
) -> Sequence[Guarantee]:
    """Of several columns, one with a value that is too common for groups that are all different is
    promised what keeps any shares."""
    ladder = cls.ladder(histogram, ceilings)
    if not ladder and columns > 1 and issubclass(cls, CeilingGuarantee):
        return parse_guarantee(DEFAULT_PROMISE).ladder(histogram, ceilings)
    return ladder


def _by_reader(
    cls: type[Guarantee], ladders: Mapping[str, Sequence[Guarantee]], *, cells: bool
) -> Iterator[Family]:
    if not issubclass(cls, CeilingGuarantee | OddsGuarantee):  # one promise for all columns
        ladders = dict.fromkeys(ladders, min(ladders.values(), key=len))
    first = next(iter(ladders.values()))[0]
    by_reader: dict[Reader, list[Mechanism]] = {}
    for mechanism in [form for known in MECHANISMS.values() for form in known.advised()]:
        if mechanism.keeps(first) and (cells or not mechanism.needs_cells):
            by_reader.setdefault(mechanism.promised(first).against(), []).append(mechanism)
    for reader, mechanisms in by_reader.items():
        names = dict.fromkeys(mechanism.name for mechanism in mechanisms)
        by = "" if reader == first.against() else f" by {' and '.join(names)}"
        kept = {c: list(map(mechanisms[0].promised, ladder)) for c, ladder in ladders.items()}
        yield Family(f"{cls.name}{by}", kept, tuple(mechanisms), reader)


def keeps_ceilings(guarantee: Guarantee, histogram: Histogram, ceilings: Ceilings) -> bool:
    """Whether a promise's own ceilings are as low as the steward's."""
    if not ceilings:  # those of a ladder of promises take a while
        return True
    allowed = dict(zip(histogram.values, guarantee.ceilings(histogram), strict=True))
    return all(allowed[value] <= limit for value, limit in ceilings.items())


def average_ceiling(guarantee: Guarantee, histogram: Histogram) -> float:
    """What anybody may at most believe about a person's own value, on average over the people.

    >>> import numpy as np
    >>> from sfumato.guarantees import LDiversity
    >>> average_ceiling(LDiversity(4), Histogram("s", tuple("abcd"), np.full(4, 5)))
    0.25
    """
    pairs = zip(histogram.shares, guarantee.ceilings(histogram), strict=True)
    return float(sum((share * ceiling for share, ceiling in pairs), Fraction(0)))


def stated_ceilings(
    histograms: Sequence[Histogram], limits: Mapping[object, object]
) -> dict[str, dict[Value, Fraction]]:
    """The steward's ceilings by column and value of the domain, exact; a value may be given as its
    text, and is limited in every column that has it."""
    stated: dict[str, dict[Value, Fraction]] = {histogram.column: {} for histogram in histograms}
    for name, limit in limits.items():
        text = name if isinstance(name, str) else label(name)
        having = [
            (histogram.column, value, share)
            for histogram in histograms
            for value, share in zip(histogram.values, histogram.shares, strict=True)
            if label(value) == text
        ]
        if not having:
            columns = " or ".join(repr(histogram.column) for histogram in histograms)
            raise UsageError(f"The ceiling names {text!r}, which column {columns} does not have.")
        ceiling = rational(limit, f"ceiling of {text}")
        if not 0 < ceiling < 1:
            raise UsageError(
                f"The ceiling of {text!r} must lie between 0 and 1, both excluded. Got {limit} "
                "instead."
            )
        for column, value, share in having:
            if share >= ceiling:
                raise InfeasibleGuarantee(
                    f"The ceiling of {value_text(value)} is {float(ceiling):.4g}, but its share "
                    f"in column {column!r} is {float(share):.4g}: everybody gives it that chance "
                    "without any release. Choose a ceiling above the share.",
                    witness=value_text(value),
                )
            stated[column][value] = ceiling
    return stated
