"""The estimator of bucketed releases: classes of records, and the buckets that they stand in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import BucketFit, Fitted, ShownGroups
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Statistic, Totals

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_AT_ONCE = 1 << 22  # covariances that are held at the same time
_KEPT = 1 << 23  # covariances that are kept for the next linear form


class Beside(ABC):
    """How lines that show buckets meet values."""

    values: int

    @abstractmethod
    def beside(self, moments: Moments, sums: FloatArray) -> FloatArray:
        """Σ over the lines of every class of their sums times what their buckets list."""


class OneList(Beside):
    """Buckets of one column: `shares` by (bucket, value)."""

    def __init__(self, shares: csr_array) -> None:
        self._shares, self.values = shares, shares.shape[1]

    def beside(self, moments: Moments, sums: FloatArray) -> FloatArray:
        from scipy.sparse import csr_array

        shape = (moments.classes, self._shares.shape[0])
        lined = csr_array((sums, (moments.of, moments.shown[0])), shape=shape)
        return np.asarray((lined @ self._shares).toarray())


class ListedEstimated(Estimated):
    """Lines show buckets, and buckets list values: what stands beside the records of a class."""

    def __init__(self, moments: Moments, lists: Beside) -> None:
        self.moments, self._lists, self.values = moments, lists, lists.values
        self._beside: dict[tuple[Hashable, ...], FloatArray] = {}
        self._means: dict[tuple[Hashable, Hashable], FloatArray] = {}

    def beside(self, *weights: Hashable) -> FloatArray:
        """o by (class, value): what stands beside the records in their buckets."""
        if weights not in self._beside:
            self._beside[weights] = self._lists.beside(self.moments, self.moments.sums[weights])
        return self._beside[weights]

    @abstractmethod
    def mean(self, weight: Hashable, number: Hashable) -> FloatArray:
        """n̂ by (class, value)."""

    def reached(self, forms: Forms) -> BoolArray:
        return np.ones(forms.pairs, np.bool_)

    def present(self, forms: Forms, each: Statistic) -> BoolArray:
        """By row: whether any record could add to a statistic."""
        number = self.moments.total(each.number)
        known = np.repeat(number[:, None] > 0, self.values, axis=1).astype(np.float64)
        found = summed(forms, known, each.there.astype(np.float64))
        return np.asarray(forms.by_row(found) > 0, np.bool_)


class BucketEstimated(ListedEstimated):
    """Every class is fitted by itself, once for each weight."""

    def __init__(self, moments: Moments, fit: BucketFit, lists: Beside) -> None:
        super().__init__(moments, lists)
        self.fit = fit
        self._fits: dict[tuple[Hashable, Hashable], Fitted] = {}

    def groups(self, weight: Hashable, number: Hashable, classes: IntArray) -> ShownGroups:
        total, beside = self.moments.total, self.beside
        return ShownGroups(
            total(number)[classes],
            total(weight)[classes],
            total(weight, weight)[classes],
            beside(weight)[classes],
            beside(weight, weight)[classes],
        )

    def fitted(self, weight: Hashable, number: Hashable) -> Iterator[tuple[IntArray, Fitted]]:
        """Some classes at a time, with their estimates."""
        known, key = self._fits.get((weight, number)), (weight, number)
        step = max(_AT_ONCE // self.values**2, 1)
        whole = self.moments.classes * self.values**2 <= _KEPT
        if known is None and whole:
            known = self.fit.fit(self.groups(weight, number, np.arange(self.moments.classes)))
            self._fits[key] = known
        for low in range(0, self.moments.classes, step):
            classes = np.arange(low, min(low + step, self.moments.classes))
            if known is not None:
                yield classes, Fitted(known.mean[classes], known.covariance[classes])
            else:
                yield classes, self.fit.fit(self.groups(weight, number, classes))

    def mean(self, weight: Hashable, number: Hashable) -> FloatArray:
        key = weight, number
        if key not in self._means:
            pieces = [found.mean for _, found in self.fitted(weight, number)]
            self._means[key] = np.concatenate(pieces) if pieces else np.zeros((0, self.values))
        return self._means[key]

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return BucketTotals(self, forms, statistics)


class BucketTotals(Totals):
    """Linear forms of the fitted counts. Classes of one row add up, and so do their variances."""

    def __init__(
        self, estimated: BucketEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self.values = np.stack([forms.by_row(self._linear(each)) for each in statistics])
        self.present = np.stack([estimated.present(forms, each) for each in statistics])

    def _linear(self, each: Statistic) -> FloatArray:
        return summed(self._forms, self._estimated.mean(each.weight, each.number), each.values)

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        """Of Σ_j gradient_j·T̂_j, which is itself one linear form of one set of estimates.

        Either all statistics have the same e, and their h add up; or they have the same h, and
        their e do: then the classes are fitted anew with Σ_j gradient_j·e_j.
        """
        slopes = [np.broadcast_to(slope, (self._forms.rows,)) for slope in gradient]
        first = self._statistics[0]
        if all(each.weight == first.weight for each in self._statistics):
            return self._of_values(slopes)
        if any(not np.array_equal(each.values, first.values) for each in self._statistics):
            raise QueryError(
                "This estimator has no error bar for a combination of sums over quasi and over "
                "sensitive columns. Use the estimator 'shrunk', which has."
            )
        return self._of_weights(slopes)

    def _of_values(self, slopes: Sequence[FloatArray]) -> FloatArray:
        forms, first = self._forms, self._statistics[0]
        found = np.zeros(forms.pairs)
        for classes, fitted in self._estimated.fitted(first.weight, first.number):
            for profile, chosen, pairs in by_profile(forms, classes):
                inside = inside_forms(forms, profile)
                row = forms.row[pairs]
                whole = sum(
                    np.where(row >= 0, slope[row], 0.0)[:, :, None]
                    * np.where(inside, each.values[profile], 0.0)
                    for slope, each in zip(slopes, self._statistics, strict=True)
                )
                covariance = fitted.covariance[chosen]
                found[pairs] = ((whole @ covariance) * whole).sum(axis=2)
        return forms.by_row(found)

    def _of_weights(self, slopes: Sequence[FloatArray]) -> FloatArray:
        forms, estimated, first = self._forms, self._estimated, self._statistics[0]
        found, step = np.zeros(forms.pairs), max(_AT_ONCE // estimated.values**2, 1)
        for low in range(0, forms.pairs, step):
            pairs = np.arange(low, min(low + step, forms.pairs))
            classes, row = forms.pair_class[pairs], forms.row[pairs]
            at = [np.where(row >= 0, np.nan_to_num(slope)[row], 0.0) for slope in slopes]
            fitted = estimated.fit.fit(self._contrast(at, classes))
            inside = inside_forms(forms, forms.profile[classes], forms.pair_form[pairs])
            form = np.where(inside, first.values[forms.profile[classes]], 0.0)
            found[pairs] = np.einsum("ki,kij,kj->k", form, fitted.covariance, form, optimize=True)
        return forms.by_row(found)

    def _contrast(self, slopes: Sequence[FloatArray], classes: IntArray) -> ShownGroups:
        """The moments of Σ_j slope_j·e_j, by pair."""
        total, beside = self._estimated.moments.total, self._estimated.beside
        weights = [each.weight for each in self._statistics]
        number = total(self._statistics[0].number)[classes]
        first, squares = np.zeros(len(classes)), np.zeros(len(classes))
        shown = np.zeros((len(classes), self._estimated.values))
        shown_squares = np.zeros_like(shown)
        for one, slope in zip(weights, slopes, strict=True):
            first += slope * total(one)[classes]
            shown += slope[:, None] * beside(one)[classes]
            for other, beyond in zip(weights, slopes, strict=True):
                squares += slope * beyond * total(one, other)[classes]
                shown_squares += (slope * beyond)[:, None] * beside(one, other)[classes]
        return ShownGroups(number, first, squares, shown, shown_squares)


class BucketEstimator(Estimator):
    """`shares` has the share of every value in every bucket, buckets by number."""

    def __init__(self, fit: BucketFit, shares: csr_array) -> None:
        self.fit, self._lists = fit, OneList(shares)

    def estimate(self, moments: Moments) -> BucketEstimated:
        return BucketEstimated(moments, self.fit, self._lists)


def summed(forms: Forms, by_class: FloatArray, values: FloatArray) -> FloatArray:
    """Σ over the values of a form of by_class·h, by pair; `by_class` is by (class, value …)."""
    shape = (len(by_class), forms.cells[0].size if len(forms.cells) else 0)
    form = forms.cells[forms.profile].reshape(shape)
    added = (by_class * values[forms.profile]).reshape(shape)
    pair = forms.starts[:-1, None] + form - forms.first[forms.profile][:, None]
    chosen = form >= 0
    return np.asarray(np.bincount(pair[chosen], added[chosen], minlength=forms.pairs), np.float64)


def by_profile(forms: Forms, classes: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """A profile, the places of its classes among `classes`, and their pairs."""
    for profile in np.unique(forms.profile[classes]).tolist():
        chosen = np.flatnonzero(forms.profile[classes] == profile)
        many = int(forms.first[profile + 1] - forms.first[profile])
        yield profile, chosen, forms.starts[classes[chosen]][:, None] + np.arange(many)


def inside_forms(forms: Forms, profile: int | IntArray, form: IntArray | None = None) -> BoolArray:
    """Which values are in which form: of all forms of one profile, or by (profile, form)."""
    if form is None:
        assert isinstance(profile, int)
        form = np.arange(forms.first[profile], forms.first[profile + 1])
    return np.asarray(forms.cells[profile] == form[:, None], np.bool_)
