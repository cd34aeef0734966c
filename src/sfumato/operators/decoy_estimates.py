"""Estimates from decoys, with the covariance of their groups (methods, section 3)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.decoy import Decoy, DecoySums, ValueSums
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.shrinkage import CountEstimates
from sfumato.operators.weighing import Composition

_AT_ONCE = 1 << 22  # numbers that are held at the same time for sets of values


class DecoyEstimated(DrawnEstimated):
    """Decoys: the operator whose rows sum to 1, so that estimates add up.

    The number of decoys is fixed, and the operator follows from published counts: rows about one
    value have the variance of `Decoy.covariance`, those about several that of `set_covariance`.
    """

    def __init__(self, moments: Moments, operator: Decoy, *, shrunk: bool = True) -> None:
        self._operator, self.inverse = operator, operator.whole_inverse()
        self._composition = Composition.of(self.inverse, np.array(operator.counts, np.float64))
        super().__init__(moments, [self.inverse], [self._composition], shrunk=shrunk)
        (self._symbol,) = moments.shown

    def cells(self, number: Hashable) -> CountEstimates:
        estimates = super().cells(number)
        people = estimates.independent.sum(axis=1, keepdims=True)
        every = np.arange(estimates.independent.shape[1])
        return replace(
            estimates,
            variance=self._operator.variances_within(every, estimates.independent, people),
        )

    def covariance(
        self, forms: Forms, first: Statistic, second: Statistic, *, independent: bool
    ) -> FloatArray:
        plain = super().covariance(forms, first, second, independent=independent)
        closed = self._several(forms, first, second, plain, independent)
        if not (first.is_indicator and second.is_indicator):
            return closed
        low, high = forms.extremes(first.there | second.there)
        single = np.flatnonzero(low == high)
        # what is never negative is kept so: an estimate outside its bounds is noise
        weights = first.weight, second.weight
        square = self._held(forms, weights, first, first is second, independent)
        covariances = [
            self._held(forms, (count.weight,), count, count.weight == count.number, independent)
            for count in (first, second)
        ]
        chosen = [DecoySums(term.all[single], term.own[single]) for term in (square, *covariances)]
        closed[single] = self._operator.covariance(low[single], *chosen)
        return closed

    def _held(
        self,
        forms: Forms,
        weights: tuple[Hashable, ...],
        each: Statistic,
        bounded: bool,
        independent: bool,
    ) -> DecoySums:
        z, sums = self.weights(forms), self.moments.both(*weights)
        everything = forms.by_row(self.counted(forms, sums, each.there))
        if independent:
            of_row = forms.by_row(z.at_pairs(sums, z.true_mean(each.values)))
        else:
            of_row = forms.by_row(z.over_lines(z.weigh(each.values), sums))
        return DecoySums(everything, np.clip(of_row, 0.0, everything) if bounded else of_row)

    def _several(
        self,
        forms: Forms,
        first: Statistic,
        second: Statistic,
        plain: FloatArray,
        independent: bool,
    ) -> FloatArray:
        """Rows of one class that count several values: the groups' law for sets of values."""
        kept = forms.row >= 0
        alone = np.bincount(forms.row[kept], minlength=forms.rows) == 1
        many = np.minimum(*(_counted_values(forms, count.values) for count in (first, second)))
        covariance = plain.copy()
        pairs = np.flatnonzero(kept)
        pairs = pairs[alone[forms.row[pairs]] & (many > 1)[forms.pair_form[pairs]]]
        step = max(_AT_ONCE // forms.cells.shape[1], 1)
        for start in range(0, len(pairs), step):
            chosen = pairs[start : start + step]
            classes, form = forms.pair_class[chosen], forms.pair_form[chosen]
            distinct, inverse = np.unique(classes, return_inverse=True)
            inside = forms.cells[forms.profile[classes]] == form[:, None]
            asked = []
            for count in (first, second):
                values = np.where(inside, count.values[forms.profile[classes]], 0.0)
                sums = self._by_truth(distinct, independent, count.weight)[inverse]
                asked.append(ValueSums(values, self.inverse.weigh(values), sums))
            square = self._by_truth(distinct, independent, first.weight, second.weight)[inverse]
            covariance[forms.row[chosen]] = self._operator.set_covariance(square, *asked)
        return covariance

    def _by_truth(self, classes: IntArray, independent: bool, *weights: Hashable) -> FloatArray:
        """Σ e by (class, true value) as estimated; where e is never negative, neither are they."""
        if independent:
            return self.moments.total(*weights)[classes][:, None] * self._composition.true
        position = np.full(self.moments.classes, -1)
        position[classes] = np.arange(len(classes))
        lines = np.flatnonzero(position[self.moments.of] >= 0)
        shown = np.zeros((len(classes), len(self.inverse.codes)))
        sums = self.moments.both(*weights)[lines]
        np.add.at(shown, (position[self.moments.of[lines]], self._symbol[lines]), sums)
        estimate = np.asarray(self.inverse.estimate(shown))
        if (sums < 0).any():
            return estimate
        estimate = np.maximum(estimate, 0.0)
        total = shown.sum(axis=1, keepdims=True)
        return np.asarray(
            estimate * total / np.maximum(estimate.sum(axis=1, keepdims=True), 1e-300)
        )


def _counted_values(forms: Forms, values: FloatArray) -> IntArray:
    """How many values count in each form."""
    profile, code = np.nonzero((forms.cells >= 0) & (values != 0))
    return np.bincount(forms.cells[profile, code], minlength=int(forms.first[-1]))
