"""The default estimator of buckets that were mixed block by block (methods, section 7).

Blocks are public, and records reach slots within their block, so a release is a sum of small ones.
Of block k are known its N_k records, the counts D_k of its values and C_k[x, y] = Σ_g c_x·c_y/|g|.
Let the share a_k of it be in a group, f_k = a_k(1 − a_k), and let the group show o_k. If it were
drawn from the block at random, its counts would be n_k = a_k·D_k on average, with the covariance
f_k(D_k − D_kD_kᵀ/N_k). Groups are not: they deviate by f_k·D_k·δ, with one δ_x ~ N(0, τ²) for all
blocks, because what goes with being in the group goes with it everywhere. Slots are random, so

    r = Σ_k (o_k − a_k·D_k)  has the mean G·δ and the covariance G,  G = Σ_k f_k(C_k − D_kD_kᵀ/N_k),
    E[n | δ, o] = Σ_k o_k + (F − E)·δ,  Cov = F − E,   F = Σ_k f_k·D_k,  E = Σ_k f_k·C_k.

δ is estimated from r, τ² by maximum likelihood, from all blocks together. With one block and
τ² = ∞ this is the inverse; a block that a group holds whole has f_k = 0 and is known exactly. The
answer is what the buckets show, and what they are known to hide of δ. For sums of e over the group
all is the same with f_k = (Σe² − (Σe)²/N_k)/N_k and a δ of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import inside_forms, summed
from sfumato.operators.deviations import BlockTable, Deviations
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Forms,
    Moments,
    Statistic,
    Totals,
)
from sfumato.operators.folding import folded
from sfumato.operators.intervals import assisted_prediction, within_possible

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_AT_ONCE = 1 << 21  # numbers of one kind of matrix that are made at the same time
_KEPT = 1 << 23  # and that are kept for the error bars of what was estimated with them


class LocalEstimator(Estimator):
    """`shares` has the share of every value in every bucket, buckets by number.

    `shrunk` believes of δ what it can know, `inverse` takes G⁺r as it is, `uniform` takes δ as 0.
    """

    def __init__(self, table: BlockTable, shares: csr_array, name: str = "shrunk") -> None:
        self.table, self.shares, self.name = table, shares, name

    def estimate(self, moments: Moments) -> LocalEstimated:
        return LocalEstimated(moments, self.table, self.shares, self.name)


class LocalEstimated(Estimated):
    """Lines show buckets, and buckets are in blocks; every class has a δ for every weight."""

    def __init__(self, moments: Moments, table: BlockTable, shares: csr_array, name: str) -> None:
        self.moments, self.table, self._shares, self.name = moments, table, shares, name
        self.values = shares.shape[1]
        self._block = np.searchsorted(table.first, moments.shown[0], side="right") - 1
        self._sums: dict[tuple[Hashable, ...], Any] = {}
        self._found: dict[Hashable, dict[str, FloatArray]] = {}
        self._fits: dict[Hashable, list[tuple[IntArray, Deviations]]] = {}

    def by_block(self, *weights: Hashable) -> Any:
        """Σ e by (class, block), over N: sparse."""
        from scipy.sparse import csr_array

        if weights not in self._sums:
            shape = (self.moments.classes, len(self.table.rows))
            at = self.moments.of, self._block
            summed_up = csr_array((self.moments.sums[weights], at), shape=shape)
            self._sums[weights] = csr_array(summed_up * (1 / self.table.rows))
        return self._sums[weights]

    def loose(self, one: Hashable, other: Hashable) -> Any:
        """f for two weights, (Σde − ΣdΣe/N)/N by (class, block); never below 0 for d = e."""
        found = self.by_block(one, other) - self.by_block(one) * self.by_block(other)
        if one == other:
            found.data = np.maximum(found.data, 0.0)
        return found

    @cached_property
    def _lined(self) -> dict[Hashable, tuple[FloatArray, FloatArray]]:
        return {}

    def shown(self, weight: Hashable) -> tuple[FloatArray, FloatArray]:
        """By (class, value): Σ_k o_k + n₀ − Mᵀn₀, and r. The two differ by n₀; fakes blur it."""
        from scipy.sparse import csr_array

        if weight not in self._lined:
            at = self.moments.of, self.moments.shown[0]
            shape = (self.moments.classes, self._shares.shape[0])
            lined = csr_array((self.moments.sums[(weight,)], at), shape=shape)
            parts = self.by_block(weight)
            residual = (lined @ self._shares).toarray() - parts @ self.table.shown
            self._lined[weight] = parts @ self.table.counts + residual, residual
        return self._lined[weight]

    def fits(self, weight: Hashable) -> Iterator[tuple[IntArray, Deviations]]:
        """Some classes at a time, with their δ."""
        if weight in self._fits:
            yield from self._fits[weight]
            return
        step, classes = max(_AT_ONCE // self.values**2, 1), np.arange(self.moments.classes)
        kept, loose = list[tuple[IntArray, Deviations]](), self.loose(weight, weight)
        for low in range(0, len(classes), step):
            some = classes[low : low + step]
            found = Deviations.fitted(self.table, loose[some], self.shown(weight)[1][some])
            if len(classes) * self.values**2 <= _KEPT:
                kept.append((some, found))
            yield some, found
        if kept:
            self._fits[weight] = kept

    def estimated(self, weight: Hashable) -> dict[str, FloatArray]:
        """Σ e by (class, value), for every estimator by name."""
        if weight not in self._found:
            start = self.shown(weight)[0]
            found = {name: start.copy() for name in ("shrunk", "inverse", "shown")}
            for classes, deviations in self.fits(weight):
                for name, moved in deviations.moved().items():
                    found[name][classes] += moved
            self._found[weight] = found
        return self._found[weight]

    def possible(self, *weights: Hashable) -> FloatArray:
        """By (class, value): how many records of the class's blocks have the value.

        Where weights are given, of the blocks in which they are anything.
        """
        there = self.by_block(*(weights or next(iter(self.moments.sums)))).copy()
        there.data[:] = there.data != 0 if weights else 1.0
        return np.asarray(there @ self.table.counts)

    def reached(self, forms: Forms) -> BoolArray:
        every = np.ones(forms.cells.shape)
        return np.asarray(summed(forms, self.possible(), every) > 0, np.bool_)

    def present(self, forms: Forms, each: Statistic) -> BoolArray:
        number = self.moments.total(each.number)
        known = np.repeat(number[:, None] > 0, self.values, axis=1).astype(np.float64)
        found = summed(forms, known, each.there.astype(np.float64))
        return np.asarray(forms.by_row(found) > 0, np.bool_)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        whole = folded(self.moments, forms, statistics)
        if whole is None:
            return LocalTotals(self, forms, statistics)
        one = LocalEstimated(whole.moments, self.table, self._shares, self.name)
        return LocalTotals(one, whole.forms, whole.statistics)


class LocalTotals(Totals):
    """Linear forms of the estimates. Classes of one row add up, and so do their variances."""

    def __init__(
        self, estimated: LocalEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self.values = self._by_row(estimated.name)
        self.present = np.stack([estimated.present(forms, each) for each in statistics])
        self._known: dict[bytes, FloatArray] = {}

    def _by_row(self, name: str) -> FloatArray:
        """What the estimator of that name has, by (statistic, row)."""
        forms, estimated = self._forms, self._estimated.estimated
        linear = [
            forms.by_row(summed(forms, estimated(each.weight)[name], each.values))
            for each in self._statistics
        ]
        return np.stack(linear)

    def _beyond(self, name: str, gradient: Sequence[FloatArray | float]) -> FloatArray:
        """How far another estimator's Σ_j gradient_j·T̂_j lies from this one's."""
        steps = zip(gradient, self._by_row(name), self.values, strict=True)
        return np.asarray(sum(slope * (found - own) for slope, found, own in steps))

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        chance, left, noise, _ = self._quadratics(gradient)
        if self._estimated.name == "inverse":
            return np.asarray(chance + noise)
        return np.asarray(chance + left)

    def unbiased(self) -> FloatArray:
        return self._by_row("inverse") if self._estimated.name == "shrunk" else self.values

    def noise(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        chance, _, noise, _ = self._quadratics(gradient)
        return np.asarray(chance + noise)

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        """For every δ, and around the value that is shown; counts within what is possible."""
        from scipy.special import ndtr

        if self._estimated.name != "shrunk":
            return super().interval(value, stderr, quantile, gradient)
        chance, _, noise, prior = np.maximum(self._quadratics(gradient), 0.0)
        low, high = assisted_prediction(
            value + self._beyond("inverse", gradient),
            noise,
            chance,
            value + self._beyond("shown", gradient),
            prior,
            2 * float(ndtr(quantile)) - 1,
        )
        low, high = np.fmin(low, value), np.fmax(high, value)
        first = self._statistics[0]
        if len(self._statistics) == 1 and first.is_count:
            return within_possible(
                (low, high), value, gradient[0], self.values[0], self._most(first)
            )
        return low, high

    def _most(self, count: Statistic) -> FloatArray:
        """How many records a row can count at the most: of its classes, and of its values."""
        forms, estimated = self._forms, self._estimated
        held = summed(forms, estimated.possible(count.number), count.values)
        records = estimated.moments.total(count.number)[forms.pair_class]
        return forms.by_row(np.minimum(held, records))

    def _quadratics(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        """`Deviations.quadratics` of Σ_j gradient_j·T̂_j by row.

        Statistics with the same weight are one linear form of one estimate. Those with the same
        values are one sum of Σ_j gradient_j·e_j, whose δ is fitted anew. Of others the worst is
        taken: that their errors add up.
        """
        slopes = [
            np.nan_to_num(np.broadcast_to(slope, (self._forms.rows,))).astype(np.float64)
            for slope in gradient
        ]
        key = b"".join(slope.tobytes() for slope in slopes)
        if key not in self._known:
            self._known[key] = self._forms_of(slopes)
        return self._known[key]

    def _forms_of(self, slopes: Sequence[FloatArray]) -> FloatArray:
        first, *others = self._statistics
        if all(each.weight == first.weight for each in others):
            return self._of_values(slopes, self._statistics)
        if all(np.array_equal(each.values, first.values) for each in others):
            return self._of_weights(slopes)
        alone = [
            self._of_values([slope], [each])
            for slope, each in zip(slopes, self._statistics, strict=True)
        ]
        return np.asarray(sum(np.sqrt(np.maximum(found, 0.0)) for found in alone) ** 2)

    def _of_values(
        self, slopes: Sequence[FloatArray], statistics: Sequence[Statistic]
    ) -> FloatArray:
        forms = self._forms
        found = np.zeros((4, forms.pairs))
        for classes, deviations in self._estimated.fits(statistics[0].weight):
            for pairs, group in self._pairs_of(classes):
                whole = sum(
                    self._at(slope, pairs)[:, None] * self._form(each, pairs)
                    for slope, each in zip(slopes, statistics, strict=True)
                )
                found[:, pairs] = deviations.quadratics(group, np.asarray(whole))
        return np.stack([forms.by_row(each) for each in found])

    def _of_weights(self, slopes: Sequence[FloatArray]) -> FloatArray:
        from scipy.sparse import csr_array

        forms, estimated, statistics = self._forms, self._estimated, self._statistics
        found = np.zeros((4, forms.pairs))
        step = max(_AT_ONCE // estimated.values**2, 1)
        for low in range(0, forms.pairs, step):
            pairs = np.arange(low, min(low + step, forms.pairs))
            classes = forms.pair_class[pairs]
            at = [self._at(slope, pairs) for slope in slopes]
            loose = csr_array((len(pairs), len(estimated.table.rows)))
            residual = np.zeros((len(pairs), estimated.values))
            for slope, one in zip(at, statistics, strict=True):
                residual += slope[:, None] * estimated.shown(one.weight)[1][classes]
                for other_slope, other in zip(at, statistics, strict=True):
                    part = estimated.loose(one.weight, other.weight)[classes]
                    loose = loose + csr_array(part * (slope * other_slope)[:, None])
            loose.data = np.maximum(loose.data, 0.0)
            deviations = Deviations.fitted(estimated.table, loose, residual)
            form = self._form(statistics[0], pairs)
            found[:, pairs] = deviations.quadratics(np.arange(len(pairs)), form)
        return np.stack([forms.by_row(each) for each in found])

    def _at(self, slope: FloatArray, pairs: IntArray) -> FloatArray:
        row = self._forms.row[pairs]
        return np.where(row >= 0, slope[row], 0.0)

    def _form(self, each: Statistic, pairs: IntArray) -> FloatArray:
        """h by (pair, value)."""
        forms = self._forms
        profile = forms.profile[forms.pair_class[pairs]]
        inside = inside_forms(forms, profile, forms.pair_form[pairs])
        return np.where(inside, each.values[profile], 0.0)

    def _pairs_of(self, classes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Pairs of some classes, and the place of their class among these, some at a time."""
        many = np.diff(self._forms.starts)[classes]
        place = np.repeat(np.arange(len(classes)), many)
        within = np.arange(len(place)) - np.repeat(np.cumsum(many) - many, many)
        pairs = self._forms.starts[classes][place] + within
        step = max(_AT_ONCE // self._estimated.values, 1)
        for low in range(0, len(pairs), step):
            yield pairs[low : low + step], place[low : low + step]
