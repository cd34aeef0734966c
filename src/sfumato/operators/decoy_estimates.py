"""Estimates from decoys, with the covariance of their groups (methods, section 3)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from sfumato.operators.base import FloatArray
from sfumato.operators.decoy import DecoySums, ObservedDecoy
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.shrinkage import CountEstimates
from sfumato.operators.weighing import Composition

_FEWEST = 0.5  # of a value that nobody shows: people may have it


class DecoyEstimated(DrawnEstimated):
    """Decoys: the operator whose rows sum to 1, so that estimates add up.

    The number of decoys is fixed, and the operator follows from published counts: rows about one
    value have the variance of `ObservedDecoy.covariance`. That of values about as common as they
    are everywhere is the one of independent draws times 1 − n_A/N·((c−1)/c + 1/(c+1)), and so is
    that of sums over several values.
    """

    def __init__(self, moments: Moments, operator: ObservedDecoy, *, shrunk: bool = True) -> None:
        self._operator, inverse = operator, operator.inverse()
        # the published number of a value is that of its people on average
        rows, shown = float(sum(operator.counts)), np.maximum(operator.counts, _FEWEST)
        shares = shown / shown.sum()
        whole = Composition(rows, shares, shares, np.full(len(shares), rows))
        super().__init__(moments, [inverse], [whole], shrunk=shrunk)

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
        c, rows = self._operator.groups, max(self.rows, 1.0)
        share = forms.by_row(self.moments.total(first.number)[forms.pair_class]) / rows
        closed = plain * (1 - np.clip(share, 0.0, 1.0) * ((c - 1) / c + 1 / (c + 1)))
        if not (first.is_indicator and second.is_indicator):
            return closed
        number, codes = forms.inside(first.there | second.there)
        code = forms.of_rows(np.where(number == 1, codes, -1), number > 0)
        single = np.flatnonzero(code >= 0)
        # what is never negative is kept so: an estimate outside its bounds is noise
        weights = first.weight, second.weight
        square = self._held(forms, weights, first, first is second, independent)
        covariances = [
            self._held(forms, (count.weight,), count, count.weight == count.number, independent)
            for count in (first, second)
        ]
        chosen = [DecoySums(term.all[single], term.own[single]) for term in (square, *covariances)]
        closed[single] = self._operator.covariance(code[single], *chosen)
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
