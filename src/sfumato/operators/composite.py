"""Answers between a model and the unbiased estimate (methods, section 8).

A count has two estimates: U, unbiased with the noise V, and M, what the model's rules foresee for
the records. People scatter by s around the model, and the model follows the share h of all scatter
and noise, of the share f of the records that it was fitted to. So M is off by

    B = (1 + h − 2f·h)·s + bias² + h·V,    Cov(M's error, U's error) = f·h·V,

and of all M + w·(U − M) the one with the smallest mean squared error has

    w = (B − f·h·V) / (B + V − 2f·h·V),
    MSE = (1−w)²·B + 2w(1−w)·f·h·V + w²·V.

A row has one w, from its count, whatever is summed over it: a sum asked in two ways is the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import inside_forms
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Forms,
    Moments,
    Statistic,
    Totals,
    sum_by,
)
from sfumato.operators.model import Model

_AT_ONCE = 1 << 22  # numbers that are held at the same time for lines
_LEAST = 1e-300


class CompositeEstimator(Estimator):
    """`unbiased` reads the release; lines of moments also say their quasi codes."""

    def __init__(self, unbiased: Estimator, model: Model) -> None:
        self._unbiased, self._model = unbiased, model

    def estimate(self, moments: Moments) -> CompositeEstimated:
        # what only counts records has itself as its square
        sums = dict(moments.sums)
        for weights, each in moments.sums.items():
            if len(weights) == 1:
                sums.setdefault((weights[0], weights[0]), each)
        moments = replace(moments, sums=sums)
        return CompositeEstimated(moments, self._unbiased.estimate(moments), self._model)


class CompositeEstimated(Estimated):
    """The unbiased estimates of the classes, and what the model foresees for their lines."""

    def __init__(self, moments: Moments, unbiased: Estimated, model: Model) -> None:
        self.moments, self.unbiased, self.model = moments, unbiased, model

    @cached_property
    def chances(self) -> tuple[FloatArray, FloatArray]:
        """By line: the mean of the two rules, and their difference.

        The last of the codes is the sub-table, where the model knows some.
        """
        assert self.moments.quasi is not None
        cell = np.zeros(len(self.moments.of), np.int64)
        for each in self.moments.quasi:
            _, cell = np.unique(cell * (int(each.max(initial=0)) + 1) + each, return_inverse=True)
        _, line = np.unique(cell, return_index=True)
        codes = [each[line] for each in self.moments.quasi]
        part = codes.pop() if self.model.parts is not None else None
        first, second = self.model.chances(codes, part)
        return ((first + second) / 2)[cell], (first - second)[cell]

    def leverage(self, number: Hashable) -> FloatArray:
        """h by class; classes of one pool are one condition."""
        moments, (mean, difference) = self.moments, self.chances
        pool = np.arange(moments.classes) if moments.pool is None else moments.pool
        records, found = moments.sums[(number,)][:, None], []
        for each in (difference, mean, mean * (1 - mean)):
            whole = np.zeros((int(pool.max(initial=-1)) + 1, each.shape[1]))
            np.add.at(whole, pool[moments.of], each * records)
            found.append(whole)
        return np.asarray(self.model.leverages(*found)[pool])

    def reached(self, forms: Forms) -> BoolArray:
        return self.unbiased.reached(forms)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return CompositeTotals(self, forms, statistics)

    def histogram(self, weight: Hashable) -> FloatArray:
        values = self.chances[0].shape[1]
        cells = np.arange(values)[None, :]
        forms = Forms.of(np.zeros(self.moments.classes, np.int64), cells, np.array([0, values]))
        every = np.ones((1, values), np.bool_)
        asked = Statistic(weight, weight, every.astype(np.float64), every)
        found = CompositeTotals(self, forms, [asked]).values[0]
        return np.asarray(found.reshape(self.moments.classes, values))


class CompositeTotals(Totals):
    """Linear forms between the model and the unbiased estimate, with their mean squared error."""

    def __init__(
        self, estimated: CompositeEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self._unbiased = estimated.unbiased.read(forms, statistics)
        self.present = self._unbiased.present
        modelled = np.stack([self._foreseen(each) for each in statistics])
        first = statistics[0]
        counted = first.there & (first.values != 0)
        self._count = Statistic(first.number, first.number, counted.astype(np.float64), counted)
        self._weight = self._best_weight()
        self.values = modelled + self._weight * (self._unbiased.unbiased() - modelled)

    def _best_weight(self) -> FloatArray:
        """w by row, from its count."""
        estimated, forms = self._estimated, self._forms
        counts = estimated.unbiased.read(forms, [self._count])
        records = estimated.moments.total(self._count.number)[forms.pair_class]
        lever = estimated.leverage(self._count.number)[forms.pair_class]
        self._records = forms.by_row(records)
        self._leverage = forms.by_row(records * lever) / np.maximum(self._records, _LEAST)
        self._size = self._scatter([1.0], [self._count])
        off, shared, noise = self._errors(counts.noise([1.0]), self._size)
        whole = off + noise - 2 * shared
        best = np.divide(off - shared, whole, out=np.ones_like(whole), where=whole > 0)
        return np.asarray(np.clip(best, 0.0, 1.0))

    def _errors(
        self, noise: FloatArray, scatter: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """B, the covariance, and V of linear forms with this noise and scatter."""
        model, noise = self._estimated.model, np.maximum(noise, 0.0)
        lever = model.followed(self._leverage, self._size)
        bias = model.squared_bias(self._size, scatter, noise, self._leverage)
        shared = model.share * lever * noise
        around = np.maximum(1 + lever - 2 * model.share * lever, 0.0) * scatter
        return around + bias + lever * noise, shared, noise

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        scatter = self._scatter(gradient, self._statistics)
        off, shared, noise = self._errors(self._unbiased.noise(gradient), scatter)
        weight, rest = self._weight, 1 - self._weight
        return np.asarray(rest**2 * off + 2 * weight * rest * shared + weight**2 * noise)

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        """Counts end at what is possible."""
        low, high = super().interval(value, stderr, quantile, gradient)
        first = self._statistics[0]
        if len(self._statistics) == 1 and first.weight == first.number and first.is_indicator:
            low = np.maximum(low, np.minimum(value, 0.0))
            high = np.minimum(high, np.maximum(value, self._records))
        return low, high

    def _scatter(
        self, gradient: Sequence[FloatArray | float], statistics: Sequence[Statistic]
    ) -> FloatArray:
        """Σ over records of the variance that the model gives Σ_j gradient_j·e_j·h_j(x), by row."""
        found = np.zeros(self._forms.rows)
        for one, slope in zip(statistics, gradient, strict=True):
            for other, beyond in zip(statistics, gradient, strict=True):
                both = np.nan_to_num(np.asarray(slope)) * np.nan_to_num(np.asarray(beyond))
                found += both * self._foreseen(one, other)
        return np.maximum(found, 0.0)

    def _foreseen(self, one: Statistic, other: Statistic | None = None) -> FloatArray:
        """By row, Σ over records of the mean of e·h(x) under the model; of two, the covariance."""
        forms, moments = self._forms, self._estimated.moments
        sums = moments.sums[(one.weight,) if other is None else (one.weight, other.weight)]
        chances, found = self._estimated.chances[0], np.zeros(forms.pairs)
        for profile in range(len(forms.cells)):
            inside = inside_forms(forms, profile)
            asked = np.where(inside, one.values[profile], 0.0).T
            second = asked if other is None else np.where(inside, other.values[profile], 0.0).T
            lines = np.flatnonzero(forms.profile[moments.of] == profile)
            step = max(_AT_ONCE // max(len(inside), 1), 1)
            for low in range(0, len(lines), step):
                chosen = lines[low : low + step]
                added = chances[chosen] @ asked
                if other is not None:
                    added = chances[chosen] @ (asked * second) - added * (chances[chosen] @ second)
                pair = forms.starts[moments.of[chosen]][:, None] + np.arange(len(inside))
                found += sum_by(pair.ravel(), (added * sums[chosen][:, None]).ravel(), forms.pairs)
        return forms.by_row(found)
