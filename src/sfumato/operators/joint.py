"""Estimates from several independent columns at once, or from one without structure.

The weights of independent operators multiply, so z = (W₁ ⊗ W₂ ⊗ …)·h, which is computed column by
column and written down by what a record can show of all columns together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Statistic, sum_by
from sfumato.operators.inverse import DenseInverse, Inverse, product

_AT_ONCE = 1 << 22  # weights that are written down at the same time
_RARE = 1e-9  # a share that is none

Inverses = Sequence[Inverse | DenseInverse]
Weights = Callable[[int, IntArray], FloatArray]  # by (form, joint symbol) of a profile's forms


class Joint(DrawnEstimated):
    """Works profile by profile, on some forms at a time."""

    def __init__(self, moments: Moments, inverses: Inverses) -> None:
        self.moments, self._inverses = moments, inverses
        self._patterns = [each.pattern() for each in inverses]
        sizes = [len(each.codes) for each in inverses]
        self._symbols = int(np.prod(sizes))
        self._symbol = np.ravel_multi_index(moments.shown, sizes)
        self.largest = max(each.largest for each in inverses)

    def _pieces(self, forms: Forms) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
        """A profile, its classes, their lines, and some of its forms."""
        by_profile = np.argsort(forms.profile, kind="stable")
        bounds = np.searchsorted(forms.profile[by_profile], np.arange(len(forms.cells) + 1))
        of_lines = forms.profile[self.moments.of]
        lines = np.argsort(of_lines, kind="stable")
        cuts = np.searchsorted(of_lines[lines], np.arange(len(forms.cells) + 1))
        step = max(_AT_ONCE // self._symbols, 1)
        for profile in range(len(forms.cells)):
            classes = by_profile[bounds[profile] : bounds[profile + 1]]
            own = lines[cuts[profile] : cuts[profile + 1]]
            for low in range(int(forms.first[profile]), int(forms.first[profile + 1]), step):
                high = min(low + step, int(forms.first[profile + 1]))
                yield profile, classes, own, np.arange(low, high)

    def _weighed(
        self, forms: Forms, profile: int, chosen: IntArray, values: FloatArray, by: Inverses
    ) -> FloatArray:
        """z by (form, joint symbol)."""
        inside = forms.cells[profile] == chosen.reshape(-1, *([1] * (forms.cells.ndim - 1)))
        found = np.where(inside, values[profile], 0.0)
        for axis, inverse in enumerate(by, start=1):
            found = np.moveaxis(inverse.weigh(np.moveaxis(found, axis, -1)), -1, axis)
        return found.reshape(len(chosen), -1)

    def _summed(self, forms: Forms, sums: FloatArray, weights: Weights) -> FloatArray:
        """Σ sums·weights over the lines, by pair."""
        from scipy.sparse import csr_array

        found = np.zeros(forms.pairs)
        for profile, classes, lines, chosen in self._pieces(forms):
            whole = weights(profile, chosen)
            place, symbol = np.searchsorted(classes, self.moments.of[lines]), self._symbol[lines]
            first = forms.starts[classes] - int(forms.first[profile])
            pairs = first[:, None] + chosen[None, :]
            known = np.isfinite(sums[lines])
            shape = (len(classes), self._symbols)
            lined = csr_array((np.where(known, sums[lines], 0.0), (place, symbol)), shape=shape)
            found[pairs] += np.asarray(lined @ whole.T)
            for line in np.flatnonzero(~known):
                found[pairs[place[line]]] += product(sums[lines[line]], whole[:, symbol[line]])
        return found

    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        def weights(profile: int, chosen: IntArray) -> FloatArray:
            return self._weighed(forms, profile, chosen, values, self._inverses)

        return self._summed(forms, sums, weights)

    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        def weights(profile: int, chosen: IntArray) -> FloatArray:
            one, other = (
                self._weighed(forms, profile, chosen, each, self._inverses)
                for each in (first, second)
            )
            return one * other

        known = self.linear(forms, -noise if truth is None else truth, first * second)
        return self._summed(forms, noise, weights) + known

    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        def weights(profile: int, chosen: IntArray) -> FloatArray:
            asked = there.astype(np.float64)
            reached = self._weighed(forms, profile, chosen, asked, self._patterns) > 0
            return reached.astype(np.float64)

        return self._summed(forms, sums, weights)

    def floor(self, forms: Forms, sums: FloatArray, each: Statistic) -> FloatArray | None:
        """Σ_x n_x·Var(z | x) for what the class may consist of: its estimates, none below 0.

        Few records can by chance show nothing of what is asked, and then tell of no variance.
        """
        if self._forward is None or (sums < 0).any():
            return None
        composed, found = self._composition(forms, each), np.zeros(forms.pairs)
        for _, classes, pairs, spread in self._spreads(forms, each.counted):
            found[pairs] = composed[self._pool[classes]] @ spread.T
        return product(found, sum_by(self.moments.of, sums, self.moments.classes)[forms.pair_class])

    def steepness(self, forms: Forms, sums: FloatArray, each: Statistic) -> FloatArray | None:
        """The mean of Var(z | x) over the values that are asked for, less that over the others."""
        if self._forward is None:
            return None
        composition, found = self._composition(forms, each), np.zeros(forms.pairs)
        for inside, classes, pairs, spread in self._spreads(forms, each.counted):
            composed = composition[self._pool[classes]]
            means = []
            for chosen in (inside, ~inside):
                several = np.maximum(composed @ chosen.T, 1e-300)
                plain = (spread * chosen).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1)
                means.append(
                    np.where(several > _RARE, composed @ (spread * chosen).T / several, plain)
                )
            found[pairs] = means[0] - means[1]
        return product(found, sum_by(self.moments.of, sums, self.moments.classes)[forms.pair_class])

    def _spreads(
        self, forms: Forms, there: BoolArray
    ) -> Iterator[tuple[BoolArray, IntArray, IntArray, FloatArray]]:
        """What is asked for, classes, pairs, and Var(z | x) by (form, value), some at a time."""
        for profile, classes, _, chosen in self._pieces(forms):
            shape = (len(chosen), *(each.values for each in self._inverses))
            asked = there.astype(np.float64)
            z = self._weighed(forms, profile, chosen, asked, self._inverses).reshape(shape)
            square, mean = self._by_truth(z**2), self._by_truth(z)
            spread = np.maximum(square - mean**2, 0.0).reshape(len(chosen), -1)
            inside = there[profile] & (
                forms.cells[profile] == chosen.reshape(-1, *([1] * (forms.cells.ndim - 1)))
            )
            pairs = forms.starts[classes][:, None] + (chosen - int(forms.first[profile]))[None, :]
            yield inside.reshape(len(chosen), -1), classes, pairs, spread

    def _by_truth(self, shown: FloatArray) -> FloatArray:
        """The mean of a function of what is shown, by true values."""
        assert self._forward is not None
        for axis, matrix in enumerate(self._forward, start=1):
            shown = np.moveaxis(np.moveaxis(shown, axis, -1) @ matrix.T, -1, axis)
        return shown

    @cached_property
    def _pool(self) -> IntArray:
        """Classes of one pool have one composition: a sum and its CASE form agree."""
        pool = self.moments.pool
        return np.arange(self.moments.classes) if pool is None else pool

    def _composition(self, forms: Forms, each: Statistic) -> FloatArray:
        """Estimated shares of the records that can add, by (pool, true values), none negative."""
        adds = np.asarray(each.there.any(axis=tuple(range(1, each.there.ndim))), np.bool_)
        chosen = adds[forms.profile[self.moments.of]]
        records = np.where(chosen, self.moments.sums[(each.number,)], 0.0)
        sizes = [len(each.codes) for each in self._inverses]
        found = np.zeros((int(self._pool.max(initial=-1)) + 1, self._symbols))
        np.add.at(found, (self._pool[self.moments.of], self._symbol), records)
        found = found.reshape(-1, *sizes)
        for axis, inverse in enumerate(self._inverses, start=1):
            found = np.moveaxis(inverse.estimate(np.moveaxis(found, axis, -1)), -1, axis)
        flat = np.maximum(found.reshape(len(found), self._symbols), 0.0)
        return np.asarray(flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-300))

    @cached_property
    def _forward(self) -> list[FloatArray] | None:
        """P of every column; None where sub-tables or a value that tells nothing are there."""
        if any(len(each.codes) != each.values for each in self._inverses):
            return None
        weights = [each.weigh(np.eye(each.values)).T for each in self._inverses]
        if not all(np.isfinite(each).all() for each in weights):
            return None
        return [np.asarray(np.linalg.inv(each), np.float64) for each in weights]


class JointEstimator(Estimator):
    """For several independent columns, or for one without structure."""

    def __init__(self, inverses: Inverses) -> None:
        self._inverses = inverses

    def estimate(self, moments: Moments) -> Estimated:
        return Joint(moments, self._inverses)
