"""Answers between a model and the unbiased estimate (methods, section 8).

A count has two estimates: U, unbiased with the noise V, and M, what the model's rules foresee for
the records. People scatter by s around the model; the model scatters by the share h of all scatter
and noise, and follows the share c of it (`model`). So M is off by

    B = (1 + h − 2c)·s + bias² + h·V,    Cov(M's error, U's error) = c·V,

and of all M + w·(U − M) the one with the smallest mean squared error has

    w = (B − c·V) / (B + V − 2c·V),
    MSE = (1−w)²·B + 2w(1−w)·c·V + w²·V.

A row has one w, from its count, whatever is summed over it: a sum asked in two ways is the same.

The error bar is √MSE, right on average over groups of a size. The interval is more: it holds for
every truth. M − c·U does not hang together with U any more, so the prior of `assisted_interval` is
(M − c·U)/(1 − c), which is off by (B − c²·V)/(1 − c)² in the square. The model makes an interval
shorter where it is right, and cannot make it wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import inside_forms, summed
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Forms,
    Moments,
    Statistic,
    Totals,
    sum_by,
)
from sfumato.operators.foreseen import Foreseen, Piece
from sfumato.operators.intervals import assisted_interval, within_possible

Gradient = Sequence[FloatArray | float]

_LEAST = 1e-300


class CompositeEstimator(Estimator):
    """`unbiased` reads the release; lines of moments also say their quasi codes."""

    def __init__(self, unbiased: Estimator, foreseen: Foreseen) -> None:
        self._unbiased, self._foreseen = unbiased, foreseen

    def estimate(self, moments: Moments) -> CompositeEstimated:
        # what only counts records has itself as its square
        sums = dict(moments.sums)
        for weights, each in moments.sums.items():
            if len(weights) == 1:
                sums.setdefault((weights[0], weights[0]), each)
        moments = replace(moments, sums=sums)
        return CompositeEstimated(moments, self._unbiased.estimate(moments), self._foreseen)


class CompositeEstimated(Estimated):
    """The unbiased estimates of the classes, and what the model foresees for their lines.

    The last of the lines' codes is the sub-table, where the model knows some.
    """

    def __init__(self, moments: Moments, unbiased: Estimated, foreseen: Foreseen) -> None:
        self.moments, self.unbiased = moments, unbiased
        self.model, self._foreseen = foreseen.model, foreseen
        self._sums: dict[int, FloatArray] = {}  # by the moments' own array
        self._kept: list[Piece] | None = None

    def pieces(self) -> Sequence[Piece] | Iterator[Piece]:
        if self._kept is not None:
            return self._kept
        assert self.moments.quasi is not None
        found = self._foreseen.pieces(self.moments.quasi)
        if isinstance(found, list):
            self._kept = found
        return found

    def by_class(self, *weights: Hashable) -> FloatArray:
        """Σ e over the records, times their mean, its square and the rules' difference.

        By (class, which of the three, value).
        """
        moments, sums = self.moments, self.moments.sums[weights]
        if id(sums) not in self._sums:
            found = np.zeros((moments.classes, 3, self._foreseen.values))
            for piece in self.pieces():
                found += piece.summed(moments.of[piece.lines], moments.classes, sums[piece.lines])
            self._sums[id(sums)] = found
        return self._sums[id(sums)]

    def leverage(self, number: Hashable) -> FloatArray:
        """h by class; classes of one pool are one condition."""
        mean, square, difference = np.moveaxis(self.by_class(number), 1, 0)
        if self.moments.pool is None:
            return self.model.leverages(difference, mean, mean - square)
        pooled = []
        for each in (difference, mean, mean - square):
            whole = np.zeros((int(self.moments.pool.max(initial=-1)) + 1, each.shape[1]))
            np.add.at(whole, self.moments.pool, each)
            pooled.append(whole)
        return np.asarray(self.model.leverages(*pooled)[self.moments.pool])

    def foreseen(self, forms: Forms, one: Statistic) -> FloatArray:
        """By row, Σ over records of the mean of e·h(x) under the model."""
        return forms.by_row(summed(forms, self.by_class(one.weight)[:, 0], one.values))

    def scatter(self, forms: Forms, one: Statistic, other: Statistic) -> FloatArray:
        """By row, Σ over records of the covariance of d·g(x) and e·h(x) under the model."""
        weights, both = (one.weight, other.weight), one.values * other.values
        mean, square, _ = np.moveaxis(self.by_class(*weights), 1, 0)
        squares = summed(forms, mean, both)
        counted = (forms.cells >= 0) & ((one.values != 0) | (other.values != 0))
        if np.bincount(forms.cells[counted], minlength=1).max() <= 1:
            known = summed(forms, square, both)
        else:
            known = self._products(forms, one, other)
        return forms.by_row(squares - known)

    def _products(self, forms: Forms, one: Statistic, other: Statistic) -> FloatArray:
        """By pair, Σ over records of the product of the two means, for forms of several values."""
        moments, found = self.moments, np.zeros(forms.pairs)
        sums = moments.sums[one.weight, other.weight]
        for piece in self.pieces():
            of = moments.of[piece.lines]
            for profile in np.unique(forms.profile[of]).tolist():
                lines = np.flatnonzero(forms.profile[of] == profile)
                inside = inside_forms(forms, profile)
                chances = piece.means(lines)
                means = [chances @ np.where(inside, e.values[profile], 0.0).T for e in (one, other)]
                pair = forms.starts[of[lines]][:, None] + np.arange(len(inside))
                added = means[0] * means[1] * sums[piece.lines][lines][:, None]
                found += sum_by(pair.ravel(), added.ravel(), forms.pairs)
        return found

    def reached(self, forms: Forms) -> BoolArray:
        return self.unbiased.reached(forms)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return CompositeTotals(self, forms, statistics)

    def histogram(self, weight: Hashable, number: Hashable) -> FloatArray:
        values = self._foreseen.values
        cells = np.arange(values)[None, :]
        forms = Forms.of(np.zeros(self.moments.classes, np.int64), cells, np.array([0, values]))
        every = np.ones((1, values), np.bool_)
        asked = Statistic(weight, number, every.astype(np.float64), every)
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
        self._modelled = np.stack([estimated.foreseen(forms, each) for each in statistics])
        self._known: tuple[Gradient, tuple[FloatArray, FloatArray, FloatArray]] | None = None
        self._weight = self._best_weight()
        self.values = self._modelled + self._weight * (self.unbiased() - self._modelled)

    def unbiased(self) -> FloatArray:
        return self._unbiased.unbiased()

    def noise(self, gradient: Gradient) -> FloatArray:
        return self._unbiased.noise(gradient)

    def _best_weight(self) -> FloatArray:
        """w by row, from its count."""
        estimated, forms, first = self._estimated, self._forms, self._statistics[0]
        counted = first.counted
        count = Statistic(first.number, first.number, counted.astype(np.float64), counted)
        counts = self._unbiased
        if len(self._statistics) > 1 or not first.is_count:
            counts = estimated.unbiased.read(forms, [count])
        records = estimated.moments.total(count.number)[forms.pair_class]
        lever = estimated.leverage(count.number)[forms.pair_class]
        self._records = forms.by_row(records)
        self._leverage = forms.by_row(records * lever) / np.maximum(self._records, _LEAST)
        self._size = np.maximum(estimated.scatter(forms, count, count), 0.0)
        off, shared, noise = self._errors(counts.noise([1.0]), self._size)
        whole = off + noise - 2 * shared
        best = np.divide(off - shared, whole, out=np.ones_like(whole), where=whole > 0)
        return np.asarray(np.clip(best, 0.0, 1.0))

    def _errors(
        self, noise: FloatArray, scatter: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """B, the covariance, and V of linear forms with this noise and scatter."""
        model, noise = self._estimated.model, np.maximum(noise, 0.0)
        lever, shared = model.followed(self._leverage, self._size), model.covariance(self._size)
        bias = model.squared_bias(self._size, scatter, noise, self._leverage)
        around = np.maximum(1 + lever - 2 * shared, 0.0) * scatter
        # Cauchy–Schwarz: what hangs together so much scatters at least by that
        off = np.maximum(around + bias + lever * noise, shared**2 * noise)
        return off, shared * noise, noise

    def _off(self, gradient: Gradient) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`_errors` of Σ_j gradient_j·T_j; remembered."""
        if self._known is None or self._known[0] is not gradient:
            errors = self._errors(self.noise(gradient), self._scatter(gradient))
            self._known = gradient, errors
        return self._known[1]

    def variance(self, gradient: Gradient) -> FloatArray:
        off, shared, noise = self._off(gradient)
        weight, rest = self._weight, 1 - self._weight
        return np.asarray(rest**2 * off + 2 * weight * rest * shared + weight**2 * noise)

    def interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        """For every truth, and around the value that is shown; counts within what is possible."""
        from scipy.special import ndtr

        off, shared, noise = self._off(gradient)
        followed = np.divide(shared, noise, out=np.zeros_like(noise), where=noise > 0)
        modelled, unbiased = (
            value
            + sum(
                slope * (found - shown)
                for slope, found, shown in zip(gradient, at, self.values, strict=True)
            )
            for at in (self._modelled, self.unbiased())
        )
        low, high = assisted_interval(
            unbiased,
            self._unbiased.noise_at_ends(quantile, gradient),
            (modelled - followed * unbiased) / (1 - followed),
            np.sqrt(np.maximum(off - followed * shared, 0.0)) / (1 - followed),
            2 * float(ndtr(quantile)) - 1,
        )
        low, high = np.fmin(low, value), np.fmax(high, value)
        first = self._statistics[0]
        if len(self._statistics) == 1 and first.is_count:
            return within_possible((low, high), value, gradient[0], self.values[0], self._records)
        return low, high

    def _scatter(self, gradient: Gradient) -> FloatArray:
        """What people add to the variance of Σ_j gradient_j·T_j, by row."""
        found = np.zeros(self._forms.rows)
        for one, slope in zip(self._statistics, gradient, strict=True):
            for other, beyond in zip(self._statistics, gradient, strict=True):
                both = np.nan_to_num(np.asarray(slope)) * np.nan_to_num(np.asarray(beyond))
                found += both * self._estimated.scatter(self._forms, one, other)
        return np.maximum(found, 0.0)
