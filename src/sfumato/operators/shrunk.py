"""The default estimator of bucketed releases: one gain for a group, whatever is summed over it.

`bucket_estimates.Shrunk` finds, from how many records of a group stand beside each value, how far
the group deviates from independence (τ²), and from that a gain G and a covariance C for a weight of
1. Both are then used for every weight e: n̂(e) = n₀(e) + Gᵀ(o(e) − Mᵀn₀(e)), with
Cov(n̂(d), n̂(e)) = (Σde − ΣdΣe/N)·C. Estimates are therefore linear in the records: a sum asked in
two ways, or over parts of a group, comes out the same. Classes of records that differ only in what
a mixed expression needs of them are one group, a *pool*.

Error bars are the posterior's where people were dealt by one column. Intervals are not: they hold
for every truth (`intervals`), starting from the unbiased estimate M⁻ᵀo with its own noise, and are
clipped to what is possible.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import IntArray
from sfumato.limits import current_limits
from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import (
    Beside,
    ListedEstimated,
    OneList,
    by_profile,
    inside_forms,
    summed,
)
from sfumato.operators.estimator import Estimator, Forms, Moments, Statistic, Totals, sum_by
from sfumato.operators.intervals import assisted_interval, within_possible
from sfumato.operators.pool_matrices import Partition, PoolMatrices
from sfumato.operators.pools import AT_ONCE, PooledFit, PoolFit

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Gradient = Sequence[FloatArray | float]


class ShrunkEstimated(ListedEstimated):
    """Lines show buckets; every pool is fitted once, from its counts."""

    def __init__(self, moments: Moments, fit: PooledFit, lists: Beside) -> None:
        super().__init__(moments, lists)
        self.fit, self.values = fit, len(fit.counts)
        self.pool = np.arange(moments.classes) if moments.pool is None else moments.pool
        self.pools = int(self.pool.max(initial=-1)) + 1
        self._order = np.argsort(self.pool, kind="stable")
        self._starts = np.searchsorted(self.pool[self._order], np.arange(self.pools + 1))
        self._pool_fits: dict[Hashable, PoolFit] = {}

    def pool_fits(self, number: Hashable) -> Iterator[tuple[int, IntArray, PoolFit]]:
        """Some pools at a time: the first of them, their classes, and their fit."""
        step = max(AT_ONCE // self.fit.cost, 1)
        if number not in self._pool_fits and self.pools <= step:
            self._pool_fits[number] = self._fit_pools(number, 0, self.pools)
        if number in self._pool_fits:
            yield 0, self._order, self._pool_fits[number]
            return
        for low in range(0, self.pools, step):
            current_limits().check()
            high = min(low + step, self.pools)
            classes = self._order[self._starts[low] : self._starts[high]]
            yield low, classes, self._fit_pools(number, low, high)

    def _fit_pools(self, number: Hashable, low: int, high: int) -> PoolFit:
        classes = self._order[self._starts[low] : self._starts[high]]
        place = self.pool[classes] - low
        records = sum_by(place, self.moments.total(number)[classes], high - low)
        beside = np.zeros((high - low, self._lists.values))
        np.add.at(beside, place, self.beside(number)[classes])
        return self.fit.fit(records, beside)

    def residual(self, weight: Hashable, classes: IntArray) -> tuple[FloatArray, FloatArray]:
        """n₀(e) and o(e) − Mᵀn₀(e), by (class, value)."""
        return self.fit.residual(self.moments.total(weight)[classes], self.beside(weight)[classes])

    def mean(self, weight: Hashable, number: Hashable) -> FloatArray:
        key = weight, number
        if key not in self._means:
            found = np.zeros((self.moments.classes, self.values))
            for low, classes, fitted in self.pool_fits(number):
                independent, residual = self.residual(weight, classes)
                found[classes] = independent + fitted.moved(residual, self.pool[classes] - low)
            self._means[key] = found
        return self._means[key]

    def unbiased(self, weight: Hashable, number: Hashable) -> tuple[FloatArray, FloatArray]:
        """n₀(e) and M⁻ᵀo(e), by (class, value); along unseen directions the second is the first."""
        found, whole = np.zeros((2, self.moments.classes, self.values))
        for low, classes, fitted in self.pool_fits(number):
            found[classes], residual = self.residual(weight, classes)
            whole[classes] = found[classes] + fitted.undone(residual, self.pool[classes] - low)
        return found, whole

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return ShrunkTotals(self, forms, statistics)


class ShrunkEstimator(Estimator):
    """The estimator of one release; `shares` has the share of every value in every bucket."""

    def __init__(
        self, fit: PooledFit, shares: csr_array, made: type[ShrunkEstimated] = ShrunkEstimated
    ) -> None:
        self.fit, self._lists, self._made = fit, OneList(shares), made

    def estimate(self, moments: Moments) -> ShrunkEstimated:
        return self._made(moments, self.fit, self._lists)


class ShrunkTotals(Totals):
    """Linear forms of the fitted counts, jointly; the first statistic's fit stands for all."""

    def __init__(
        self, estimated: ShrunkEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self.values = self._by_row([estimated.mean(s.weight, s.number) for s in statistics])
        self.present = np.stack([estimated.present(forms, each) for each in statistics])
        self._known: tuple[Gradient, tuple[FloatArray, FloatArray, FloatArray]] | None = None
        self._partitions: dict[int, Partition] = {}

    def _by_row(self, by_class: Sequence[FloatArray]) -> FloatArray:
        linear = [
            self._forms.by_row(summed(self._forms, found, each.values))
            for found, each in zip(by_class, self._statistics, strict=True)
        ]
        return np.stack(linear)

    def variance(self, gradient: Gradient) -> FloatArray:
        """The posterior's; or, where that is too sure of the prior, as wide as an interval is that
        the truth lies in as often as within one standard error."""
        found = self._variances(gradient)[0]
        if not self._estimated.fit.bars_of_interval:
            return found
        low, high = self._for_every_truth(np.zeros(self._forms.rows), 1.0, gradient)
        return np.fmax(found, ((high - low) / 2 + self._unseen(gradient)) ** 2)

    def unbiased(self) -> FloatArray:
        return self._by_row([self._unbiased(s)[1] for s in self._statistics])

    def _unbiased(self, each: Statistic) -> tuple[FloatArray, FloatArray]:
        return self._estimated.unbiased(each.weight, each.number)

    def noise(self, gradient: Gradient) -> FloatArray:
        """What no bucket tells counts as noise, as wide as the ignorance."""
        return np.maximum(self._variances(gradient)[2], 0.0) + self._unseen(gradient) ** 2

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Gradient,
    ) -> tuple[FloatArray, FloatArray]:
        """For every truth, and around the value that is shown; counts within what is possible."""
        low, high = self._for_every_truth(value, quantile, gradient)
        unseen = self._unseen(gradient)
        low, high = np.fmin(low - unseen, value), np.fmax(high + unseen, value)
        first = self._statistics[0]
        if len(self._statistics) == 1 and first.is_count:
            return within_possible(
                (low, high), value, gradient[0], self.values[0], self._most(first)
            )
        return low, high

    def _for_every_truth(
        self, value: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        """The ends of an interval for f, `value` being f(T̂), as far as the buckets tell it."""
        from scipy.special import ndtr

        fits = [self._unbiased(each) for each in self._statistics]
        prior, unbiased = (
            value
            + sum(
                slope * (found - mean)
                for slope, found, mean in zip(gradient, at, self.values, strict=True)
            )
            for at in (self._by_row([f[0] for f in fits]), self._by_row([f[1] for f in fits]))
        )
        _, deviation, noise = self._variances(gradient)
        return assisted_interval(
            unbiased,
            np.sqrt(np.maximum(noise, 0.0)),
            prior,
            np.sqrt(np.maximum(deviation, 0.0)),
            2 * float(ndtr(quantile)) - 1,
        )

    def _most(self, count: Statistic) -> FloatArray:
        """How many records a row can count at the most: those of the class, and of the values."""
        forms, fit = self._forms, self._estimated.fit
        held = summed(
            forms, np.broadcast_to(fit.counts, (len(forms.profile), len(fit.counts))), count.values
        )
        records = self._estimated.moments.total(count.number)[forms.pair_class]
        return forms.by_row(np.minimum(held, records))

    def _unseen(self, gradient: Gradient) -> FloatArray:
        """How far along directions that no bucket tells the truth can lie from independence.

        |Σ_x q_x·d_x(e)| ≤ max|q|·Σ_x|d_x(e)|, and the deviations of a class add up to at most
        2·Σ|e| ≤ 2·√(records·Σe²).
        """
        forms, estimated = self._forms, self._estimated
        blind = estimated.fit.unseen()
        found = np.zeros(forms.rows)
        if blind is None:
            return found
        moments = estimated.moments
        for profile, classes, pairs in by_profile(forms, np.arange(moments.classes)):
            row = forms.row[pairs]
            inside = inside_forms(forms, profile)
            for slope, each in self._slopes(gradient, row):
                vector = np.where(inside, each.values[profile], 0.0)
                reach = np.abs(vector @ blind.T).max(axis=-1)
                squares = moments.total(each.weight, each.weight)[classes]
                most = 2 * np.sqrt(np.maximum(moments.total(each.number)[classes] * squares, 0.0))
                np.add.at(found, row[row >= 0], (np.abs(slope) * reach * most[:, None])[row >= 0])
        return found

    def _variances(self, gradient: Gradient) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the posterior, of the prior and of the unbiased estimate, by row; remembered."""
        if self._known is None or self._known[0] is not gradient:
            self._known = gradient, self._quadratics(gradient)
        return self._known[1]

    def _quadratics(self, gradient: Gradient) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ_c Σ_jk Σe_je_k·v_jᵀ·first·v_k − aᵀ·second·a by row (see `PoolFit`)."""
        forms, estimated = self._forms, self._estimated
        found = np.zeros(forms.rows), np.zeros(forms.rows), np.zeros(forms.rows)
        for low, members, fitted in estimated.pool_fits(self._statistics[0].number):
            known = np.zeros((forms.rows, estimated.values)) if self._share_rows else None
            pairs = fitted.posterior, fitted.prior, fitted.noise
            for profile, chosen, pair in by_profile(forms, members):
                at = estimated.pool[members[chosen]] - low
                there = forms.row[pair] >= 0
                for into, (first, second) in zip(found, pairs, strict=True):
                    square = self._classes(gradient, profile, members[chosen], pair, first, at)
                    if known is None:
                        square -= self._classes(
                            gradient, profile, members[chosen], pair, second, at, known=True
                        )
                    np.add.at(into, forms.row[pair][there], square[there])
                if known is not None:
                    self._add_known(known, gradient, profile, members[chosen], pair)
            if known is not None:
                rows = np.flatnonzero((known != 0).any(axis=1))
                for into, (_, second) in zip(found, pairs, strict=True):
                    into[rows] -= second.quadratic(known[rows], self._pool_of_row[rows] - low)
        return found

    def _classes(
        self,
        gradient: Gradient,
        profile: int,
        classes: IntArray,
        pairs: IntArray,
        matrices: PoolMatrices,
        at: IntArray,
        *,
        known: bool = False,
    ) -> FloatArray:
        """Σ_jk (Σe_je_k, or Σe_j·Σe_k)·v_jᵀ·C·v_k by (class, form)."""
        total, row = self._estimated.moments.total, self._forms.row[pairs]
        parts = self._partition(profile)
        terms = list(self._slopes(gradient, row))
        found = np.zeros(row.shape)
        for slope, one in terms:
            for other_slope, other in terms:
                if known:
                    both = total(one.weight)[classes] * total(other.weight)[classes]
                else:
                    both = total(one.weight, other.weight)[classes]
                form = matrices.bilinear(parts, one.values[profile], other.values[profile], at)
                found += slope * other_slope * both[:, None] * form
        return found

    def _slopes(self, gradient: Gradient, row: IntArray) -> Iterator[tuple[FloatArray, Statistic]]:
        """By statistic: the slope of every pair."""
        for slope, each in zip(gradient, self._statistics, strict=True):
            at = np.nan_to_num(np.broadcast_to(slope, (self._forms.rows,)))
            yield np.where(row >= 0, at[row], 0.0), each

    def _partition(self, profile: int) -> Partition:
        if profile not in self._partitions:
            forms = self._forms
            first, last = int(forms.first[profile]), int(forms.first[profile + 1])
            cells = forms.cells[profile]
            made = Partition(np.where(cells >= 0, cells - first, -1), last - first)
            self._partitions[profile] = made
        return self._partitions[profile]

    def _add_known(
        self,
        known: FloatArray,
        gradient: Gradient,
        profile: int,
        classes: IntArray,
        pairs: IntArray,
    ) -> None:
        """Add Σe·v of these classes to their rows."""
        row, of = self._forms.row[pairs], self._partition(profile).of
        values = np.flatnonzero(of >= 0)
        for slope, each in self._slopes(gradient, row):
            added = (slope * self._estimated.moments.total(each.weight)[classes][:, None])[
                :, of[values]
            ] * each.values[profile][values]
            place = row[:, of[values]]
            there = place >= 0
            np.add.at(
                known, (place[there], np.broadcast_to(values, place.shape)[there]), added[there]
            )

    @cached_property
    def _share_rows(self) -> bool:
        """Whether several pairs add to one row, as where mixed conditions make several classes."""
        return int((self._forms.row >= 0).sum()) > self._forms.rows

    @cached_property
    def _pool_of_row(self) -> IntArray:
        forms, estimated = self._forms, self._estimated
        pool = np.zeros(forms.rows, np.int64)
        there = forms.row >= 0
        pool[forms.row[there]] = estimated.pool[forms.pair_class[there]]
        return pool
