"""Estimates from ranges and sets: shares of records, and how far they may be off.

A record counts with the share w of its people that satisfy the conditions (`matched`), columns
joined by `conjunction`. Whether its value's owner is among them is one draw: w(1 − w). The share
itself may be misread. A reading that is off by τ in log odds is off by τ·w(1 − w) in every record,
so a count of D = Σ w(1 − w) has the variance D + τ²D². There are three reasons to be off
(`misreading`):

*People are not spread as they are read.* Where it is told how many people a column has of each
value, they are all there, and only cells that a condition cuts are open. Where it is not, the
papers' reading, for which what is shown is evenly filled, errs to the other side; the truth is
taken to lie anywhere between the two, so its mean square distance from ours is a third of theirs.
Every column is misread by itself: squares add up.

*Columns hang together inside records* otherwise than between them: `conjunction`. This and the
first move the counts of all values to one side.

*Values hang on the conditions inside a record.* Between records they do by as much as the
regression of the value on the share says, and inside they are taken to do as much, up to a limit
(`_HIDDEN`). Where a record takes one of its people out of every bucket of values, every record has
its bucket's share of every value, whatever its people are: what makes up most of a bucket cannot be
seen to hang on anything. As much as is hidden so is taken to be at the limit. What is so moved
between values cancels out in their sum, and so do the draws of owners: of a count that asks for the
part s of all that is unsure, only 1 − s of either is left.

That is a guess, so nothing about single answers is certain but their ends: rows that satisfy a
condition for certain, and those that may.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.conjunction import conjunction, multiplied, pairs_off
from sfumato.operators.drawn import DrawnTotals
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Exact,
    Forms,
    Moments,
    Statistic,
    Totals,
    sum_by,
)
from sfumato.operators.inverse import Inverse
from sfumato.operators.structured import Structured

_LEAST = 0.25  # variance of a count that is not certain
# both were set on two slices of CENSUS
_TOGETHER = 0.25  # correlation of what values that are asked for together hang on the conditions
_HIDDEN = 0.75  # squared log odds of what values hang on the conditions where it cannot be seen


@dataclass(frozen=True, eq=False)
class Reading:
    """By record, for a condition on one quasi column: how much of what it shows satisfies it.

    `even` is the share if it is evenly filled, `people` that of the people that it spans. Where it
    is told how many people have each value, `cut` is the variance that is left in their number.
    """

    even: FloatArray
    people: FloatArray
    cut: float | None = None


@dataclass(frozen=True)
class Misreading:
    """τ, in log odds: what is the same for all values, and what every value has of its own."""

    common: float
    own: float


@dataclass(frozen=True, eq=False)
class Shown:
    """What the records show beside their quasi columns: codes of one column with `values`."""

    codes: IntArray
    values: int
    spans: int  # people of a record, in the mean
    bucketed: bool  # one out of every bucket of values
    grouped: bool = False  # records of a group show the same

    def summed(self, by_record: FloatArray) -> FloatArray:
        return sum_by(self.codes, by_record, self.values)


def people_of(readings: Sequence[Reading], shown: Shown) -> FloatArray:
    """By record: the share of its people that satisfies all conditions."""
    shares = [each.people for each in readings]
    return conjunction(shares, len(shown.codes), grouped=shown.grouped)


def misreading(readings: Sequence[Reading], people: FloatArray, shown: Shown) -> Misreading:
    """How far the shares `people` that the readings come to may be off.

    >>> shown = Shown(np.array([0, 0, 1, 1]), values=2, spans=4, bucketed=False)
    >>> share = np.full(4, 0.5)
    >>> misreading([Reading(share, share)], share, shown)
    Misreading(common=0.0, own=0.0)
    >>> round(misreading([Reading(share + 0.1, share)], share, shown).common, 3)
    0.231
    """
    unsure = shown.summed(people * (1 - people))
    whole, scale = float(unsure.sum()), float((unsure**2).sum())
    if scale <= 0:
        return Misreading(0.0, 0.0)
    number = len(people)
    common, own = pairs_off([each.people for each in readings], number) / whole**2, 0.0
    for place, each in enumerate(readings):
        others = multiplied([o.people for k, o in enumerate(readings) if k != place], number)
        if each.cut is not None:
            reached = float((each.people * others).sum() / max(float(each.people.sum()), 1.0))
            common += each.cut * (reached / whole) ** 2
            continue
        apart = shown.summed((each.even - each.people) * others)
        level = float(apart.sum()) / whole
        common += level**2 / 3
        own += float(((apart - level * unsure) ** 2).sum()) / scale / 3
    hangs = _HIDDEN * _hanging(people, unsure, shown)
    return Misreading(float(np.sqrt(common)), float(np.sqrt(own + hangs)))


def _hanging(people: FloatArray, unsure: FloatArray, shown: Shown) -> float:
    """τ² of values that hang on the conditions inside records, as a part of the limit."""
    number, mean = len(people), float(people.mean())
    counts = np.bincount(shown.codes, minlength=shown.values)
    taken = np.minimum(shown.spans * counts / number, 1.0) if shown.bucketed else 0.0
    seen = float((unsure**2 * (1 - taken) ** 2).sum())
    hidden = 1 - seen / float((unsure**2).sum())
    # people of a record that are anybody vary by this much, however the record is read
    spread = max(float(people.var()), mean * (1 - mean) / max(shown.spans, 1))
    if seen <= 0 or spread <= 0:
        return hidden
    slope = shown.summed(people - mean) / (number * spread)
    scatter = counts / number * float(people.var()) / (number * spread**2)
    steep = max(float((slope**2 - scatter).sum()), 0.0) * float(unsure.sum()) ** 2 / seen
    return (1 - hidden) * min(steep, 1.0) + hidden


@dataclass(frozen=True, eq=False)
class ShareSums:
    """By line, for one weight: the count, and what its error bar needs.

    `drawn` is Σ w(1 − w), `placed` what of it is left if only the places of people inside records
    are open, `part` the line's part of `drawn` of all lines; then how far the count may be misread,
    and what is possible.
    """

    number: FloatArray
    drawn: FloatArray
    placed: FloatArray
    part: FloatArray
    common: FloatArray
    own: FloatArray
    certain: FloatArray
    possible: FloatArray

    @classmethod
    def of(
        cls,
        readings: Sequence[Reading],
        shown: Shown,
        summed: Callable[[FloatArray], FloatArray],
    ) -> ShareSums:
        """`summed` adds up by line what it is given by record."""
        people, even = people_of(readings, shown), _even(readings, len(shown.codes))
        drawn, off = summed(people * (1 - people)), misreading(readings, people, shown)
        return cls(
            summed(people),
            drawn,
            np.minimum(summed(_placed(readings, len(people))), drawn),
            drawn / max(float(drawn.sum()), 1e-300),
            off.common * drawn,
            off.own * drawn,
            summed((even >= 1).astype(np.float64)),
            summed((even > 0).astype(np.float64)),
        )


def _even(readings: Sequence[Reading], number: int) -> FloatArray:
    return multiplied([each.even for each in readings], number)


def _placed(readings: Sequence[Reading], number: int) -> FloatArray:
    """The variance of a product of columns, less what each told column has of it by itself."""
    product = multiplied([each.people for each in readings], number)
    left = product * (1 - product)
    for place, each in enumerate(readings):
        if each.cut is not None:
            others = multiplied([o.people for k, o in enumerate(readings) if k != place], number)
            left = left - others**2 * each.people * (1 - each.people)
    return np.maximum(left, 0.0)


@dataclass(frozen=True, eq=False)
class RangeEstimator(Estimator):
    """For one column of values that stand as they are; `shares` by weight."""

    values: int
    shares: Mapping[Hashable, ShareSums]

    def estimate(self, moments: Moments) -> Estimated:
        return RangeEstimated(moments, Inverse.nothing_done(self.values), self.shares)


class RangeEstimated(Structured):
    """Records count for the value that they show, with their share."""

    def __init__(
        self, moments: Moments, inverse: Inverse, shares: Mapping[Hashable, ShareSums]
    ) -> None:
        super().__init__(moments, inverse)
        self.shares = shares

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return RangeTotals(self, forms, statistics)


class _Shared(Totals):
    """Sums of shares: error bars as the module says, counts end at what is possible."""

    shares: list[ShareSums]  # by statistic
    h: list[FloatArray]  # by statistic: what a value adds
    there: list[FloatArray]  # by statistic: where a value adds

    @abstractmethod
    def _by_row(self, lines: FloatArray, values: FloatArray) -> FloatArray:
        """Σ lines·h by row."""

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        drawn, room, own, common, alike = (np.zeros(self.values.shape[1]) for _ in range(5))
        for slope, share, h, there in zip(gradient, self.shares, self.h, self.there, strict=True):
            # draws of one record go into all sums alike: at the worst they add up
            drawn = drawn + np.abs(slope) * np.sqrt(self._by_row(share.drawn, h**2))
            room = room + self._by_row(share.possible - share.certain, there)
            common = common + slope * self._by_row(share.common, h)
            alike = alike + slope * self._by_row(share.own, h)
            for other, second, g in zip(gradient, self.shares, self.h, strict=True):
                own = own + slope * other * self._by_row(share.own * second.own, h * g)
        drawn = drawn**2
        if len(self.shares) == 1:  # quotients take out the mean by themselves
            share, left = self.shares[0], self._left()
            placed = gradient[0] ** 2 * self._by_row(share.placed, self.h[0] ** 2)
            drawn = left * drawn + (1 - left) * np.minimum(placed, drawn)
            own, alike = left * own, left * alike
        misread = common**2 + (1 - _TOGETHER) * own + _TOGETHER * alike**2
        return np.where(room > 0, np.maximum(drawn, _LEAST) + misread, 0.0)

    def _left(self) -> FloatArray:
        """The part of what is unsure that the sum does not ask for."""
        asked = self._by_row(self.shares[0].part, self.there[0])
        return np.asarray(np.clip(1 - asked, 0.0, 1.0))

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        low, high = value - quantile * stderr, value + quantile * stderr
        if len(self.shares) > 1 or (self.h[0] < 0).any():
            return low, high
        certain = self._by_row(self.shares[0].certain, self.h[0])
        possible = self._by_row(self.shares[0].possible, self.h[0])
        least, most = np.fmin(certain, value), np.fmax(possible, value)
        # what is certain ends at the count itself, not a rounding of many shares beside it
        low = np.where(stderr == 0, least, np.fmax(low, least))
        return low, np.where(stderr == 0, most, np.fmin(high, most))

    def ratio_interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        return self.interval(value, stderr, quantile, gradient)


class RangeTotals(_Shared, DrawnTotals):
    """Of records by the value that they show."""

    _estimated: RangeEstimated

    def __init__(
        self, estimated: RangeEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        super().__init__(estimated, forms, statistics)
        self.shares = [estimated.shares[each.weight] for each in statistics]
        self.h = [each.values for each in statistics]
        self.there = [each.there.astype(np.float64) for each in statistics]

    def _by_row(self, lines: FloatArray, values: FloatArray) -> FloatArray:
        return self._forms.by_row(self._estimated.linear(self._forms, lines, values))


class SharedCounts(_Shared):
    """Of all records, whatever value they show: owners and what values hang on cancel out."""

    def __init__(
        self,
        weights: Sequence[tuple[Hashable, Hashable]],
        moments: Moments,
        forms: Forms,
        shares: Mapping[Hashable, ShareSums],
    ) -> None:
        exact = Exact.of(weights, moments, forms)
        self.values, self.present = exact.values, exact.present
        self._moments, self._forms = moments, forms
        found = (shares[weight] for weight, _ in weights)
        self.shares = [
            replace(each, drawn=each.placed, own=np.zeros_like(each.own)) for each in found
        ]
        self.h = self.there = [np.ones(1) for _ in weights]

    def _by_row(self, lines: FloatArray, values: FloatArray) -> FloatArray:
        return self._forms.by_row(self._moments.by_class(lines)[self._forms.pair_class])
