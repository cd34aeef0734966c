"""Several promises for one release: `l-diversity(5) and beta-likeness(2)`.

Which promises one release can keep together follows from what each of them speaks of:

- ceilings for groups of people: the smallest ceiling of each value keeps them all;
- limits on odds: the smallest limit of each value keeps them all;
- ceilings, or limits on odds, of one column each: every column has its own;
- small sums beside a ceiling that no count lowers: groups of c different values keep both, where
  1/c is at most that ceiling. Who shares a group follows from a secret permutation, and everybody
  there shows one of its c values, each with the same chance whatever their own is. So to a reader
  who knows no link, each of the c values is a person's own with a chance of 1/c.

No mechanism here keeps another pair; `conjunction` says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Self

from sfumato.columns import Value, list_some
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.guarantees.reconstruction import ReconstructionPrivacy
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

    @property
    def named(self) -> tuple[Guarantee, ...]:
        """All that a manifest names."""
        return self.promises

    def __str__(self) -> str:
        return self._text(self.named)

    def _text(self, promises: Sequence[object]) -> str:
        columns = self.columns or [""] * len(promises)
        return AND.join(about(c, str(one)) for c, one in zip(columns, promises, strict=True))

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

    def for_columns(self, columns: Sequence[str]) -> Guarantee:
        if not self.columns:
            return self
        if strangers := [name for name in self.columns if name and name not in columns]:
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
                kept = [
                    error.nearest if column_promise is one else column_promise
                    for column_promise in self.named
                ]
                raise error.with_nearest(self._text(kept)) from None

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
        return tuple(dict.fromkeys(gap for one in self.named for gap in one.unprotected()))


@dataclass(frozen=True)
class AllCeilings(All, CeilingGuarantee):
    """Promises about ceilings, all of them: each value has its smallest.

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

    name: ClassVar[str] = "all-ceilings"

    @property
    def names_values(self) -> bool:
        return bool(self.columns) or any(promise.names_values for promise in self.promises)

    def own_ceilings(self, histogram: Histogram) -> list[Fraction]:
        return _smallest([one.own_ceilings(histogram) for one in self.said_of(histogram.column)])

    def open_codes(self, histogram: Histogram) -> list[int]:
        promises = self.said_of(histogram.column)
        return sorted(set.intersection(*(set(one.open_codes(histogram)) for one in promises)))


@dataclass(frozen=True)
class AllOdds(All, OddsGuarantee):
    """Promises about odds, all of them: each value has its smallest limit.

    >>> from sfumato.guarantees import RhoPrivacy
    >>> both = AllOdds((RhoPrivacy("1/13", "1/6"), RhoPrivacy("1/4", "2/5")))
    >>> str(both), both.common_limit("s", "abc")
    ('rho-privacy(1/13, 1/6) and rho-privacy(0.25, 0.4)', Fraction(2, 1))
    """

    promises: tuple[OddsGuarantee, ...]
    columns: tuple[str, ...] = ()

    name: ClassVar[str] = "all-odds"

    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        return _smallest_stated([p.odds_limits(histogram) for p in self.said_of(histogram.column)])

    def planning_limits(self, histogram: Histogram) -> list[Fraction | None]:
        return _smallest_stated(
            [p.planning_limits(histogram) for p in self.said_of(histogram.column)]
        )

    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        promises: list[OddsGuarantee] = self.said_of(column)
        return min(promise.common_limit(column, values) for promise in promises)

    @property
    def limits_follow_shares(self) -> bool:
        return any(promise.limits_follow_shares for promise in self.promises)

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

    def kept_against(self, reader: Reader | None) -> Self:
        return replace(self, promises=tuple(p.kept_against(reader) for p in self.promises))


@dataclass(frozen=True)
class SumsUnderCeilings(All, SmallSum):
    """Small sums hidden, and beliefs limited by promises whose ceilings no count lowers.

    >>> from sfumato.guarantees import LDiversity
    >>> both = SumsUnderCeilings.of(SmallSum(3), (LDiversity(5),))
    >>> str(both), both.size
    ('small-sum(groups=3) and l-diversity(5)', 5)
    """

    promises: tuple[Guarantee, ...] = ()

    # the spare records of a further column borrow a group, which then holds a value twice
    several_columns: ClassVar[bool] = False
    limits_belief: ClassVar[bool] = True

    @classmethod
    def of(cls, sums: SmallSum, promises: tuple[Guarantee, ...]) -> Self:
        return cls(sums.groups, sums.error, sums.probability, sums.up_to, promises)

    @property
    def sums(self) -> SmallSum:
        return SmallSum(self.groups, self.error, self.probability, self.up_to)

    @property
    def named(self) -> tuple[Guarantee, ...]:
        return (self.sums, *self.promises)

    @property
    def size(self) -> int:
        lowest = [promise.least_ceiling for promise in self.promises]
        return max(
            [self.sums.size, *(math.ceil(1 / share) for share in lowest if share is not None)]
        )

    def require_feasible(self, histogram: Histogram) -> None:
        for promise in (*self.named, SmallSum(self.size)):
            promise.require_feasible(histogram)

    def statement(self, histogram: Histogram) -> str:
        return f"{SmallSum.statement(self, histogram)} {All.statement(self, histogram)}"

    def formula(self) -> str:
        return f"{SmallSum.formula(self)}\nand\n{All.formula(self)}"


def conjunction(promises: Sequence[Guarantee], columns: Sequence[str] = ()) -> Guarantee:
    """One promise that holds where all of these do, each about one of `columns` or about all;
    `UsageError` with the reason where no mechanism keeps them together.

    >>> from sfumato.guarantees import LDiversity, RhoPrivacy
    >>> conjunction([LDiversity(5)])
    LDiversity(l=5, open=None)
    >>> conjunction([LDiversity(5), RhoPrivacy("0.1", "0.3")])
    Traceback (most recent call last):
        ...
    sfumato.errors.UsageError: 'l-diversity(5)' and 'rho-privacy(0.1, 0.3)' cannot be kept ...
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
    if of:
        raise _by_column(promises, of)
    sums = [promise for promise in promises if isinstance(promise, SmallSum)]
    beside = tuple(promise for promise in promises if promise not in sums)
    if len(sums) == 1 and all(promise.least_ceiling is not None for promise in beside):
        return SumsUnderCeilings.of(sums[0], beside)
    raise _apart(promises)


def _by_column(promises: Sequence[Guarantee], columns: Sequence[str]) -> UsageError:
    """That these columns cannot be published in one way, and by ceilings what comes nearest."""
    sentences = AND.join(map(about, columns, map(str, promises)))
    if len({type(promise) for promise in promises}) == 1:
        largest = max(promises, key=lambda one: one.size if isinstance(one, SmallSum) else 0)
        return UsageError(
            f"'{sentences}': '{largest.name}' is kept for all sensitive columns alike. Write it "
            f"once, without a column: '{largest}'."
        )
    nearest = AND.join(map(about, columns, (promise.as_ceilings() for promise in promises)))
    return UsageError(
        f"'{sentences}' cannot be kept by one release: all sensitive columns are published in "
        "one way, "
        f"in groups (ceilings) or drawn anew (limits on odds). Nearest that works: '{nearest}'."
    )


def _apart(promises: Sequence[Guarantee]) -> UsageError:
    """Why some two of these cannot be kept by one release."""
    for pair in combinations(promises, 2):
        one, other = sorted(pair, key=_place)
        reason = _reason(one, other)
        if reason:
            return UsageError(f"'{one}' and '{other}' cannot be kept by one release: {reason}")
    named = ", ".join(f"'{promise}'" for promise in promises)
    return UsageError(
        f"No mechanism keeps all of these in one release: {named}. Two of them at once may do."
    )


# what a reason looks at first
_ORDER = (ReconstructionPrivacy, SmallSum, CeilingGuarantee, OddsGuarantee)


def _place(promise: Guarantee) -> int:
    kinds = (index for index, kind in enumerate(_ORDER) if isinstance(promise, kind))
    return next(kinds, len(_ORDER))


def _reason(one: Guarantee, other: Guarantee) -> str:
    if isinstance(one, ReconstructionPrivacy):
        return (
            "'reconstruction-privacy' lets everybody estimate how common a value is among people "
            "who share their quasi-identifiers, and how strongly a group was sampled follows "
            "from its "
            "values; so it limits no posterior of a person of that group. Publish under one of "
            "them; what the other measures, `audit` and `attack` show."
        )
    if isinstance(one, SmallSum) and isinstance(other, SmallSum):
        return "both speak of small sums. Promise the one that asks for larger groups."
    if isinstance(one, SmallSum) and isinstance(other, OddsGuarantee):
        return (
            "decoys are drawn from the values of a group, so who knows the others of a group "
            "learns more than any limit on odds allows. Against a reader who knows only how "
            "common each value is, they keep both: write 'rho-privacy(…, reader=shares)'."
        )
    if isinstance(one, SmallSum):
        return (
            "decoys give every value of a group the same chance, and the ceilings of "
            f"'{other.name}' fall with how rare a value is. A ceiling that is the same for all "
            "values, such as l-diversity, can be kept beside small sums."
        )
    if isinstance(one, CeilingGuarantee) and isinstance(other, OddsGuarantee):
        return (
            "ceilings are for groups whose values are listed as they are, limits on odds for "
            "values that are drawn anew, and no mechanism does both."
        )
    return ""


def _smallest(ceilings: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    return [min(of_value) for of_value in zip(*ceilings, strict=True)]


def _smallest_stated(limits: Sequence[Sequence[Fraction | None]]) -> list[Fraction | None]:
    stated = (
        [one for one in of_value if one is not None] for of_value in zip(*limits, strict=True)
    )
    return [min(limit) if limit else None for limit in stated]
