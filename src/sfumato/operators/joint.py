"""Estimates from several independent columns at once, or from one without structure.

The weights of independent operators multiply, so z = (W₁ ⊗ W₂ ⊗ …)·h, which is computed column by
column and written down by what a record can show of all columns together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, sum_by
from sfumato.operators.inverse import DenseInverse, Inverse, product
from sfumato.operators.shrinkage import CountEstimates
from sfumato.operators.structured import Composition

_AT_ONCE = 1 << 22  # weights that are written down at the same time

Inverses = Sequence[Inverse | DenseInverse]
Weights = Callable[[int, IntArray], FloatArray]  # by (form, joint symbol) of a profile's forms


class Joint(DrawnEstimated):
    """Works profile by profile, on some forms at a time."""

    def __init__(
        self, moments: Moments, inverses: Inverses, whole: Sequence[Composition] | None = None
    ) -> None:
        self.moments, self._inverses, self._whole = moments, inverses, whole
        self.rows = None if whole is None else whole[0].rows
        self._beliefs = {}
        self._patterns = [inverse.pattern() for inverse in inverses]
        sizes = [len(inverse.codes) for inverse in inverses]
        self._symbols = int(np.prod(sizes))
        self._symbol = np.ravel_multi_index(moments.shown, sizes)

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
            own_lines = lines[cuts[profile] : cuts[profile + 1]]
            for low in range(int(forms.first[profile]), int(forms.first[profile + 1]), step):
                high = min(low + step, int(forms.first[profile + 1]))
                yield profile, classes, own_lines, np.arange(low, high)

    def _weighed(
        self, forms: Forms, profile: int, chosen: IntArray, values: FloatArray, by: Inverses
    ) -> FloatArray:
        """z by (form, joint symbol)."""
        inside = forms.cells[profile] == chosen.reshape(-1, *([1] * (forms.cells.ndim - 1)))
        weighed = np.where(inside, values[profile], 0.0)
        for axis, inverse in enumerate(by, start=1):
            weighed = np.moveaxis(inverse.weigh(np.moveaxis(weighed, axis, -1)), -1, axis)
        return weighed.reshape(len(chosen), -1)

    def _summed(self, forms: Forms, sums: FloatArray, weights: Weights) -> FloatArray:
        """Σ sums·weights over the lines, by pair."""
        from scipy.sparse import csr_array

        totals = np.zeros(forms.pairs)
        for profile, classes, lines, chosen in self._pieces(forms):
            whole = weights(profile, chosen)
            index, symbol = np.searchsorted(classes, self.moments.of[lines]), self._symbol[lines]
            first = forms.starts[classes] - int(forms.first[profile])
            pairs = first[:, None] + chosen[None, :]
            finite = np.isfinite(sums[lines])
            shape = (len(classes), self._symbols)
            lined = csr_array((np.where(finite, sums[lines], 0.0), (index, symbol)), shape=shape)
            totals[pairs] += np.asarray(lined @ whole.T)
            for line in np.flatnonzero(~finite):
                totals[pairs[index[line]]] += product(sums[lines[line]], whole[:, symbol[line]])
        return totals

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
                self._weighed(forms, profile, chosen, sums, self._inverses)
                for sums in (first, second)
            )
            return one * other

        variance = self.linear(forms, -noise if truth is None else truth, first * second)
        return self._summed(forms, noise, weights) + variance

    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        def weights(profile: int, chosen: IntArray) -> FloatArray:
            asked = there.astype(np.float64)
            reached = self._weighed(forms, profile, chosen, asked, self._patterns) > 0
            return reached.astype(np.float64)

        return self._summed(forms, sums, weights)

    def _shares(self, of: str) -> list[FloatArray]:
        """By column: how often the release shows every symbol, or has every value."""
        assert self._whole is not None
        if of == "shown":
            return [whole.shown for whole in self._whole]
        return [
            np.bincount(inverse.codes, whole.true, inverse.values).astype(np.float64)
            for whole, inverse in zip(self._whole, self._inverses, strict=True)
        ]

    def _over_values(self, forms: Forms, values: FloatArray, of: str) -> FloatArray:
        """By form: Σ h over values, each as often as the release has it, columns independent."""
        shares, over_values = _outer(self._shares(of)), np.zeros(int(forms.first[-1]))
        inside = forms.cells >= 0
        np.add.at(over_values, forms.cells[inside], (values * shares)[inside])
        return over_values

    def _at_pairs(self, forms: Forms, sums: FloatArray, by_form: FloatArray) -> FloatArray:
        return product(self.moments.by_class(sums)[forms.pair_class], by_form[forms.pair_form])

    def independent(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        return self._at_pairs(forms, sums, self._over_values(forms, values, "true"))

    def expected(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        square, shown = np.zeros(int(forms.first[-1])), _outer(self._shares("shown")).reshape(-1)
        for profile, _, _, chosen in self._pieces(forms):
            one, other = (
                self._weighed(forms, profile, chosen, sums, self._inverses)
                for sums in (first, second)
            )
            square[chosen] = (one * other) @ shown
        over_values = self._over_values(forms, first * second, "true")
        truth_weights = -noise if truth is None else truth
        return self._at_pairs(forms, noise, square) + self._at_pairs(
            forms, truth_weights, over_values
        )

    def rates(self, forms: Forms, sums: FloatArray, there: BoolArray) -> tuple[FloatArray, ...]:
        """As `Structured.rates`, with the weights written down."""
        asked = there.astype(np.float64)
        has = self._over_values(forms, asked, "true")
        shown = _outer(self._shares("shown")).reshape(-1)
        shows, inside, outside = np.zeros((3, len(has)))
        for profile, _, _, chosen in self._pieces(forms):
            weights = self._weighed(forms, profile, chosen, asked, self._inverses)
            own_rate = self._marked(forms, profile, chosen, there)
            shows[chosen] = own_rate @ shown
            inside[chosen] = (own_rate * weights) @ shown
            outside[chosen] = ((1 - own_rate) * weights) @ shown
        with np.errstate(divide="ignore", invalid="ignore"):
            step = inside / shows - outside / (1 - shows)
            jump = np.where(np.isfinite(step) & (step >= 1), 1 / step, 1.0)
        other = np.clip(shows - has * jump, 0.0, 1.0)
        parts = (has, has * np.clip(other + jump, 0.0, 1.0), 1 - has, (1 - has) * other)
        return tuple(self._at_pairs(forms, sums, part) for part in parts)

    def _marked(self, forms: Forms, profile: int, chosen: IntArray, there: BoolArray) -> FloatArray:
        """By (form, joint symbol): whether it shows something that is asked for."""
        wide = chosen.reshape(-1, *([1] * (forms.cells.ndim - 1)))
        inside = there[profile] & (forms.cells[profile] == wide)
        places = np.ix_(np.arange(len(chosen)), *(inverse.codes for inverse in self._inverses))
        return np.asarray(inside[places].reshape(len(chosen), -1), np.float64)

    def cells(self, number: Hashable) -> CountEstimates:
        pools = self.pools
        sums, pool = self.moments.sums[(number,)], self.pool[self.moments.of]
        copies = np.ones(len(sums)) if self.moments.copies is None else self.moments.copies
        shape = (pools, *(len(inverse.codes) for inverse in self._inverses))
        shown = sum_by(pool * self._symbols + self._symbol, sums, pools * self._symbols)
        shown = shown.reshape(shape)
        for axis, inverse in enumerate(self._inverses, start=1):
            by_symbol = inverse.estimate(np.moveaxis(shown, axis, -1))
            by_value = np.zeros((*by_symbol.shape[:-1], inverse.values))
            np.add.at(by_value.T, inverse.codes, by_symbol.T)
            shown = np.moveaxis(by_value, -1, axis)
        squares = [
            share @ (inverse.weigh(np.eye(inverse.values)).T ** 2)
            for share, inverse in zip(self._shares("shown"), self._inverses, strict=True)
        ]
        true = _outer(self._shares("true")).reshape(-1)
        noise = np.maximum(_outer(squares).reshape(-1) - true, 0.0)
        people, drawn = sum_by(pool, sums, pools), sum_by(pool, sums * copies, pools)
        assert self.rows is not None
        return CountEstimates(
            shown.reshape(pools, len(true)),
            people[:, None] * true,
            drawn[:, None] * noise,
            1 - people[:, None] / max(self.rows, 1.0),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(inverse.values for inverse in self._inverses)


def _outer(shares: Sequence[FloatArray]) -> FloatArray:
    """Products of one share of every column."""
    products = np.ones(())
    for share in shares:
        products = np.multiply.outer(products, share)
    return np.asarray(products)


class JointEstimator(Estimator):
    """For several independent columns, or for one without structure; `whole` by column."""

    def __init__(
        self,
        inverses: Inverses,
        whole: Sequence[Composition] | None = None,
        *,
        shrunk: bool = True,
    ) -> None:
        self._inverses, self._whole, self._shrunk = inverses, whole, shrunk

    def estimate(self, moments: Moments) -> Estimated:
        estimated = Joint(moments, self._inverses, self._whole)
        estimated.shrinks = self._shrunk
        return estimated
