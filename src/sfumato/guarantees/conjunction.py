"""Promises taken together: several for one release, for all sensitive columns, for all of a
person's rows.

Which promises one release can keep together follows from what each of them speaks of:

- ceilings for groups of people: the smallest ceiling of each value keeps them all;
- limits on odds: the smallest limit of each value keeps them all;
- ceilings, or limits on odds, of one column each: every column has its own.

No mechanism here keeps another pair; `conjunction` says why.
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
    """What is said of several promises at once. A mixin: `promises` is a field beside it.

    `columns` says of each the sensitive column that it is about, '' for all; () is all for all.
    """

    promises: tuple[Guarantee, ...]
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return text_of(self.promises, self.columns)

    def said_of(self, column: str) -> list[Any]:
        """The promises about a column."""
        if not self.columns:
            return list(self.promises)
        pairs = zip(self.columns, self.promises, strict=True)
        if promises := [one for named, one in pairs if named in ("", column)]:
            return promises
        raise UsageError(
            f"'{self}' promises nothing about the sensitive column {column!r}. Promise something "
            f"about it ('{about(column, str(self.promises[0]))}'), or about all: without a column."
        )

    def stated(self) -> str | dict[str, str]:
        if not self.columns:
            return str(self)
        return {
            column: AND.join(map(str, self.said_of(column)))
            for column in dict.fromkeys(self.columns)
        }

    def for_columns(self, columns: Sequence[str], unpublished: Sequence[str] = ()) -> Guarantee:
        if not self.columns:
            return self
        known = (*columns, *unpublished)
        if strangers := [name for name in self.columns if name and name not in known]:
            raise UsageError(
                f"'{self}' promises something about {list_some(strangers)}. Sensitive columns: "
                f"{list_some(columns)}."
            )
        by_column = {column: self.said_of(column) for column in columns}
        first, *others = by_column.values()
        if all(promises == first for promises in others):
            return conjunction(first)
        pairs = [(column, one) for column, promises in by_column.items() for one in promises]
        return conjunction([one for _, one in pairs], [column for column, _ in pairs])

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return _smallest([one.ceilings(histogram) for one in self.said_of(histogram.column)])

    def require_feasible(self, histogram: Histogram) -> None:
        for one in self.said_of(histogram.column):
            try:
                one.require_feasible(histogram)
            except InfeasibleGuarantee as error:
                if error.nearest is None:
                    raise
                kept = [error.nearest if each is one else each for each in self.promises]
                raise error.with_nearest(text_of(kept, self.columns)) from None

    def statement(self, histogram: Histogram) -> str:
        return " ".join(one.statement(histogram) for one in self.said_of(histogram.column))

    def formula(self) -> str:
        columns = self.columns or [""] * len(self.promises)
        pairs = zip(columns, self.promises, strict=True)
        return "\nand\n".join(about(column, one.formula()) for column, one in pairs)

    def against(self) -> Reader:
        readers = (promise.against() for promise in self.promises)
        return min(readers, key=lambda reader: reader.strength)

    def unprotected(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(gap for one in self.promises for gap in one.unprotected()))


@dataclass(frozen=True)
class AllCeilings(All, CeilingGuarantee):
    """Promises about ceilings, all of them: each value has its smallest.

    Where they are `joint`, they hold for the combinations of all columns too. In buckets a person
    is anybody who stands there, so the chance of a combination is its share in the bucket: that
    share has the ceiling that the promise gives to a value as common.

    >>> import numpy as np
    >>> from sfumato.guarantees import BetaLikeness, LDiversity
    >>> both = AllCeilings((LDiversity(2), BetaLikeness(1)))
    >>> both.ceilings(Histogram("s", ("a", "b"), np.array([1, 4])))
    [Fraction(2, 5), Fraction(1, 2)]
    >>> str(both)
    'l-diversity(2) and beta-likeness(1)'
    """

    promises: tuple[CeilingGuarantee, ...]
    columns: tuple[str, ...] = ()
    joint: bool = False

    name: ClassVar[str] = "all-ceilings"

    @property
    def names_values(self) -> bool:
        return bool(self.columns) or any(promise.names_values for promise in self.promises)

    def open_codes(self, histogram: Histogram) -> list[int]:
        promises = self.said_of(histogram.column)
        return sorted(set.intersection(*(set(one.open_codes(histogram)) for one in promises)))


@dataclass(frozen=True)
class AllOdds(All, OddsGuarantee):
    """Promises about odds, all of them: each value has its smallest limit.

    They may be kept for people of whom at most `rows_per_person` rows are published, drawn
    independently. So what is shown of all of them, y, has
    Pr(y | x₁ … xₖ) / Pr(y | x'₁ … x'ₖ) = Π P[xᵢ, yᵢ] / P[x'ᵢ, yᵢ] ≤ gᵏ, with the operator's
    amplification g, and the odds of anything about these rows rise by gᵏ at most, whatever a reader
    knew of how they hang together. One limit serves for all values: with a limit of its own for
    each, another row, drawn under a looser one, tells about this one by such a link. Nor may equal
    values of a person share one draw: rows that agree would then show that their values do. Where
    they are `joint`, they speak of what all columns tell together: draws for two columns are as
    independent as those for two rows.

    `holders` are then, by column, the people who have each value in some row.

    >>> from sfumato.guarantees import RhoPrivacy
    >>> both = AllOdds((RhoPrivacy("1/13", "1/6"), RhoPrivacy("1/4", "2/5")))
    >>> str(both), both.common_limit("s", "abc")
    ('rho-privacy(1/13, 1/6) and rho-privacy(0.25, 0.4)', Fraction(2, 1))
    >>> round(float(replace(both, rows_per_person=2).common_limit("s", "abc")), 6)  # the root of 2
    1.414214
    """

    promises: tuple[OddsGuarantee, ...]
    columns: tuple[str, ...] = ()
    holders: Mapping[str, Histogram] = field(default_factory=dict, compare=False)
    rows_per_person: int = 1
    joint: bool = False

    name: ClassVar[str] = "all-odds"

    @property
    def looks(self) -> int:
        return self.rows_per_person * (len(self.holders) if self.joint else 1)

    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.looks > 1:
            return [self.common_limit(histogram.column, histogram.values)] * len(histogram.values)
        return _smallest([p.odds_limits(histogram) for p in self.said_of(histogram.column)])

    def planning_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.looks > 1:
            return self.odds_limits(histogram)
        return _smallest([p.planning_limits(histogram) for p in self.said_of(histogram.column)])

    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        asked = {column: values}
        if self.joint:  # the smallest limit of any of them
            asked = {name: histogram.values for name, histogram in self.holders.items()}
        limits = [p.common_limit(*pair) for pair in asked.items() for p in self.said_of(pair[0])]
        return root_below(min(limits), self.looks) if self.looks > 1 else min(limits)

    def stated_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.looks > 1:
            return super().stated_limits(histogram)
        return _smallest([p.stated_limits(histogram) for p in self.said_of(histogram.column)])

    @property
    def limits_follow_shares(self) -> bool:
        return self.looks == 1 and any(promise.limits_follow_shares for promise in self.promises)

    def planning_shares(self, column: str, values: Sequence[Value]) -> list[Fraction] | None:
        # where one member looks at counts, even if only to see whom it covers, so does the plan
        first, *others = (
            promise.planning_shares(column, values) for promise in self.said_of(column)
        )
        return None if any(shares is None for shares in others) else first

    def planning_weights(self, column: str, values: Sequence[Value]) -> list[Fraction | None]:
        stated = [promise.planning_weights(column, values) for promise in self.said_of(column)]
        return [
            next((w for w in weights if w is not None), None)
            for weights in zip(*stated, strict=True)
        ]

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return super().ceilings(self.holders.get(histogram.column, histogram))

    def require_feasible(self, histogram: Histogram) -> None:
        super().require_feasible(self.holders.get(histogram.column, histogram))

    def kept_against(self, reader: Reader | None) -> Self:
        return replace(self, promises=tuple(p.kept_against(reader) for p in self.promises))


def jointly(promise: Guarantee, histograms: Mapping[str, Histogram]) -> Guarantee:
    """The promise for what these sensitive columns tell together."""
    if isinstance(promise, OddsGuarantee):
        odds = promise if isinstance(promise, AllOdds) else AllOdds((promise,))
        return replace(odds, holders=odds.holders or histograms, joint=True)
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
    ceilings = promise if isinstance(promise, AllCeilings) else AllCeilings((promise,))
    return replace(ceilings, joint=True)


def for_rows(promise: OddsGuarantee, holders: Mapping[str, Histogram], rows: int) -> AllOdds:
    """The promise for people with so many rows each, of whom `holders` have each value in some."""
    odds = promise if isinstance(promise, AllOdds) else AllOdds((promise,))
    return replace(odds, holders=holders, rows_per_person=rows)


def conjunction(promises: Sequence[Guarantee], columns: Sequence[str] = ()) -> Guarantee:
    """One promise that holds where all of these do, each about one of `columns` or about all;
    `UsageError` with the reason where no mechanism keeps them together.

    >>> from sfumato.guarantees import LDiversity, RhoPrivacy
    >>> conjunction([LDiversity(5)])
    LDiversity(l=5, open=None)
    >>> conjunction([LDiversity(5), RhoPrivacy("0.1", "0.3")])
    Traceback (most recent call last):
        ...
    sfumato.errors.UsageError: 'l-diversity(5) and rho-privacy(0.1, 0.3)' cannot be kept by one ...
    """
    of = tuple(columns) if any(columns) else ()
    one, *others = promises
    if not others and not of:
        return one
    ceilings = [promise for promise in promises if isinstance(promise, CeilingGuarantee)]
    if len(ceilings) == len(promises):
        return AllCeilings(tuple(ceilings), of)
    odds = [promise for promise in promises if isinstance(promise, OddsGuarantee)]
    if len(odds) == len(promises):
        return AllOdds(tuple(odds), of)
    # of small sums, or of reconstruction privacy, a release keeps one for all columns
    alike = len({type(promise) for promise in promises}) == 1
    strictest = max(promises, key=lambda each: each.size if isinstance(each, SmallSum) else 0)
    nearest = [each if isinstance(each, CeilingGuarantee) else DEFAULT_PROMISE for each in promises]
    raise UsageError(
        f"'{text_of(promises, of)}' cannot be kept by one release. One shows values in groups as "
        "they are (ceilings: l-diversity, beta-likeness, f-privacy), or draws them anew (limits on "
        "odds: rho-privacy, fine-rho-privacy), or exchanges them (small-sum), or samples people "
        "(reconstruction-privacy). Nearest that works: "
        f"'{strictest if alike else text_of(nearest, of)}'."
    )


def text_of(promises: Sequence[object], columns: Sequence[str] = ()) -> str:
    """Several promises as they are written, each with its column, if it has one.

    >>> text_of(["l-diversity(3)", "l-diversity(2)"], ["ill", ""])
    'ill: l-diversity(3) and l-diversity(2)'
    """
    named = columns or [""] * len(promises)
    return AND.join(about(column, str(one)) for column, one in zip(named, promises, strict=True))


def _smallest(limits: Sequence[Sequence[Any]]) -> list[Any]:
    """The smallest limit of each value; None where nothing limits it."""
    stated = (
        [one for one in of_value if one is not None] for of_value in zip(*limits, strict=True)
    )
    return [min(of_value, default=None) for of_value in stated]
