"""What an estimator is told, what it is asked, and what it answers.

The records that a question selects fall into *classes*: equal in everything quasi that the question
still needs to know of them. Told are the `Moments` of every class: sums over its records, by what
they show. Asked are *statistics* T = Σ over records r of e(r)·h(x_r), x_r being the true values:
e is quasi and stands in the moments, h is a number for every value. Classes whose h differ (because
conditions mix quasi and sensitive columns) have different *profiles*; the values of a profile that
go to the same row of the answer are a *form*. Every formula is in numpy, over all classes at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.intervals import assisted_prediction, ratio_interval
from sfumato.operators.normal import ndtr

Gradient = Sequence[FloatArray | float]
Ends = tuple[FloatArray, FloatArray]

BELIEVED = 1.64 / 1.96  # of a normal interval around what is believed, beside the one that holds


def sum_by(place: IntArray, values: FloatArray, places: int) -> FloatArray:
    """Sums of the values at every place."""
    return np.asarray(np.bincount(place, values, minlength=places), np.float64)


@dataclass(frozen=True, eq=False)
class Moments:
    """Lines: a class, what its records show (a number for each sensitive column), and sums.

    `sums[(e,)]` is Σ e over the records of a line, `sums[(d, e)]` is Σ d·e. Where groups were
    sampled and copied back to their size, `copies` published records stand for one draw (1 where
    all people of a group were drawn for). Classes with the same `pool` differ only in
    what a mixed expression needs of them; None means that no two do.
    """

    classes: int
    of: IntArray
    shown: tuple[IntArray, ...]
    sums: Mapping[tuple[Hashable, ...], FloatArray]
    copies: FloatArray | None = None
    pool: IntArray | None = None
    extremes: Mapping[Hashable, tuple[float, float]] = field(default_factory=dict)  # of an e

    def only(self, lines: BoolArray) -> Moments:
        """Some of the lines; classes without any stay."""
        return replace(
            self,
            of=self.of[lines],
            shown=tuple(symbols[lines] for symbols in self.shown),
            sums={weights: of_weights[lines] for weights, of_weights in self.sums.items()},
            copies=None if self.copies is None else self.copies[lines],
        )

    def both(self, *weights: Hashable) -> FloatArray:
        """Σ d·e by line; what only counts records has itself as its square."""
        return self.sums[weights if weights in self.sums else weights[:1]]

    def total(self, *weights: Hashable) -> FloatArray:
        """The sums of every class, whatever its records show."""
        return self.by_class(self.sums[weights])

    def by_class(self, lines: FloatArray) -> FloatArray:
        """Sums of a number for every line."""
        return sum_by(self.of, lines, self.classes)


@dataclass(frozen=True, eq=False)
class Statistic:
    """T = Σ e(r)·h(x_r): `weight` names e in the moments, `values` is h by (profile, value …).

    `there` says where h is known and asked for; `number` names the moment that counts the records
    with a known e.
    """

    weight: Hashable
    number: Hashable
    values: FloatArray
    there: BoolArray

    @cached_property
    def is_indicator(self) -> bool:
        return bool((self.values == self.there).all())

    @cached_property
    def is_count(self) -> bool:
        """Whether it counts records: those that have some of the values."""
        return self.weight == self.number and bool(np.isin(self.values, (0.0, 1.0)).all())

    @cached_property
    def counted(self) -> BoolArray:
        """The values whose records it sums over: of sums of different numbers a 0 is one, too."""
        return self._adding if self.scale is not None else self.there

    @cached_property
    def _adding(self) -> BoolArray:
        """Where h adds anything."""
        return np.asarray(self.there & (self.values != 0), np.bool_)

    @cached_property
    def scale(self) -> FloatArray | None:
        """By profile: h of all values that add anything, if it is the same; else None.

        So `SUM(CASE WHEN ill = 'flu' THEN age ELSE 0 END)` is an indicator, scaled by each age.
        """
        adding = self._adding.reshape(len(self.values), math.prod(self.values.shape[1:]))
        h = self.values.reshape(adding.shape)
        most = np.where(adding, h, -np.inf).max(axis=1, initial=-np.inf)
        least = np.where(adding, h, np.inf).min(axis=1, initial=np.inf)
        some = adding.any(axis=1)
        return np.where(some, most, 0.0) if (most == least)[some].all() else None


@dataclass(frozen=True, eq=False)
class Forms:
    """Which values of which class add to which row.

    `cells` numbers the form of every (profile, value …), −1 for values that are not asked for; the
    forms of a profile follow one another, from `first[profile]` on. A *pair* is a class with one of
    its forms, in that order; `row` places every pair, −1 for nowhere.
    """

    profile: IntArray  # of every class
    cells: IntArray
    first: IntArray
    row: IntArray
    rows: int

    @classmethod
    def of(cls, profile: IntArray, cells: IntArray, first: IntArray) -> Forms:
        """Every pair is a row of its own."""
        forms = cls(profile, cells, first, np.empty(0, np.int64), 0)
        return forms.placed(np.arange(forms.pairs), forms.pairs)

    def placed(self, row: IntArray, rows: int) -> Forms:
        return replace(self, row=row, rows=rows)

    @cached_property
    def starts(self) -> IntArray:
        """The first pair of every class, and how many there are."""
        many = np.diff(self.first)[self.profile]
        return np.concatenate([[0], np.cumsum(many)])

    @property
    def pairs(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def pair_class(self) -> IntArray:
        return np.repeat(np.arange(len(self.profile)), np.diff(self.starts))

    @cached_property
    def pair_form(self) -> IntArray:
        within = np.arange(self.pairs) - self.starts[:-1][self.pair_class]
        return np.asarray(self.first[:-1][self.profile[self.pair_class]] + within)

    @cached_property
    def _kept(self) -> BoolArray | None:
        whole = self.rows == self.pairs and (self.row == np.arange(self.pairs)).all()
        return None if whole else self.row >= 0

    def by_row(self, by_pair: FloatArray) -> FloatArray:
        """Sums over the pairs of every row."""
        if self._kept is None:
            return by_pair
        return sum_by(self.row[self._kept], by_pair[self._kept], self.rows)

    def inside(self, there: BoolArray) -> tuple[IntArray, IntArray]:
        """By form, for one column of values: how many are there, and the sum of their codes."""
        profile, code = np.nonzero(there & (self.cells >= 0))
        form, many = self.cells[profile, code], int(self.first[-1])
        number, codes = (np.bincount(form, weights, many) for weights in (None, code))
        return number, codes.astype(np.int64)

    def of_rows(self, by_form: IntArray, some: BoolArray | None = None) -> IntArray:
        """What all forms of a row have, or some; −1 where they differ."""
        low, high = np.full(self.rows, by_form.max(initial=-1) + 1), np.full(self.rows, -1)
        kept = (self.row >= 0) & (True if some is None else some[self.pair_form])
        np.minimum.at(low, self.row[kept], by_form[self.pair_form[kept]])
        np.maximum.at(high, self.row[kept], by_form[self.pair_form[kept]])
        return np.where(low == high, low, -1)


@dataclass(frozen=True, eq=False)
class Prior:
    """Of sums, beside what is seen: where they are drawn to, how far chance takes them from what
    `Totals.noise` tells of, and how far these are believed to lie from where they are drawn to."""

    start: FloatArray  # (statistics, rows)
    chance: FloatArray  # (statistics, statistics, rows)
    spread: FloatArray


@dataclass(frozen=True, eq=False)
class Totals:
    """Estimates of some statistics by row, and how far they are off: the same for every kind.

    Sums are by (statistic, row), covariances by (statistic, statistic, row). `noise` is that of
    `unbiased`, `error` the squared error of `values`. `quotients` is what the first of two sums
    over the second can be. `ends` are those that a law has of its own for every sum: of a count
    among sums that are exact, or between which all is that is known.
    """

    values: FloatArray
    unbiased: FloatArray
    present: BoolArray  # whether any record could add to it
    noise: FloatArray
    error: FloatArray
    quotients: Ends | None = None
    prior: Prior | None = None
    ends: Callable[[float], Ends] | None = None

    @classmethod
    def exact(
        cls, weights: Sequence[tuple[Hashable, Hashable]], moments: Moments, forms: Forms
    ) -> Totals:
        """Sums of weights, each with the weight that counts its records: counted, not estimated."""
        values, numbers = (
            np.stack([forms.by_row(moments.total(pair[k])[forms.pair_class]) for pair in weights])
            for k in (0, 1)
        )
        nothing = np.zeros((len(values), *values.shape))
        return cls(values, values, numbers > 0, nothing, nothing)

    def beside(self, counted: Totals, is_exact: Sequence[bool]) -> Totals:
        """With sums that are counted among those that are estimated."""
        exact, rows = np.asarray(is_exact), self.values.shape[1]
        order = np.argsort(np.argsort(exact, kind="stable"))  # the estimated ones come first

        def sums(one: Any, other: Any) -> Any:
            return np.concatenate([one, other])[order]

        def covariance(one: FloatArray) -> FloatArray:
            whole = np.zeros((len(exact), len(exact), rows))
            whole[: len(one), : len(one)] = one
            return whole[np.ix_(order, order)]

        def ends(quantile: float) -> Ends:
            assert self.ends is not None
            low, high = self.ends(quantile)
            return sums(low, counted.values), sums(high, counted.values)

        prior = self.prior and Prior(
            sums(self.prior.start, counted.values),
            covariance(self.prior.chance),
            covariance(self.prior.spread),
        )
        return Totals(
            sums(self.values, counted.values),
            sums(self.unbiased, counted.values),
            sums(self.present, counted.present),
            covariance(self.noise),
            covariance(self.error),
            prior=prior,
            ends=ends if self.ends else None,
        )

    def variance(self, gradient: Gradient) -> FloatArray:
        """Of Σ_j gradient_j·T̂_j by row: with the gradient of f at T̂, that of f(T̂)."""
        return self._form(self.error, gradient)

    @staticmethod
    def _form(covariance: FloatArray, gradient: Gradient) -> FloatArray:
        whole = np.zeros(covariance.shape[2])
        for i, slope in enumerate(gradient):
            for j, other in enumerate(gradient):
                factor = np.asarray(slope * np.asarray(other))
                # what is not asked for adds nothing, however unknown it is
                whole = whole + np.where(factor == 0, 0.0, factor * covariance[i, j])
        return np.where(whole < 0, 0.0, whole)

    def _moved(self, gradient: Gradient, sums: FloatArray) -> FloatArray:
        """Σ_j gradient_j·(sums_j − T̂_j) by row."""
        steps = zip(gradient, sums - self.values, strict=True)
        return np.asarray(sum(np.where(step == 0, 0.0, slope * step) for slope, step in steps))

    def interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> Ends:
        """The ends of the interval around f(T̂), `quantile` being that of the normal law.

        It starts from what is unbiased, and reaches to what is shown and believed.
        """
        if self.ends is not None:
            slopes = np.stack([np.broadcast_to(slope, len(value)) for slope in gradient])
            away = np.stack(self.ends(quantile)) - self.values
            steps = np.where(slopes == 0, 0.0, slopes * away)
            low = value + np.fmin(np.fmin(*steps), 0.0).sum(axis=0)
            high = value + np.fmax(np.fmax(*steps), 0.0).sum(axis=0)
        else:
            low, high = self._around(value, stderr, quantile, gradient)
        # an exact answer ends where it is, not a rounding beside it
        return np.where(stderr == 0, value, low), np.where(stderr == 0, value, high)

    def _around(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> Ends:
        centre = value + self._moved(gradient, self.unbiased)
        noise = self._form(self.noise, gradient)
        if self.prior is None:
            reach, around = quantile * np.sqrt(noise), BELIEVED * quantile * stderr
            return np.fmin(centre - reach, value - around), np.fmax(centre + reach, value + around)
        chance = self._form(self.prior.chance, gradient)
        low, high = assisted_prediction(
            centre,
            np.maximum(noise - chance, 0.0),
            chance,
            value + self._moved(gradient, self.prior.start),
            self._form(self.prior.spread, gradient),
            2 * float(ndtr(quantile)) - 1,
        )
        return np.fmin(low, value), np.fmax(high, value)

    def ratio_interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> Ends:
        """`interval` where f is the first of two sums over the second: Fieller's, from the
        unbiased sums, among what is possible."""
        rows = self.values.shape[1]
        possible = self.quotients or (np.full(rows, -np.inf), np.full(rows, np.inf))
        value = np.clip(value, *possible)
        if self.ends is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                corners = [top / under for top, under in product(*np.stack(self.ends(quantile), 1))]
            low, high = (
                np.fmin(np.fmax(end, possible[0]), possible[1])
                for end in (np.fmin.reduce(corners), np.fmax.reduce(corners))
            )
        else:
            covariance = self.noise[0, 0], self.noise[0, 1], self.noise[1, 1]
            low, high = ratio_interval(
                self.unbiased[0], self.unbiased[1], covariance, quantile, possible
            )
        low, high = np.fmin(low, value), np.fmax(high, value)
        settled = (stderr == 0) | np.isnan(value)
        return np.where(settled, value, low), np.where(settled, value, high)


def quotients_of(statistics: Sequence[Statistic], moments: Moments, forms: Forms) -> Ends | None:
    """What the first of two sums over the second can be: of counts, from 0 up to 1 where the second
    counts all that the first does, else to as many as the first may count for each of the second;
    an average is among what it is the average of."""
    if len(statistics) != 2:
        return None
    first, second = statistics
    if second.weight == first.number and np.array_equal(first.there, second.there):
        return average_ends(first, moments, forms)
    low, high = np.full(forms.rows, -np.inf), np.full(forms.rows, np.inf)
    if first.is_count and second.is_count:
        low[:] = 0.0
        high[:] = forms.by_row(moments.total(first.number)[forms.pair_class])
        if counts_among(first, second, moments):
            high[:] = np.fmin(high, 1.0)
    return low, high


def counts_among(first: Statistic, second: Statistic, moments: Moments) -> bool:
    """Whether all that the first counts is counted by the second, too."""
    numbers = first.number, second.number
    among = numbers[0] == numbers[1] or (
        numbers in moments.sums and np.array_equal(moments.sums[numbers], moments.sums[numbers[:1]])
    )
    return bool(among and not (first.counted & ~second.counted).any())


def average_ends(top: Statistic, moments: Moments, forms: Forms) -> Ends:
    """The ends of what e·h of one record can be, by row.

    e is within mean ± √((n−1)·variance) of the records that show the same, and within what is known
    of it. Those of a pool are taken together, so that a quotient and its CASE form end alike.
    """
    pool = np.arange(moments.classes) if moments.pool is None else moments.pool
    extremes = moments.extremes.get(top.weight, (-np.inf, np.inf))
    h = top.values.reshape(len(top.values), math.prod(top.values.shape[1:]))
    there = top.there.reshape(h.shape)
    adds = np.asarray(there.any(axis=1), np.bool_)
    scale = np.ones(len(h)) if top.scale is None else top.scale
    profile = forms.profile[moments.of]
    same = pool[moments.of]
    for symbols in moments.shown:
        _, same = np.unique(same * (int(symbols.max(initial=0)) + 1) + symbols, return_inverse=True)
    n, total, square = (
        sum_by(same, np.where(adds[profile], sums, 0.0), len(same))[same]
        for sums in (
            moments.sums[(top.number,)],
            scale[profile] * moments.sums[(top.weight,)],
            scale[profile] ** 2 * moments.sums[(top.weight, top.weight)],
        )
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        reach = np.sqrt(np.maximum((n - 1) * (square / n - mean * mean), 0.0))
        record_ends = np.sort(scale[profile] * np.array(extremes)[:, None], axis=0)
    pools = int(pool.max(initial=-1)) + 1
    ends = np.full((2, pools), np.nan)
    np.fmin.at(ends[0], pool[moments.of], np.fmax(mean - reach, record_ends[0]))
    np.fmax.at(ends[1], pool[moments.of], np.fmin(mean + reach, record_ends[1]))
    if top.scale is None:
        every = ends[:, None] * np.array([h[there].min(), h[there].max()])[None, :, None]
        ends = np.array([every.min(axis=(0, 1)), every.max(axis=(0, 1))])
    elif (there & (h == 0)).any():  # CASE … ELSE 0: h is the scale or 0
        ends = np.array([np.fmin(ends[0], 0.0), np.fmax(ends[1], 0.0)])
    ends_by_row = np.full((2, forms.rows), np.nan)
    kept = forms.row >= 0
    of_row = pool[forms.pair_class[kept]]
    np.fmin.at(ends_by_row[0], forms.row[kept], ends[0][of_row])
    np.fmax.at(ends_by_row[1], forms.row[kept], ends[1][of_row])
    return ends_by_row[0], ends_by_row[1]


class Estimated(ABC):
    """The estimates of one set of moments; linear forms of them are computed when asked for."""

    @abstractmethod
    def reached(self, forms: Forms) -> BoolArray:
        """By pair: whether any record of the class could have a value of the form."""

    @abstractmethod
    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        """Estimate statistics by row."""


Estimator = Callable[[Moments], Estimated]  # from what is shown to estimates


def summed(forms: Forms, by_class: FloatArray, values: FloatArray) -> FloatArray:
    """Σ over the values of a form of by_class·h, by pair; `by_class` is by (class, value …)."""
    shape = (len(by_class), forms.cells[0].size if len(forms.cells) else 0)
    form = forms.cells[forms.profile].reshape(shape)
    added = (by_class * values[forms.profile]).reshape(shape)
    pair = forms.starts[:-1, None] + form - forms.first[forms.profile][:, None]
    chosen = form >= 0
    return np.asarray(np.bincount(pair[chosen], added[chosen], minlength=forms.pairs), np.float64)
