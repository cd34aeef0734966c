"""The default estimator of bucketed releases: one gain for a group, whatever is summed over it.

`bucket_estimates.Shrunk` finds, from how many records of a group stand beside each value, how far
the group deviates from independence (τ²), and from that a gain G and a covariance C for a weight of
1. Both are then used for every weight e: n̂(e) = n₀(e) + Gᵀ(o(e) − Mᵀn₀(e)), with
Cov(n̂(d), n̂(e)) = (Σde − ΣdΣe/N)·C. Estimates are therefore linear in the records: a sum asked in
two ways, or over parts of a group, comes out the same. Classes of records that differ only in what
a mixed expression needs of them are one group, a *pool*.

Error bars are the posterior's. Intervals are not: they hold for every truth (`intervals`), starting
from the unbiased estimate M⁻ᵀo with its own noise, and are clipped to what is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import NOTHING, Shrunk, tied
from sfumato.operators.bucketed import (
    BucketEstimated,
    BucketEstimator,
    by_profile,
    inside_forms,
    summed,
)
from sfumato.operators.estimator import Forms, Moments, Statistic, Totals, sum_by
from sfumato.operators.intervals import assisted_interval

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_AT_ONCE = 1 << 22  # numbers of one kind of matrix that are held at the same time
_OWN_SIZE = 1.0  # τ² where all counts are known and only what is summed can deviate


@dataclass(frozen=True, eq=False)
class PoolFit:
    """Matrices of some pools, (pool, value, value) each, for a weight of 1.

    The variance of a linear form with the vectors v_c over the classes of a pool is
    Σ_c Σe²·v_cᵀ·first·v_c − aᵀ·second·a with a = Σ_c Σe·v_c: the second term is what the finite
    table knows. `posterior` and `prior` have second = first / N; `noise`, that of the unbiased
    estimate, has two matrices.
    """

    gain: FloatArray
    posterior: FloatArray
    prior: FloatArray
    noise: FloatArray
    noise_known: FloatArray

    def __getitem__(self, pools: slice) -> PoolFit:
        return PoolFit(
            self.gain[pools],
            self.posterior[pools],
            self.prior[pools],
            self.noise[pools],
            self.noise_known[pools],
        )


class ShrunkEstimated(BucketEstimated):
    """Lines show buckets; every pool is fitted once, from its counts."""

    fit: Shrunk

    def __init__(self, moments: Moments, fit: Shrunk, shares: csr_array) -> None:
        super().__init__(moments, fit, shares)
        self.pool = np.arange(moments.classes) if moments.pool is None else moments.pool
        self.pools = int(self.pool.max(initial=-1)) + 1
        self._order = np.argsort(self.pool, kind="stable")
        self._starts = np.searchsorted(self.pool[self._order], np.arange(self.pools + 1))
        self._pool_fits: dict[Hashable, PoolFit] = {}

    def pool_fits(self, number: Hashable) -> Iterator[tuple[int, IntArray, PoolFit]]:
        """Some pools at a time: the first of them, their classes, and their fit."""
        step = max(_AT_ONCE // self.values**2, 1)
        known = self._pool_fits.get(number)
        if known is None and self.pools <= step:
            known = self._pool_fits[number] = self._fit_pools(number, 0, self.pools)
        for low in range(0, self.pools, step):
            high = min(low + step, self.pools)
            classes = self._order[self._starts[low] : self._starts[high]]
            found = self._fit_pools(number, low, high) if known is None else known[low:high]
            yield low, classes, found

    def _fit_pools(self, number: Hashable, low: int, high: int) -> PoolFit:
        classes = self._order[self._starts[low] : self._starts[high]]
        place = self.pool[classes] - low
        records = sum_by(place, self.moments.total(number)[classes], high - low)
        beside = np.zeros((high - low, self.values))
        np.add.at(beside, place, self.beside(number)[classes])
        return fit_pools(self.fit, records, beside)

    def residual(self, weight: Hashable, classes: IntArray) -> tuple[FloatArray, FloatArray]:
        """n₀(e) and o(e) − Mᵀn₀(e), by (class, value)."""
        independent = self.moments.total(weight)[classes, None] * self.fit.shares
        return independent, self.beside(weight)[classes] - independent @ self.fit.operator.matrix()

    def mean(self, weight: Hashable, number: Hashable) -> FloatArray:
        key = weight, number
        if key not in self._means:
            found = np.zeros((self.moments.classes, self.values))
            for low, classes, fitted in self.pool_fits(number):
                independent, residual = self.residual(weight, classes)
                moved = carried(residual[:, None, :], fitted.gain, self.pool[classes] - low)
                found[classes] = independent + moved[:, 0, :]
            self._means[key] = found
        return self._means[key]

    def unbiased(self, weight: Hashable) -> tuple[FloatArray, FloatArray]:
        """n₀(e) and M⁻ᵀo(e), by (class, value); along unseen directions the second is the first."""
        independent, residual = self.residual(weight, np.arange(self.moments.classes))
        return independent, independent + residual @ self.fit.operator.seen_inverse

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return ShrunkTotals(self, forms, statistics)


class ShrunkEstimator(BucketEstimator):
    """The estimator that `Shrunk` is the heart of."""

    fit: Shrunk

    def estimate(self, moments: Moments) -> ShrunkEstimated:
        return ShrunkEstimated(moments, self.fit, self.shares)


class ShrunkTotals(Totals):
    """Linear forms of the fitted counts, jointly; the first statistic's fit stands for all."""

    def __init__(
        self, estimated: ShrunkEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self.values = self._by_row([estimated.mean(s.weight, s.number) for s in statistics])
        self.present = np.stack([estimated.present(forms, each) for each in statistics])

    def _by_row(self, by_class: Sequence[FloatArray]) -> FloatArray:
        linear = [
            self._forms.by_row(summed(self._forms, found, each.values))
            for found, each in zip(by_class, self._statistics, strict=True)
        ]
        return np.stack(linear)

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        return self._quadratic(
            gradient, lambda fit: (fit.posterior, fit.posterior / self._estimated.fit.rows)
        )

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        """For every truth, and around the value that is shown; counts within what is possible."""
        from scipy.special import ndtr

        fits = [self._estimated.unbiased(each.weight) for each in self._statistics]
        prior, unbiased = (
            value
            + sum(
                slope * (found - mean)
                for slope, found, mean in zip(gradient, at, self.values, strict=True)
            )
            for at in (self._by_row([f[0] for f in fits]), self._by_row([f[1] for f in fits]))
        )
        rows = self._estimated.fit.rows
        noise = self._quadratic(gradient, lambda fit: (fit.noise, fit.noise_known))
        deviation = self._quadratic(gradient, lambda fit: (fit.prior, fit.prior / rows))
        low, high = assisted_interval(
            unbiased,
            np.sqrt(np.maximum(noise, 0.0)),
            prior,
            np.sqrt(np.maximum(deviation, 0.0)),
            2 * float(ndtr(quantile)) - 1,
        )
        unseen = self._unseen(gradient)
        low, high = np.fmin(low - unseen, value), np.fmax(high + unseen, value)
        first = self._statistics[0]
        if len(self._statistics) == 1 and first.weight == first.number and first.is_indicator:
            count, slope = self.values[0], gradient[0]
            most = np.fmax(count, self._most(first))
            ends = (value + slope * (np.fmin(count, 0.0) - count), value + slope * (most - count))
            low, high = np.fmax(low, np.fmin(*ends)), np.fmin(high, np.fmax(*ends))
        return low, high

    def _most(self, count: Statistic) -> FloatArray:
        """How many records a row can count at the most: those of the class, and of the values."""
        forms, fit = self._forms, self._estimated.fit
        held = summed(
            forms, np.broadcast_to(fit.counts, (len(forms.profile), len(fit.counts))), count.values
        )
        records = self._estimated.moments.total(count.number)[forms.pair_class]
        return forms.by_row(np.minimum(held, records))

    def _unseen(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        """How far along directions that no bucket tells the truth can lie from independence.

        |Σ_x q_x·d_x(e)| ≤ max|q|·Σ_x|d_x(e)|, and the deviations of a class add up to at most
        2·Σ|e| ≤ 2·√(records·Σe²).
        """
        forms, estimated = self._forms, self._estimated
        blind = estimated.fit.operator.unseen
        found = np.zeros(forms.rows)
        if blind is None:
            return found
        moments = estimated.moments
        for profile, classes, pairs in by_profile(forms, np.arange(moments.classes)):
            row = forms.row[pairs]
            for slope, vector, each in self._vectors(gradient, profile, row):
                reach = np.abs(vector @ blind.T).max(axis=-1)
                squares = moments.total(each.weight, each.weight)[classes]
                most = 2 * np.sqrt(np.maximum(moments.total(each.number)[classes] * squares, 0.0))
                np.add.at(found, row[row >= 0], (np.abs(slope) * reach * most[:, None])[row >= 0])
        return found

    def _vectors(
        self, gradient: Sequence[FloatArray | float], profile: int, row: IntArray
    ) -> Iterator[tuple[FloatArray, FloatArray, Statistic]]:
        """By statistic: the slope of every pair, and h by (form, value)."""
        inside = inside_forms(self._forms, profile)
        for slope, each in zip(gradient, self._statistics, strict=True):
            at = np.nan_to_num(np.broadcast_to(slope, (self._forms.rows,)))
            yield (
                np.where(row >= 0, at[row], 0.0),
                np.where(inside, each.values[profile], 0.0),
                each,
            )

    def _quadratic(
        self,
        gradient: Sequence[FloatArray | float],
        matrices: Callable[[PoolFit], tuple[FloatArray, FloatArray]],
    ) -> FloatArray:
        """Σ_c Σ_jk Σe_je_k·v_jᵀ·first·v_k − aᵀ·second·a by row (see `PoolFit`)."""
        forms, estimated = self._forms, self._estimated
        total = estimated.moments.total
        found = np.zeros(forms.rows)
        for low, members, fitted in estimated.pool_fits(self._statistics[0].number):
            first, second = matrices(fitted)
            known = np.zeros((forms.rows, estimated.values)) if self._share_rows else None
            for profile, chosen, pairs in by_profile(forms, members):
                classes, row = members[chosen], forms.row[pairs]
                at = estimated.pool[classes] - low
                there = row >= 0
                terms = list(self._vectors(gradient, profile, row))
                whole = np.zeros((*row.shape, estimated.values))
                square = np.zeros(row.shape)
                for slope, vector, one in terms:
                    half = carried(np.broadcast_to(vector, (len(at), *vector.shape)), first, at)
                    whole += (slope * total(one.weight)[classes][:, None])[:, :, None] * vector
                    for other_slope, other_vector, other in terms:
                        both = total(one.weight, other.weight)[classes][:, None]
                        square += slope * other_slope * both * (half * other_vector).sum(axis=2)
                if known is None:
                    square -= (carried(whole, second, at) * whole).sum(axis=2)
                else:
                    np.add.at(known, row[there], whole[there])
                np.add.at(found, row[there], square[there])
            if known is not None:
                for pool in range(len(first)):
                    rows = self._rows_of_pool(low + pool)
                    found[rows] -= ((known[rows] @ second[pool]) * known[rows]).sum(axis=1)
        return found

    @cached_property
    def _share_rows(self) -> bool:
        """Whether several pairs add to one row, as where mixed conditions make several classes."""
        return int((self._forms.row >= 0).sum()) > self._forms.rows

    def _rows_of_pool(self, pool: int) -> IntArray:
        order, cuts = self._rows_by_pool
        return order[cuts[pool] : cuts[pool + 1]]

    @cached_property
    def _rows_by_pool(self) -> tuple[IntArray, IntArray]:
        forms, estimated = self._forms, self._estimated
        pool = np.zeros(forms.rows, np.int64)
        there = forms.row >= 0
        pool[forms.row[there]] = estimated.pool[forms.pair_class[there]]
        order = np.argsort(pool, kind="stable")
        return order, np.searchsorted(pool[order], np.arange(estimated.pools + 1))


def carried(vectors: FloatArray, matrices: FloatArray, at: IntArray) -> FloatArray:
    """vectors[k] @ matrices[at[k]], some at a time: many classes may share a large matrix."""
    found = np.empty(vectors.shape)
    step = max(_AT_ONCE // matrices[0].size, 1) if len(matrices) else 1
    for low in range(0, len(at), step):
        found[low : low + step] = vectors[low : low + step] @ matrices[at[low : low + step]]
    return found


def fit_pools(fit: Shrunk, records: FloatArray, beside: FloatArray) -> PoolFit:
    """Fit groups of so many records, from what stands beside them."""
    operator, shares = fit.operator, fit.shares
    independent = records[:, None] * shares
    residual = beside - independent @ operator.matrix()
    free = records - records**2 / max(fit.rows, 1.0)
    open_ = np.flatnonzero(~(free <= NOTHING * records))
    deviation = np.full(len(records), _OWN_SIZE)
    size = (len(records), len(shares), len(shares))
    gain, posterior = np.zeros(size), np.zeros(size)
    unit = np.ones(len(records))

    def squares(gains: FloatArray, which: IntArray) -> FloatArray:
        return np.asarray((residual[open_[which], None, :] @ gains)[:, 0, :] ** 2)

    gain[open_], found, deviation[open_] = fit.gains(records[open_], free[open_], squares)
    posterior[open_] = found / free[open_, None, None]
    closed = np.flatnonzero(free <= NOTHING * records)
    believed = deviation[:, None] * records[:, None] * shares**2 + shares
    gain[closed], posterior[closed] = fit.posterior(believed[closed], unit[closed])
    mean = np.maximum(independent + (residual[:, None, :] @ gain)[:, 0, :], 0.0)
    total = mean.sum(axis=1, keepdims=True)
    composed = np.divide(mean, total, out=np.tile(shares, (len(records), 1)), where=total > 0)
    # records stand in slots of their value without replacement
    held = np.maximum(fit.counts, 1.0)
    spread = composed * fit.counts / np.maximum(held - 1, 1.0)
    inverse = operator.seen_inverse
    noise = inverse.T @ operator.noise(spread) @ inverse
    known = inverse.T @ operator.noise(spread * composed / held) @ inverse
    return PoolFit(gain, posterior, tied(believed), noise, known)
