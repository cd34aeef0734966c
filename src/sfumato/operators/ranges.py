"""Estimates from ranges and sets: shares of records, and how far they may be off.

A record counts with the share w of its people that satisfy the conditions (`matched`), columns
multiplied. Whether its value's owner is among them is one draw: w(1 − w). That columns hang
together, and people not spread as the marginals say, no record tells: the standard error adds the
distance from the answer that takes what is shown as evenly filled, which is a model's guess. The
interval does not guess: it ends at what is possible. Whoever has the value may be any of the people
that a record spans, and where quasi columns and values hang together it is not any of them alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.operators.base import FloatArray
from sfumato.operators.drawn import DrawnTotals
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Statistic, Totals
from sfumato.operators.inverse import Inverse
from sfumato.operators.structured import Structured

_LEAST = 0.25  # variance of a count that is not certain


@dataclass(frozen=True, eq=False)
class ShareSums:
    """By line, for one weight: Σ w(1 − w), the evenly filled answer, and what is possible."""

    drawn: FloatArray
    even: FloatArray
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


class RangeTotals(DrawnTotals):
    """Error bars as the module says; counts end at what is possible."""

    _estimated: RangeEstimated

    def _sums(self, name: str, each: Statistic, values: FloatArray) -> FloatArray:
        sums = getattr(self._estimated.shares[each.weight], name)
        return self._forms.by_row(self._estimated.linear(self._forms, sums, values))

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        drawn, apart = np.zeros(self._forms.rows), np.zeros(self._forms.rows)
        open_ = np.zeros(self._forms.rows, np.bool_)
        for slope, each, value in zip(gradient, self._statistics, self.values, strict=True):
            at = np.abs(np.broadcast_to(slope, (self._forms.rows,)))
            # draws of one record go into all sums alike: at the worst they add up
            drawn += at * np.sqrt(self._sums("drawn", each, each.values**2))
            apart += slope * (value - self._sums("even", each, each.values))
            there = each.there.astype(np.float64)
            open_ |= self._sums("possible", each, there) > self._sums("certain", each, there)
        return np.where(open_, np.maximum(drawn**2, _LEAST) + apart**2, 0.0)

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        first = self._statistics[0]
        if len(self._statistics) > 1 or (first.values < 0).any():
            return super().interval(value, stderr, quantile, gradient)
        low, high = (self._sums(name, first, first.values) for name in ("certain", "possible"))
        return np.minimum(low, value), np.maximum(high, value)
