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
        found = super().cells(number)
        people = found.independent.sum(axis=1, keepdims=True)
        every = np.arange(found.independent.shape[1])
        return replace(
            found, variance=self._operator.variances_within(every, found.independent, people)
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
        first, second = (statistics[place] for place in at)
        closed = self._several(forms, first, second, plain, independent)
        if not (first.is_indicator and second.is_indicator):
            return closed
        low, high = forms.extremes(first.there | second.there)
        single = np.flatnonzero(low == high)
        # what is never negative is kept so: an estimate outside its bounds is noise
        square = self._held(
            forms, (first.weight, second.weight), first, at[0] == at[1], independent
        )
        held = [
            self._held(forms, (each.weight,), each, each.weight == each.number, independent)
            for each in (first, second)
        ]
        chosen = [DecoySums(each.all[single], each.own[single]) for each in (square, *held)]
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
        found = self.independent if independent else self.linear
        # what only counts records has itself as its square
        sums = self.moments.sums[weights if weights in self.moments.sums else weights[:1]]
        everything = forms.by_row(self.counted(forms, sums, each.there))
        own = forms.by_row(found(forms, sums, each.values))
        return DecoySums(everything, np.clip(own, 0.0, everything) if bounded else own)

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
        many = np.minimum(*(_counted_values(forms, each.values) for each in (first, second)))
        found = plain.copy()
        pairs = np.flatnonzero(kept)
        pairs = pairs[alone[forms.row[pairs]] & (many > 1)[forms.pair_form[pairs]]]
        step = max(_AT_ONCE // forms.cells.shape[1], 1)
        for start in range(0, len(pairs), step):
            chosen = pairs[start : start + step]
            classes, form = forms.pair_class[chosen], forms.pair_form[chosen]
            known, place = np.unique(classes, return_inverse=True)
            inside = forms.cells[forms.profile[classes]] == form[:, None]
            asked = []
            for each in (first, second):
                values = np.where(inside, each.values[forms.profile[classes]], 0.0)
                sums = self._by_truth(known, independent, each.weight)[place]
                asked.append(ValueSums(values, self.inverse.weigh(values), sums))
            square = self._by_truth(known, independent, first.weight, second.weight)[place]
            found[forms.row[chosen]] = self._operator.set_covariance(square, *asked)
        return found

    def _by_truth(self, classes: IntArray, independent: bool, *weights: Hashable) -> FloatArray:
        """Σ e by (class, true value) as estimated; where e is never negative, neither are they."""
        if independent:
            return self.moments.total(*weights)[classes][:, None] * self._composition.true
        place = np.full(self.moments.classes, -1)
        place[classes] = np.arange(len(classes))
        lines = np.flatnonzero(place[self.moments.of] >= 0)
        shown = np.zeros((len(classes), len(self.inverse.codes)))
        known = self.moments.sums
        sums = known[weights if weights in known else weights[:1]][lines]
        np.add.at(shown, (place[self.moments.of[lines]], self._symbol[lines]), sums)
        found = np.asarray(self.inverse.estimate(shown))
        if (sums < 0).any():
            return found
        found = np.maximum(found, 0.0)
        total = shown.sum(axis=1, keepdims=True)
        return np.asarray(found * total / np.maximum(found.sum(axis=1, keepdims=True), 1e-300))


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
        found = DecoyEstimated(moments, self._operator, self._whole)
        found.shrinks = self._shrunk
        return found
