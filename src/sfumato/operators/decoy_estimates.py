"""Estimates from decoys, with the covariance of their groups (methods, section 3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.decoy import Decoy, DecoySums, ValueSums
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Statistic
from sfumato.operators.shrinkage import CountEstimates
from sfumato.operators.structured import Composition, Structured

_AT_ONCE = 1 << 22  # numbers that are held at the same time for sets of values


class DecoyEstimated(Structured):
    """Decoys: the operator whose rows sum to 1, so that estimates add up.

    The number of decoys is fixed, and the operator follows from published counts: rows about one
    value have the variance of `Decoy.covariance`, those about several that of `set_covariance`.
    """

    def __init__(self, moments: Moments, operator: Decoy, whole: Composition) -> None:
        super().__init__(moments, operator.whole_inverse(), whole)
        self._operator, self._composition = operator, whole

    def cells(self, number: Hashable) -> CountEstimates:
        estimates = super().cells(number)
        people = estimates.independent.sum(axis=1, keepdims=True)
        every = np.arange(estimates.independent.shape[1])
        return replace(
            estimates,
            variance=self._operator.variances_within(every, estimates.independent, people),
        )

    def law(
        self,
        forms: Forms,
        statistics: Sequence[Statistic],
        at: tuple[int, int],
        plain: FloatArray,
        *,
        independent: bool,
    ) -> FloatArray:
        first, second = (statistics[position] for position in at)
        closed = self._several(forms, first, second, plain, independent)
        if not (first.is_indicator and second.is_indicator):
            return closed
        low, high = forms.extremes(first.there | second.there)
        single = np.flatnonzero(low == high)
        # what is never negative is kept so: an estimate outside its bounds is noise
        square = self._held(
            forms, (first.weight, second.weight), first, at[0] == at[1], independent
        )
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
        method = self.independent if independent else self.linear
        # what only counts records has itself as its square
        sums = self.moments.sums[weights if weights in self.moments.sums else weights[:1]]
        everything = forms.by_row(self.counted(forms, sums, each.there))
        of_row = forms.by_row(method(forms, sums, each.values))
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
        line_sums = self.moments.sums
        sums = line_sums[weights if weights in line_sums else weights[:1]][lines]
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


class DecoyEstimator(Estimator):
    """For one column of decoys, whose operator knows the published counts."""

    def __init__(self, operator: Decoy, *, shrunk: bool = True) -> None:
        self._operator, self._shrunk = operator, shrunk
        shown = np.array(operator.counts, np.float64)
        self._whole = Composition.of(operator.whole_inverse(), shown)

    def estimate(self, moments: Moments) -> Estimated:
        estimated = DecoyEstimated(moments, self._operator, self._whole)
        estimated.shrinks = self._shrunk
        return estimated
