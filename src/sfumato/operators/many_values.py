"""Hundreds and thousands of values: one factorization for a release, then each value by itself.

In coordinates n_x/√o_x the operator M of buckets is symmetric, C̃ = o^(-½)·C·o^(-½), and the
unbiased estimate M⁻ᵀo has the covariance ν·o^½·(C̃⁻¹ − 1)·o^½, ν = (records − records²/N)/N. That
matrix is made once. Its correlations are small where values are many, so that the prior of
`Shrunk` meets a noise of the diagonal alone: a pool costs O(values), not O(values³). Intervals
start from the unbiased estimate and its whole covariance, and hold whatever the prior misses.

Directions that no bucket tells anything of get a variance of 10⁹ instead of an infinite one: their
intervals end at what is possible.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import NOTHING
from sfumato.operators.buckets import UNTOLD, BucketOperator
from sfumato.operators.estimator import Forms, Statistic, Totals
from sfumato.operators.pool_matrices import SharedMatrix, TiedDiagonals
from sfumato.operators.pools import OWN_SIZE, Covariance, PooledFit, PoolFit, composition
from sfumato.operators.shrunk import Gradient, ShrunkEstimated, ShrunkTotals

_ROUNDS = 40
_SETTLED = 1e-3  # relative change of τ²
_LEAST = 1e-12  # τ²
_STRIDE = 8.0  # how many times larger or smaller one round may make τ²


@dataclass(frozen=True, eq=False)
class DiagonalPoolFit(PoolFit):
    """n̂ − n₀ = k·y − (c/Σc)·Σ k·y with y = M⁻ᵀ(o − Mᵀn₀): shrunk by value, and adding up to 0."""

    within: ManyValues
    gain: FloatArray  # k by (pool, value)
    tie: FloatArray  # c/Σc by (pool, value)

    def moved(self, residual: FloatArray, at: IntArray) -> FloatArray:
        found = self.gain[at] * self.within.undone(residual)
        return np.asarray(found - self.tie[at] * found.sum(axis=1, keepdims=True))

    def undone(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return self.within.undone(residual)


class ManyValues(PooledFit):
    """The prior of `Shrunk`, and the noise of every value alone.

    >>> from sfumato.operators.buckets import BucketKinds
    >>> pairs = BucketKinds(*map(np.array, ([60, 30], [0, 0, 1, 1], [0, 1, 0, 2], [1, 1, 1, 1])))
    >>> many = ManyValues(BucketOperator.of([pairs], 3), np.array([90.0, 60.0, 30.0]))
    >>> many.undone(np.array([[9.0, 6.0, 3.0]])).round(6).tolist()
    [[9.0, 6.0, 3.0]]
    """

    def __init__(self, operator: BucketOperator, counts: FloatArray) -> None:
        super().__init__(operator, counts)
        self.cost = len(counts)
        self._root = np.sqrt(np.maximum(operator.counts, 1.0))

    @cached_property
    def _noise(self) -> FloatArray:
        """o^½·(C̃⁻¹ − 1)·o^½ / N: the covariance of the unbiased estimate for ν·N = 1."""
        found = self.operator.undoing * self._root
        found *= self._root[:, None]
        places = np.arange(len(self._root))
        found[places, places] -= self._root**2
        found /= max(float(self.operator.counts.sum()), 1.0)
        return found

    @cached_property
    def variances(self) -> FloatArray:
        """The diagonal of that covariance."""
        return np.maximum(np.diagonal(self._noise), 0.0)

    def undone(self, residual: FloatArray) -> FloatArray:
        return np.asarray((residual / self._root) @ self.operator.undoing * self._root)

    def fit(self, records: FloatArray, beside: FloatArray) -> PoolFit:
        independent, residual = self.residual(records, beside)
        free = records - records**2 / max(self.rows, 1.0)
        found = self.undone(residual)
        deviation = self.deviation(records, free, found**2)
        believed = deviation[:, None] * records[:, None] * self.shares**2 + self.shares
        gain, left = self.shrinkage(believed)
        tie = left / np.maximum(left.sum(axis=1, keepdims=True), 1e-300)
        moved = gain * found
        mean = np.maximum(independent + moved - tie * moved.sum(axis=1, keepdims=True), 0.0)
        spread, known = composition(mean, self.shares, self.operator.counts)
        return DiagonalPoolFit(
            self._known_of_rows(left),
            self._known_of_rows(believed),
            (self._scaled(spread), self._scaled(known)),
            self,
            gain,
            tie,
        )

    def shrinkage(self, believed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """k and c for prior variances of a weight of 1, by (pool, value)."""
        whole = np.maximum(believed + self.variances, 1e-300)
        return believed / whole, believed * self.variances / whole

    def _scaled(self, spread: FloatArray) -> SharedMatrix:
        return SharedMatrix(self._noise, spread.sum(axis=1))

    def _known_of_rows(self, variances: FloatArray) -> Covariance:
        return TiedDiagonals(variances), TiedDiagonals(variances / self.rows)

    def deviation(self, number: FloatArray, free: FloatArray, squares: FloatArray) -> FloatArray:
        """τ² of every group: the most likely one for squares of y, y_x ~ N(0, τ²·w_x + v_x).

        `squares` are those of the data, or what is to be expected of them. By Fisher scoring.
        """
        found = np.full(len(number), OWN_SIZE)
        present = self.shares > 0
        active = np.flatnonzero(~(free <= NOTHING * number))
        found[active] = 0.1
        for _ in range(_ROUNDS):
            if not len(active):
                break
            each = free[active, None]
            slope = number[active, None] * each * self.shares[present] ** 2
            fixed = each * (self.shares + self.variances)[present]
            before = found[active]
            inverse = 1 / (before[:, None] * slope + fixed)
            weight = slope * inverse
            score = (weight * (squares[active][:, present] * inverse - 1)).sum(axis=1)
            moved = before + score / (weight**2).sum(axis=1)
            moved = np.clip(moved, before / _STRIDE, before * _STRIDE)
            found[active] = np.maximum(moved, _LEAST)
            settled = np.abs(found[active] - before) <= _SETTLED * before
            active = active[~(settled | (found[active] <= _LEAST))]
        return found

    def expected(
        self, counts: FloatArray, asked: Sequence[IntArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Bias and variance of the estimated sums over sets of values, for these true counts."""
        total = float(counts.sum())
        independent, free = total * self.shares, total - total**2 / max(self.rows, 1.0)
        apart = counts - independent
        held = np.maximum(self.operator.counts, 1.0)
        left = np.maximum(counts - counts**2 / held, 0.0)
        noise = float((left * held / np.maximum(held - 1, 1.0)).sum())
        squares = apart**2 + noise * self.variances
        deviation = self.deviation(np.array([total]), np.array([free]), squares[None, :])[0]
        gain, rest = self.shrinkage(deviation * total * self.shares**2 + self.shares)
        tie = rest / max(float(rest.sum()), 1e-300)
        bias, variance = np.zeros(len(asked)), np.zeros(len(asked))
        for place, values in enumerate(asked):
            form = -gain * tie[values].sum()
            form[values] += gain[values]
            bias[place] = form @ apart - apart[values].sum()
            variance[place] = noise * float(form @ self._noise @ form)
        return bias, variance


class UnbiasedEstimated(ShrunkEstimated):
    """`inverse`: M⁻ᵀo itself."""

    def mean(self, weight: Hashable, number: Hashable) -> FloatArray:
        return self.unbiased(weight, number)[1]

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return UnbiasedTotals(self, forms, statistics)


class UnbiasedTotals(ShrunkTotals):
    """Error bars and intervals are the noise's; what cannot be told is not a number."""

    interval = Totals.interval

    def __init__(
        self, estimated: ShrunkEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        super().__init__(estimated, forms, statistics)
        for place, each in enumerate(statistics):
            untold = np.concatenate(
                [
                    estimated.fit.stretch(self._partition(profile), values) > UNTOLD
                    for profile, values in enumerate(each.values)
                ]
            )
            self.values[place, forms.by_row(untold[forms.pair_form].astype(float)) > 0] = np.nan

    def variance(self, gradient: Gradient) -> FloatArray:
        return self._variances(gradient)[2]


ESTIMATES: dict[str, type[ShrunkEstimated]] = {
    "shrunk": ShrunkEstimated,
    "inverse": UnbiasedEstimated,
}
