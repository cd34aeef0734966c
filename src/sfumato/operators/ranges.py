"""Estimates from ranges and sets: shares of records, and how far they may be off.

A record counts with the share w of its people that satisfy the conditions (`matched`), columns
multiplied. Whether its value's owner is among them is one draw: w(1 − w). The share itself may be
misread, because columns hang together and people are not spread as the marginals say. A reading
that is off by τ in log odds is off by τ·w(1 − w) in every record, and records with the same value
are off to the same side: a count of D = Σ w(1 − w) has the variance D + τ²D². In a sum over values
one half of τ² is taken as theirs together, to the worst side, the other half as each value's own.

How large τ is, two other readings of the same records tell (`misreading`): the papers', for which
what is shown is evenly filled; and the regression of the value on the share, for which values hang
on the conditions inside a record as they do between records. Each is wrong in a way of its own;
their mean squared distance from ours, over all values, is taken for τ². That is a guess, so nothing
about single answers is certain but their ends: rows that satisfy a condition for certain, and those
that may.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

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


def misreading(people: FloatArray, even: FloatArray, codes: IntArray, values: int) -> float:
    """τ: how far the shares `people` of records with value `codes` may be off, in log odds.

    >>> codes, share = np.array([0, 0, 1, 1]), np.array([0.5, 0.5, 0.5, 0.5])
    >>> misreading(share, share, codes, 2), round(misreading(share, share + 0.1, codes, 2), 3)
    (0.0, 0.283)
    """

    def summed(by_record: FloatArray) -> FloatArray:
        return sum_by(codes, by_record, values)

    unsure = summed(people * (1 - people))
    scale = float((unsure**2).sum())
    if scale <= 0:
        return 0.0
    number, mean, spread = len(people), float(people.mean()), float(people.var())
    apart = float((summed(even - people) ** 2).sum())
    hanging = 0.0
    if spread > 1e-12:
        # of the regression: what values add inside records, less what its slopes scatter
        slope = summed(people - mean) / (number * spread)
        scatter = (np.bincount(codes, minlength=values) / number) / (number * spread)
        hanging = max(float((slope**2 - scatter).sum()), 0.0) * float(unsure.sum()) ** 2
    return float(np.sqrt((apart + hanging) / (2 * scale)))


@dataclass(frozen=True, eq=False)
class ShareSums:
    """By line, for one weight: Σ w(1 − w), how far that may be misread, and what is possible."""

    drawn: FloatArray
    misread: FloatArray
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
        drawn, apart, room = (np.zeros(self.values.shape[1]) for _ in range(3))
        for slope, share, h, there in zip(gradient, self.shares, self.h, self.there, strict=True):
            # draws of one record go into all sums alike: at the worst they add up
            drawn = drawn + np.abs(slope) * np.sqrt(self._by_row(share.drawn, h**2))
            room = room + self._by_row(share.possible - share.certain, there)
            for other, second, g in zip(gradient, self.shares, self.h, strict=True):
                both = self._by_row(share.misread * second.misread, h * g)
                apart = apart + slope * other * both
        misread = apart * (1 + self._values_together()) / 2
        return np.where(room > 0, np.maximum(drawn**2, _LEAST) + misread, 0.0)

    def _values_together(self) -> FloatArray:
        """(Σ D)²/Σ D²: as many times the variance of values misread each to its own side is that
        of values misread to the worst."""
        share, there = self.shares[0], self.there[0]
        square = self._by_row(share.misread**2, there)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(square > 0, self._by_row(share.misread, there) ** 2 / square, 1.0)

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
    """Of all records, whatever value they show."""

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
        self.shares = [shares[weight] for weight, _ in weights]
        self.h = self.there = [np.ones(1) for _ in weights]

    def _by_row(self, lines: FloatArray, values: FloatArray) -> FloatArray:
        return self._forms.by_row(self._moments.by_class(lines)[self._forms.pair_class])
