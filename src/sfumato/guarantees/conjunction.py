"""Promises of several columns: one for each of them, or one for what they tell together.

Every sensitive column has one promise. One release publishes them all, so all are ceilings for
groups of people, or all are limits on odds; `conjunction` says why nothing else goes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from sfumato.columns import Value, list_some
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.guarantees.f_privacy import DEFAULT_PROMISE
from sfumato.guarantees.odds import OddsGuarantee, root_below
from sfumato.guarantees.small_sum import SmallSum
from sfumato.guarantees.words import Reader
from sfumato.profile import Histogram
from sfumato.textform import AND, about


class All(Guarantee):
    """What is said of all columns. A mixin: `promises` is a field beside it, one for each of
    `columns`; without columns there is one for all."""

    promises: tuple[Guarantee, ...]
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return text_of(self.promises, self.columns)

    def said_of(self, column: str) -> Any:
        """The promise about a column."""
        if not self.columns:
            return self.promises[0]
        if column in self.columns:
            return self.promises[self.columns.index(column)]
        raise UsageError(
            f"'{self}' promises nothing about the sensitive column {column!r}. Promise something "
            f"about it ('{about(column, str(self.promises[0]))}'), or about all: without a column."
        )

    def stated(self) -> str | dict[str, str]:
        if not self.columns:
            return str(self)
        return dict(zip(self.columns, map(str, self.promises), strict=True))

    def for_columns(self, columns: Sequence[str], unpublished: Sequence[str] = ()) -> Guarantee:
        if not self.columns:
            return self
        known = (*columns, *unpublished)
        if strangers := [name for name in self.columns if name not in known]:
            raise UsageError(
                f"'{self}' promises something about {list_some(strangers)}. Sensitive columns: "
                f"{list_some(columns)}."
            )
        promises = [self.said_of(column) for column in columns]
        alike = all(promise == promises[0] for promise in promises)
        return promises[0] if alike else conjunction(promises, columns)

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        ceilings: list[Fraction] = self.said_of(histogram.column).ceilings(histogram)
        return ceilings

    def require_feasible(self, histogram: Histogram) -> None:
        promise = self.said_of(histogram.column)
        try:
            promise.require_feasible(histogram)
        except InfeasibleGuarantee as error:
            if error.nearest is None:
                raise
            kept = [error.nearest if one is promise else one for one in self.promises]
            raise error.with_nearest(text_of(kept, self.columns)) from None

    def statement(self, histogram: Histogram) -> str:
        return str(self.said_of(histogram.column).statement(histogram))

    def formula(self) -> str:
        columns = self.columns or [""]
        pairs = zip(columns, self.promises, strict=True)
        return "\nand\n".join(about(column, one.formula()) for column, one in pairs)

    def against(self) -> Reader:
        readers = (promise.against() for promise in self.promises)
        return min(readers, key=lambda reader: reader.strength)

    def unprotected(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(gap for one in self.promises for gap in one.unprotected()))


@dataclass(frozen=True)
class AllCeilings(All, CeilingGuarantee):
    """Ceilings of every column.

    A `joint` promise holds for the combinations of all columns too. In buckets a person is anybody
    who stands there, so the chance of a combination is its share in the bucket: that share has the
    ceiling that the promise gives to a value as common.
    """

    promises: tuple[CeilingGuarantee, ...]
    columns: tuple[str, ...] = ()
    joint: bool = False

    name: ClassVar[str] = "all-ceilings"

    @property
    def names_values(self) -> bool:
        return bool(self.columns) or any(promise.names_values for promise in self.promises)

    def open_codes(self, histogram: Histogram) -> list[int]:
        codes: list[int] = self.said_of(histogram.column).open_codes(histogram)
        return codes


@dataclass(frozen=True)
class AllOdds(All, OddsGuarantee):
    """Limits on the odds of every column.

    A `joint` promise, about what the columns of `histograms` tell together, is kept by draws that
    are independent by column. What is shown of a person, y, then has
    Pr(y | x₁ … xₖ) / Pr(y | x'₁ … x'ₖ) = Π P[xᵢ, yᵢ] / P[x'ᵢ, yᵢ] ≤ gᵏ, with the operators'
    amplification g, and the odds of anything about these values rise by gᵏ at most, whatever a
    reader knew of how they are associated. One limit serves for all values: with a limit of its own
    for each, another column, drawn under a looser one, tells about this one by an association.

    >>> from sfumato.guarantees import RhoPrivacy
    >>> promise = AllOdds((RhoPrivacy("1/13", "1/6"), RhoPrivacy("1/4", "2/5")), ("a", "b"))
    >>> str(promise), promise.common_limit("b", "xyz")
    ('a: rho-privacy(1/13, 1/6) and b: rho-privacy(0.25, 0.4)', Fraction(2, 1))
    """

    promises: tuple[OddsGuarantee, ...]
    columns: tuple[str, ...] = ()
    histograms: Mapping[str, Histogram] = field(default_factory=dict, compare=False)
    joint: bool = False

    name: ClassVar[str] = "all-odds"

    @property
    def looks(self) -> int:
        return len(self.histograms) if self.joint else 1

    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.joint:
            return [self.common_limit(histogram.column, histogram.values)] * len(histogram.values)
        limits: list[Fraction | None] = self.said_of(histogram.column).odds_limits(histogram)
        return limits

    def stated_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.joint:
            return super().stated_limits(histogram)
        limits: list[Fraction | None] = self.said_of(histogram.column).stated_limits(histogram)
        return limits

    def planning_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.joint:
            return self.odds_limits(histogram)
        limits: list[Fraction | None] = self.said_of(histogram.column).planning_limits(histogram)
        return limits

    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        if not self.joint:
            return Fraction(self.said_of(column).common_limit(column, values))
        asked = self.histograms.values()  # the smallest limit of any of them
        limits = [self.said_of(h.column).common_limit(h.column, h.values) for h in asked]
        return root_below(min(limits), self.looks)

    @property
    def limits_follow_shares(self) -> bool:
        return not self.joint and any(promise.limits_follow_shares for promise in self.promises)

    def planning_shares(self, column: str, values: Sequence[Value]) -> list[Fraction] | None:
        shares: list[Fraction] | None = self.said_of(column).planning_shares(column, values)
        return shares

    def kept_against(self, reader: Reader | None) -> Self:
        return replace(self, promises=tuple(p.kept_against(reader) for p in self.promises))


def jointly(promise: Guarantee, histograms: Mapping[str, Histogram]) -> Guarantee:
    """The promise for what these sensitive columns tell together."""
    if isinstance(promise, OddsGuarantee):
        odds = promise if isinstance(promise, AllOdds) else AllOdds((promise,))
        return replace(odds, histograms=histograms, joint=True)
    if not isinstance(promise, CeilingGuarantee):
        raise UsageError(
            f"'{promise}' is kept for each sensitive column by itself. For what they tell "
            "together use a promise about odds or ceilings, such as rho-privacy or l-diversity."
        )
    if promise.names_values:
        raise UsageError(
            f"'{promise}' names values or columns, so it says nothing of combinations. "
            "Leave --joint out, or promise it without names."
        )
    return AllCeilings((promise,), joint=True)


def conjunction(promises: Sequence[Guarantee], columns: Sequence[str] = ()) -> Guarantee:
    """One promise for all columns, or one for each of `columns`; `UsageError` with the reason where
    no mechanism keeps them together.

    >>> from sfumato.guarantees import LDiversity, RhoPrivacy
    >>> conjunction([LDiversity(5)])
    LDiversity(l=5, open=None)
    >>> conjunction([LDiversity(5), RhoPrivacy("0.1", "0.3")], ["ill", "job"])
    Traceback (most recent call last):
        ...
    sfumato.errors.UsageError: 'ill: l-diversity(5) and job: rho-privacy(0.1, 0.3)' cannot be ...
    """
    if not any(columns):
        columns = ()
    if len(promises) > 1 and len({column for column in columns if column}) < len(promises):
        raise UsageError(
            f"'{text_of(promises, columns)}' says more than one thing about a column. A column has "
            "one promise since 0.4 (releases with several are for sfumato 0.3): keep the one that "
            "matters; limits of several kinds, value by value, are f-privacy(limits=...) or "
            "fine-rho-privacy(limits=...)."
        )
    if not columns:
        return promises[0]
    ceilings = [promise for promise in promises if isinstance(promise, CeilingGuarantee)]
    if len(ceilings) == len(promises):
        return AllCeilings(tuple(ceilings), tuple(columns))
    odds = [promise for promise in promises if isinstance(promise, OddsGuarantee)]
    if len(odds) == len(promises):
        return AllOdds(tuple(odds), tuple(columns))
    # of small sums, or of reconstruction privacy, a release keeps one for all columns
    alike = len({type(promise) for promise in promises}) == 1
    strictest = max(promises, key=lambda each: each.size if isinstance(each, SmallSum) else 0)
    nearest = [each if isinstance(each, CeilingGuarantee) else DEFAULT_PROMISE for each in promises]
    raise UsageError(
        f"'{text_of(promises, columns)}' cannot be kept by one release. One shows values in groups "
        "as they are (ceilings: l-diversity, beta-likeness, f-privacy), or draws them anew (limits "
        "on odds: rho-privacy, fine-rho-privacy), or exchanges them (small-sum), or samples people "
        "(reconstruction-privacy). Nearest that works: "
        f"'{strictest if alike else text_of(nearest, columns)}'."
    )


def text_of(promises: Sequence[object], columns: Sequence[str] = ()) -> str:
    """Several promises as they are written, each with its column, if it has one.

    >>> text_of(["l-diversity(3)", "l-diversity(2)"], ["ill", "my job"])
    "ill: l-diversity(3) and 'my job': l-diversity(2)"
    """
    named = columns or [""] * len(promises)
    return AND.join(about(column, str(one)) for column, one in zip(named, promises, strict=True))
