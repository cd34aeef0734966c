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

from abc import abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import (
    Estimated,
    Forms,
    Moments,
    Statistic,
    Totals,
)
from sfumato.operators.inverse import DenseInverse, Inverse


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

    def floor(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray | None:
        """The least variance that any table of people allows an indicator, by pair."""
        return None

    def law(
        self, forms: Forms, statistics: Sequence[Statistic], i: int, j: int, plain: FloatArray
    ) -> FloatArray:
        """The covariance by row, where the operator knows more than that of independent draws."""
        return plain

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

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        whole: FloatArray = np.zeros(self._forms.rows)
        for i, slope in enumerate(gradient):
            for j in range(i + 1):
                twice = 1.0 if i == j else 2.0
                whole = whole + twice * slope * gradient[j] * self._covariance(i, j)
        floor = self._floor(gradient)
        return whole if floor is None else np.maximum(whole, floor)

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

    def _floor(self, gradient: Sequence[FloatArray | float]) -> FloatArray | None:
        """Sums of one indicator: the least variance, whatever people there are."""
        there = self._statistics[0].there
        if not all(
            each.is_indicator and (each.there is there or np.array_equal(each.there, there))
            for each in self._statistics
        ):
            return None
        whole: FloatArray = np.zeros(self._forms.rows)
        for i, slope in enumerate(gradient):
            for j in range(i + 1):
                weights = (self._statistics[i].weight, self._statistics[j].weight)
                least = self._estimated.floor(self._forms, self._moments.sums[weights], there)
                if least is None:
                    return None
                twice = 1.0 if i == j else 2.0
                whole = whole + twice * slope * gradient[j] * self._forms.by_row(least)
        return whole


def histogram(
    moments: Moments, weight: Hashable, inverses: Sequence[Inverse | DenseInverse]
) -> FloatArray:
    """Σ e by (class, value …), −∞ where no record of the class could have the values."""
    found = moments.table(weight, [len(each.codes) for each in inverses])
    reached = (found != 0).astype(np.float64)
    for axis, inverse in enumerate(inverses, start=1):
        found = _by_value(inverse, inverse.estimate(np.moveaxis(found, axis, -1)), axis)
        pattern = inverse.pattern().estimate(np.moveaxis(reached, axis, -1))
        reached = _by_value(inverse, pattern, axis)
    return np.where(reached > 0, found, -np.inf)


def _by_value(inverse: Inverse | DenseInverse, by_symbol: FloatArray, axis: int) -> FloatArray:
    found = np.zeros((*by_symbol.shape[:-1], inverse.values))
    np.add.at(found.T, inverse.codes, by_symbol.T)
    return np.moveaxis(found, -1, axis)
