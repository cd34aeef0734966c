"""Estimates from ranges and sets: shares of records, and how far they may be off.

A record counts with the share w of its people that satisfy the conditions (`matched`), columns
multiplied. Whether its value's owner is among them is one draw: w(1 − w). The share itself may be
misread. A reading that is off by τ in log odds is off by τ·w(1 − w) in every record, so a count of
D = Σ w(1 − w) has the variance D + τ²D². There are two reasons to be off (`misreading`):

*People are not spread as the marginals say.* The papers' reading, for which what is shown is evenly
filled, errs to the other side; the truth is taken to lie anywhere between the two, so its mean
square distance from ours is a third of theirs. Every column is misread by itself: squares add up.
What of it is the same for all values moves their counts to one side.

*Values hang on the conditions inside a record.* Between records they do by as much as the
regression of the value on the share says, and inside they are taken to do as much, but by one unit
of log odds at most. Where a record takes one of its people out of every bucket of values, every
record has its bucket's share of every value, whatever its people are: what makes up most of a
bucket cannot be seen to hang on anything. As much as is hidden so is taken as one unit.

That is a guess, so nothing about single answers is certain but their ends: rows that satisfy a
condition for certain, and those that may.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
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
_TOGETHER = 0.25  # correlation of what values that are asked for together hang on the conditions


@dataclass(frozen=True, eq=False)
class Reading:
    """By record, for a condition on one quasi column: how much of what it shows satisfies it.

    `even` is the share if it is evenly filled, `people` that of the people that it spans.
    """

    even: FloatArray
    people: FloatArray


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

    def summed(self, by_record: FloatArray) -> FloatArray:
        return sum_by(self.codes, by_record, self.values)


def misreading(readings: Sequence[Reading], shown: Shown) -> Misreading:
    """How far the shares that the readings multiply to may be off.

    >>> shown = Shown(np.array([0, 0, 1, 1]), values=2, spans=4, bucketed=False)
    >>> share = np.full(4, 0.5)
    >>> misreading([Reading(share, share)], shown)
    Misreading(common=0.0, own=0.0)
    >>> round(misreading([Reading(share + 0.1, share)], shown).common, 3)
    0.231
    """
    people = multiplied([each.people for each in readings], len(shown.codes))
    unsure = shown.summed(people * (1 - people))
    whole, scale = float(unsure.sum()), float((unsure**2).sum())
    if scale <= 0:
        return Misreading(0.0, 0.0)
    common = own = 0.0
    for place, each in enumerate(readings):
        others = [other.people for k, other in enumerate(readings) if k != place]
        apart = shown.summed((each.even - each.people) * multiplied(others, len(people)))
        level = float(apart.sum()) / whole
        common += level**2
        own += float(((apart - level * unsure) ** 2).sum()) / scale
    hangs = _hanging(people, unsure, shown)
    return Misreading(float(np.sqrt(common / 3)), float(np.sqrt(own / 3 + hangs)))


def _hanging(people: FloatArray, unsure: FloatArray, shown: Shown) -> float:
    """τ² of values that hang on the conditions inside records."""
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


def multiplied(shares: Sequence[FloatArray], number: int) -> FloatArray:
    """The product of shares, by record; 1 where there are none."""
    found = np.ones(number)
    for each in shares:
        found = found * each
    return found


@dataclass(frozen=True, eq=False)
class ShareSums:
    """By line, for one weight: Σ w(1 − w), how far that may be misread, and what is possible."""

    drawn: FloatArray
    common: FloatArray
    own: FloatArray
    certain: FloatArray
    possible: FloatArray


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
        misread = common**2 + (1 - _TOGETHER) * own + _TOGETHER * alike**2
        return np.where(room > 0, np.maximum(drawn**2, _LEAST) + misread, 0.0)

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
        return np.fmax(low, np.fmin(certain, value)), np.fmin(high, np.fmax(possible, value))

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
    """Of all records, whatever value they show: what values hang on cancels out."""

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
        self.shares = [replace(each, own=np.zeros_like(each.own)) for each in found]
        self.h = self.there = [np.ones(1) for _ in weights]

    def _by_row(self, lines: FloatArray, values: FloatArray) -> FloatArray:
        return self._forms.by_row(self._moments.by_class(lines)[self._forms.pair_class])
