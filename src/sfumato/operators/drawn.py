"""Estimates where every record was drawn by itself: uniform, fine-grain, parts, decoys, samples.

With z = Σ_x W[y, x]·h(x) what a record that shows y adds, T̂ = Σ e·z is unbiased, and the
covariance of T̂_i and T̂_j is estimated without bias by
Σ e_i·e_j·(z_i·z_j − Σ_x W[y, x]·h_i(x)·h_j(x)) (methods, section 1). Sums over the records come by
class and symbol, so both are sums over lines.

Where groups were sampled and copied back to their size, the noise of a draw counts as often as it
was copied. The sample itself varies too; by less than independent draws from the group would, whose
variance is at most Σ copies·Σ_x W[y, x]·h(x)². And few draws can miss a value altogether, so that
two unseen draws are added (Agresti and Coull).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import (
    Estimated,
    Forms,
    Moments,
    Statistic,
    Totals,
    sum_by,
)
from sfumato.operators.intervals import ByTruth, ratio_interval, score_interval

Gradient = Sequence[FloatArray | float]


class DrawnEstimated(Estimated):
    """Sums over lines: what `Structured` and `Joint` have in common."""

    moments: Moments
    largest: float  # weight of all, without its sign

    @abstractmethod
    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        """Σ sums·z by pair."""

    @abstractmethod
    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        """Σ noise·z_i·z_j + truth·Σ_x W[y, x]·h_i(x)·h_j(x) by pair; None for truth is −noise."""

    @abstractmethod
    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        """Σ sums over the lines that can have a value that is there, by pair."""

    def floor(self, forms: Forms, sums: FloatArray, each: Statistic) -> FloatArray | None:
        """The least variance that any table of people allows an indicator, by pair."""
        return None

    def law(
        self, forms: Forms, statistics: Sequence[Statistic], i: int, j: int, plain: FloatArray
    ) -> FloatArray:
        """The covariance by row, where the operator knows more than that of independent draws."""
        return plain

    def steepness(self, forms: Forms, sums: FloatArray, each: Statistic) -> FloatArray | None:
        """By pair: Σ sums times how much more a record inside adds to the variance than outside."""
        return None

    def by_truth(
        self, forms: Forms, each: Statistic, variance: FloatArray, least: FloatArray | None
    ) -> ByTruth | None:
        """How the variance of an indicator's sum depends on the truth, by row."""
        total, square = (self.moments.sums[(each.weight,) * many] for many in (1, 2))
        scale = each.scale
        if scale is None or self.moments.copies is not None or (total < 0).any():
            return None
        steep = self.steepness(forms, square, each)
        if steep is None:
            return None
        by_pair = scale[forms.profile[forms.pair_class]]
        counted = forms.by_row(by_pair * self.counted(forms, total, each.counted))
        added = forms.by_row(by_pair**2 * steep)
        slope = np.divide(added, counted, out=np.zeros(forms.rows), where=counted > 0)
        return ByTruth(variance, slope, np.zeros(forms.rows) if least is None else least)

    def reached(self, forms: Forms) -> BoolArray:
        ones = np.ones(len(self.moments.of))
        return np.asarray(self.counted(forms, ones, forms.cells >= 0) > 0, np.bool_)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return DrawnTotals(self, forms, statistics)


class DrawnTotals(Totals):
    """Estimates by row; covariances are computed for the combinations that are asked for."""

    def __init__(
        self, estimated: DrawnEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self._moments = estimated.moments
        sums = self._moments.sums
        self.values = np.stack(
            [
                forms.by_row(estimated.linear(forms, sums[(each.weight,)], each.values))
                for each in statistics
            ]
        )
        self.present = np.stack([self._count(each) > 0 for each in statistics])

    def _count(self, each: Statistic, weights: FloatArray | float = 1.0) -> FloatArray:
        sums = self._moments.sums[(each.number,)] * weights
        return self._forms.by_row(self._estimated.counted(self._forms, sums, each.there))

    def variance(self, gradient: Gradient) -> FloatArray:
        whole, floor = self._estimate(gradient), self._floor(gradient)
        return whole if floor is None else np.maximum(whole, floor)

    def _estimate(self, gradient: Gradient) -> FloatArray:
        """The unbiased estimate of the variance."""
        whole: FloatArray = np.zeros(self._forms.rows)
        for i, slope in enumerate(gradient):
            for j in range(i + 1):
                twice = 1.0 if i == j else 2.0
                whole = whole + twice * slope * gradient[j] * self._covariance(i, j)
        return whole

    def interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        """Every truth under which the estimate of one sum is likely; of several, as many errors."""
        law = self._by_truth() if len(self._statistics) == 1 else None
        if law is None:
            return super().interval(value, stderr, quantile, gradient)
        ends = [gradient[0] * end for end in score_interval(law, quantile)]
        return value + np.fmin(*ends), value + np.fmax(*ends)

    def noise_at_ends(self, quantile: float, gradient: Gradient) -> tuple[FloatArray, FloatArray]:
        law = self._by_truth() if len(self._statistics) == 1 else None
        if law is None:
            return super().noise_at_ends(quantile, gradient)
        ends = [gradient[0] * end / quantile for end in score_interval(law, quantile)]
        return -np.fmin(*ends), np.fmax(*ends)

    def _by_truth(self) -> ByTruth | None:
        (each,) = self._statistics
        return self._estimated.by_truth(
            self._forms, each, self._estimate([1.0]), self._floor([1.0])
        )

    def ratio_interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        """By Fieller, from the estimated variance and from the least, whichever reaches further.

        A quotient of other sums than those of an average has no known range: as many errors.
        """
        first, second = self._statistics
        if second.weight != first.number or not np.array_equal(first.there, second.there):
            return self.interval(value, stderr, quantile, gradient)
        possible = self._possible()
        possible = np.fmin(possible[0], value), np.fmax(possible[1], value)
        low, high = value, value
        for of in (self._estimate, self._floor):
            top, bottom, both = of([1.0, 0.0]), of([0.0, 1.0]), of([1.0, 1.0])
            if top is None or bottom is None or both is None:
                continue
            covariance = top, (both - top - bottom) / 2, bottom
            found = ratio_interval(self.values[0], self.values[1], covariance, quantile, possible)
            low, high = np.fmin(low, found[0]), np.fmax(high, found[1])
        # an exact answer ends where it is, not a rounding beside it
        return np.where(stderr == 0, value, low), np.where(stderr == 0, value, high)

    def _possible(self) -> tuple[FloatArray, FloatArray]:
        """The ends of what e·h of one record can be, by row.

        e is within mean ± √((n−1)·variance) of the records that show the same. Those of a pool
        are taken together, so that a quotient and its CASE form end alike.
        """
        forms, moments, top = self._forms, self._moments, self._statistics[0]
        pool = np.arange(moments.classes) if moments.pool is None else moments.pool
        h = top.values.reshape(len(top.values), math.prod(top.values.shape[1:]))
        there = top.there.reshape(h.shape)
        adds = np.asarray(there.any(axis=1), np.bool_)
        scale = np.ones(len(h)) if top.scale is None else top.scale
        profile = forms.profile[moments.of]
        same = pool[moments.of]
        for each in moments.shown:
            _, same = np.unique(same * (int(each.max(initial=0)) + 1) + each, return_inverse=True)
        n, total, square = (
            sum_by(same, np.where(adds[profile], sums, 0.0), len(same))[same]
            for sums in (
                moments.sums[(top.number,)],
                scale[profile] * moments.sums[(top.weight,)],
                scale[profile] ** 2 * moments.sums[(top.weight, top.weight)],
            )
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / n
            reach = np.sqrt(np.maximum((n - 1) * (square / n - mean * mean), 0.0))
        pools = int(pool.max(initial=-1)) + 1
        ends = np.full((2, pools), np.nan)
        np.fmin.at(ends[0], pool[moments.of], mean - reach)
        np.fmax.at(ends[1], pool[moments.of], mean + reach)
        if top.scale is None:
            every = ends[:, None] * np.array([h[there].min(), h[there].max()])[None, :, None]
            ends = np.array([every.min(axis=(0, 1)), every.max(axis=(0, 1))])
        found = np.full((2, forms.rows), np.nan)
        kept = forms.row >= 0
        of_row = pool[forms.pair_class[kept]]
        np.fmin.at(found[0], forms.row[kept], ends[0][of_row])
        np.fmax.at(found[1], forms.row[kept], ends[1][of_row])
        return found[0], found[1]

    def _covariance(self, i: int, j: int) -> FloatArray:
        first, second = self._statistics[i], self._statistics[j]
        sums = self._moments.sums[(first.weight, second.weight)]
        noise, truth = sums, None
        if self._moments.copies is not None:
            noise = sums * self._moments.copies
            truth = np.where(np.asarray(self._moments.sampled), 0.0, -noise)
        plain = self._forms.by_row(
            self._estimated.quadratic(self._forms, noise, truth, first.values, second.values)
        )
        if i == j and self._moments.copies is not None and first.is_indicator:
            plain = plain + self._unseen(first)
        return self._estimated.law(self._forms, self._statistics, i, j, plain)

    def _unseen(self, each: Statistic) -> FloatArray:
        """What two draws that were not seen would add, each copied as often as the mean record.

        2w²·(s/n)²·(q/s), which fades out where nothing was copied.
        """
        assert self._moments.copies is not None
        squares = self._moments.sums[(each.weight, each.weight)] * self._moments.copies
        n, s = self._count(each), self._count(each, self._moments.copies)
        q = self._forms.by_row(self._estimated.counted(self._forms, squares, each.there))
        with np.errstate(divide="ignore", invalid="ignore"):
            unseen = 2 * self._estimated.largest**2 * s * q / (n * n) * (1 - n / s)
        return np.where(n > 0, unseen, 0.0)

    def _floor(self, gradient: Gradient) -> FloatArray | None:
        """Sums of one indicator: the least variance, whatever people there are."""
        first = self._statistics[0]
        scales = [each.scale for each in self._statistics]
        if not all(np.array_equal(each.counted, first.counted) for each in self._statistics):
            return None
        profile = self._forms.profile[self._forms.pair_class]
        whole: FloatArray = np.zeros(self._forms.rows)
        for i, slope in enumerate(gradient):
            for j in range(i + 1):
                one, other = scales[i], scales[j]
                if one is None or other is None:
                    return None
                weights = (self._statistics[i].weight, self._statistics[j].weight)
                least = self._estimated.floor(self._forms, self._moments.sums[weights], first)
                if least is None:
                    return None
                by_row = self._forms.by_row((one * other)[profile] * least)
                whole = whole + (1.0 if i == j else 2.0) * slope * gradient[j] * by_row
        return whole
