"""Estimates from decoys: one value, all but one, and sets of values (methods, section 3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.decoy import Decoy, DecoyForm, DecoySums
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Statistic, sum_by
from sfumato.operators.intervals import ByTruth
from sfumato.operators.structured import Structured

_AT_ONCE = 1 << 22  # numbers that are held at the same time for sets of values
_LEAST = 1e-9  # step in a count


class DecoyEstimated(Structured):
    """Decoys. One value is told from the rest by its own rate; several by the whole operator.

    What asks for all values but one is the total without that one (`_exceptions`). Where a row asks
    about one value, or about all but one, its variance is the groups' own (`Decoy.covariance`).
    """

    def __init__(self, moments: Moments, operator: Decoy) -> None:
        super().__init__(moments, operator.inverse())
        self._operator = operator
        self._whole = Structured(moments, operator.whole_inverse())

    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        found, several = super().linear(forms, sums, values), _counted_values(forms, values) > 1
        if several.any():
            whole = self._whole.linear(forms, sums, values)
            found = np.where(several[forms.pair_form], whole, found)
        for form, (but, most, own) in self._exceptions(forms, values).items():
            pairs = np.flatnonzero(forms.pair_form == form)
            classes = forms.pair_class[pairs]
            total = sum_by(self.moments.of, sums, self.moments.classes)[classes]
            found[pairs] = most * total + (own - most) * self._one(but, sums)[classes]
        return found

    def _one(self, code: int, sums: FloatArray) -> FloatArray:
        """The estimate of one value, by class."""
        of, classes = self.moments.of, self.moments.classes
        shown = sum_by(of, np.where(self._symbol == code, sums, 0.0), classes)
        return np.asarray(
            self.inverse.own[code] * shown + self.inverse.right[code] * sum_by(of, sums, classes)
        )

    @staticmethod
    def _exceptions(forms: Forms, values: FloatArray) -> dict[int, tuple[int, float, float]]:
        """Forms of all values but one, alike: that one, what the others count and what it does."""
        found: dict[int, tuple[int, float, float]] = {}
        size = forms.cells.shape[1]
        for form in np.flatnonzero(_counted_values(forms, values) >= max(size - 1, 2)).tolist():
            profile = int(np.searchsorted(forms.first, form, side="right")) - 1
            counted = np.where(forms.cells[profile] == form, values[profile], 0.0)
            usual = float(np.median(counted[:3]))  # two of three are alike, or it is no such form
            other = np.flatnonzero(counted != usual)
            if usual != 0 and len(other) == 1:
                found[form] = int(other[0]), usual, float(counted[other[0]])
        return found

    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        return self._whole.quadratic(forms, noise, truth, first, second)

    def law(
        self, forms: Forms, statistics: Sequence[Statistic], i: int, j: int, plain: FloatArray
    ) -> FloatArray:
        first, second = statistics[i], statistics[j]
        closed = self._several(forms, first, second, plain)
        if not (first.is_indicator and second.is_indicator):
            return closed
        low, high = forms.extremes(first.there | second.there)
        single = np.flatnonzero(low == high)
        # what is never negative is kept so: an estimate outside its bounds is noise
        square = self._held(forms, (first.weight, second.weight), first, bounded=i == j)
        held = [
            self._held(forms, (each.weight,), each, bounded=each.weight == each.number)
            for each in (first, second)
        ]
        chosen = [DecoySums(each.all[single], each.own[single]) for each in (square, *held)]
        closed[single] = self._operator.covariance(low[single], *chosen)
        rows, but = self._rows_but_one(forms, first, second)
        if len(rows):
            # the one that is left out has what the others lack
            rest = [DecoySums(e.all[rows], (e.all - e.own)[rows]) for e in (square, *held)]
            closed[rows] = self._operator.covariance(but, *rest)
        return closed

    def by_truth(
        self, forms: Forms, each: Statistic, variance: FloatArray, least: FloatArray | None
    ) -> ByTruth | None:
        """Rows about one value, or about all but one: `law` for truths one error further."""
        sums = self.moments.sums[(each.weight,)]
        if not each.is_indicator or (sums < 0).any():
            return None
        held = self._held(forms, (each.weight,), each, bounded=True)
        square = forms.by_row(
            self.counted(forms, self.moments.sums[(each.weight,) * 2], each.there)
        )
        found = forms.by_row(self.linear(forms, sums, each.values))
        low, high = forms.extremes(each.there)
        single = np.flatnonzero(low == high)
        law = ByTruth(variance.copy(), np.zeros(forms.rows), np.zeros(forms.rows))
        but, left_out = self._rows_but_one(forms, each, each)
        for rows, code, sign in ((single, low[single], 1.0), (but, left_out, -1.0)):
            sums_of = code, square[rows], held.all[rows]
            own = held.own[rows] if sign > 0 else held.others[rows]
            step = np.maximum(np.sqrt(np.maximum(variance[rows], 0.0)), _LEAST)
            here, beyond, nobody = (
                self._operator.variance_for(*sums_of, truth)
                for truth in (own, own + step, np.zeros(len(rows)))
            )
            law.slope[rows], law.least[rows] = sign * (beyond - here) / step, nobody
            law.variance[rows] -= law.slope[rows] * (held.own[rows] - found[rows])
        return law

    def _several(
        self, forms: Forms, first: Statistic, second: Statistic, plain: FloatArray
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
            square = self._by_value(known, first.weight, second.weight)[place]
            asked = [
                self._form(forms, each, form, forms.profile[classes], known, place)
                for each in (first, second)
            ]
            found[forms.row[chosen]] = self._operator.set_covariance(square, *asked)
        return found

    def _form(
        self,
        forms: Forms,
        each: Statistic,
        form: IntArray,
        profile: IntArray,
        classes: IntArray,
        place: IntArray,
    ) -> DecoyForm:
        inside = forms.cells[profile] == form[:, None]
        values = np.where(inside, each.values[profile], 0.0)
        weights = np.asarray(self._whole.inverse.weigh(values))
        return DecoyForm(values, weights, self._by_value(classes, each.weight)[place])

    def _by_value(self, classes: IntArray, *weights: Hashable) -> FloatArray:
        """Σ e by (class, true value) as estimated; where e is never negative, neither are they."""
        place = np.full(self.moments.classes, -1)
        place[classes] = np.arange(len(classes))
        lines = np.flatnonzero(place[self.moments.of] >= 0)
        shown = np.zeros((len(classes), len(self.inverse.codes)))
        sums = self.moments.sums[weights][lines]
        np.add.at(shown, (place[self.moments.of[lines]], self._symbol[lines]), sums)
        found = np.asarray(self._whole.inverse.estimate(shown))
        if (sums < 0).any():
            return found
        found = np.maximum(found, 0.0)
        total = shown.sum(axis=1, keepdims=True)
        return np.asarray(found * total / np.maximum(found.sum(axis=1, keepdims=True), 1e-300))

    def _rows_but_one(
        self, forms: Forms, first: Statistic, second: Statistic
    ) -> tuple[IntArray, IntArray]:
        """Rows all of whose pairs ask, for both statistics, for all values but the same one."""
        but = np.full(int(forms.first[-1]), -1)
        both = [self._exceptions(forms, each.values) for each in (first, second)]
        for form, (code, most, own) in both[0].items():
            if own == 0 and both[1].get(form) == (code, most, own):
                but[form] = code
        low, high = np.full(forms.rows, len(forms.cells[0])), np.full(forms.rows, -1)
        kept = forms.row >= 0
        np.minimum.at(low, forms.row[kept], but[forms.pair_form[kept]])
        np.maximum.at(high, forms.row[kept], but[forms.pair_form[kept]])
        rows = np.flatnonzero((low == high) & (low >= 0))
        return rows, low[rows]

    def _held(
        self, forms: Forms, weights: tuple[Hashable, ...], each: Statistic, *, bounded: bool
    ) -> DecoySums:
        sums = self.moments.sums[weights]
        everything = forms.by_row(self.counted(forms, sums, each.there))
        own = forms.by_row(self.linear(forms, sums, each.values))
        return DecoySums(everything, np.clip(own, 0.0, everything) if bounded else own)


def _counted_values(forms: Forms, values: FloatArray) -> IntArray:
    """How many values count in each form."""
    profile, code = np.nonzero((forms.cells >= 0) & (values != 0))
    return np.bincount(forms.cells[profile, code], minlength=int(forms.first[-1]))


class DecoyEstimator(Estimator):
    """For one column of decoys."""

    def __init__(self, operator: Decoy) -> None:
        self._operator = operator

    def estimate(self, moments: Moments) -> Estimated:
        return DecoyEstimated(moments, self._operator)
