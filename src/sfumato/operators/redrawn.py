"""Counts of values that were drawn anew from the table's own shares: what they still tell.

Nothing is known of who has a value but how many have it, K, and that only up to the draws: of N
records K̂ show it, K̂ ~ Binomial(N, K/N). Of the n records of a condition, between n − (N − K) and K
have it, whoever they are. The interval is that, for every K that is likely. Sums are not bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import summed
from sfumato.operators.drawn import DrawnTotals, Gradient
from sfumato.operators.estimator import Estimator, Forms, Moments, Statistic, Totals
from sfumato.operators.intervals import ByTruth, score_interval
from sfumato.operators.inverse import Inverse
from sfumato.operators.structured import Structured


class RedrawnEstimator(Estimator):
    """For one column; `shown` has how many records of the release show each value."""

    def __init__(self, shown: FloatArray) -> None:
        self._shown = shown

    def estimate(self, moments: Moments) -> RedrawnEstimated:
        return RedrawnEstimated(moments, self._shown)


class RedrawnEstimated(Structured):
    """A record counts as what it shows."""

    def __init__(self, moments: Moments, shown: FloatArray) -> None:
        super().__init__(moments, Inverse.nothing_done(len(shown)))
        self.shown = shown

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return RedrawnTotals(self, forms, statistics)


class RedrawnTotals(DrawnTotals):
    """Counts with what is possible; other sums without an interval."""

    _estimated: RedrawnEstimated

    def interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        first = self._statistics[0]
        if len(self._statistics) > 1 or first.weight != first.number or not first.is_indicator:
            unknown = np.full(self._forms.rows, np.nan)
            return unknown, unknown
        ends = [value + gradient[0] * (end - self.values[0]) for end in self._ends(first, quantile)]
        return np.fmin(np.fmin(*ends), value), np.fmax(np.fmax(*ends), value)

    def ratio_interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        return self.interval(value, stderr, quantile, gradient)

    def _ends(self, count: Statistic, quantile: float) -> tuple[FloatArray, FloatArray]:
        forms, shown = self._forms, self._estimated.shown
        every = max(float(shown.sum()), 1.0)
        held = summed(forms, np.broadcast_to(shown, (len(forms.profile), len(shown))), count.values)
        law = ByTruth(held * (1 - held / every), 1 - 2 * held / every, np.zeros(len(held)))
        fewest, most = (held + end for end in score_interval(law, quantile))
        records = self._moments.total(count.number)[forms.pair_class]
        low = np.maximum(records - (every - np.maximum(fewest, 0.0)), 0.0)
        return forms.by_row(low), forms.by_row(np.minimum(records, np.minimum(most, every)))
