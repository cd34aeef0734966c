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
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.intervals import ratio_interval


def sum_by(place: IntArray, values: FloatArray, places: int) -> FloatArray:
    """Sums of the values at every place."""
    return np.asarray(np.bincount(place, values, minlength=places), np.float64)


@dataclass(frozen=True, eq=False)
class Moments:
    """Lines: a class, what its records show (a number for each sensitive column), and sums.

    `sums[(e,)]` is Σ e over the records of a line, `sums[(d, e)]` is Σ d·e. Where groups were
    sampled and copied back to their size, `copies` published records stand for one draw, and
    `sampled` says whether the draw was from a sample. Classes with the same `pool` differ only in
    what a mixed expression needs of them; None means that no two do.

    >>> counts = Moments.of_counts(np.array([[3.0, 0.0, 2.0]]), "n")
    >>> counts.shown[0].tolist(), counts.total("n").tolist()
    ([0, 2], [5.0])
    """

    classes: int
    of: IntArray
    shown: tuple[IntArray, ...]
    sums: Mapping[tuple[Hashable, ...], FloatArray]
    copies: FloatArray | None = None
    sampled: BoolArray | None = None
    pool: IntArray | None = None

    @classmethod
    def of_counts(cls, counts: FloatArray, weight: Hashable) -> Moments:
        """Counts by (class, symbol of one column): Σ 1 and Σ 1·1 are the same."""
        of, shown = np.nonzero(counts)
        sums = counts[of, shown]
        return cls(len(counts), of, (shown,), {(weight,): sums, (weight, weight): sums})

    def only(self, lines: BoolArray) -> Moments:
        """Some of the lines; classes without any stay."""
        return replace(
            self,
            of=self.of[lines],
            shown=tuple(each[lines] for each in self.shown),
            sums={weights: each[lines] for weights, each in self.sums.items()},
            copies=None if self.copies is None else self.copies[lines],
            sampled=None if self.sampled is None else self.sampled[lines],
        )

    def total(self, *weights: Hashable) -> FloatArray:
        """The sums of every class, whatever its records show."""
        return self.by_class(self.sums[weights])

    def by_class(self, lines: FloatArray) -> FloatArray:
        """Sums of a number for every line."""
        return sum_by(self.of, lines, self.classes)

    def table(self, weight: Hashable, sizes: Sequence[int]) -> FloatArray:
        """The sums by (class, symbol of each column)."""
        found = np.zeros((self.classes, *sizes))
        np.add.at(found, (self.of, *self.shown), self.sums[(weight,)])
        return found


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
        """Where h adds anything."""
        return np.asarray(self.there & (self.values != 0), np.bool_)

    @cached_property
    def scale(self) -> FloatArray | None:
        """By profile: h of all values that are counted, if it is the same; else None.

        So `SUM(CASE WHEN ill = 'flu' THEN age ELSE 0 END)` is an indicator, scaled by each age.
        """
        counted = self.counted.reshape(len(self.values), math.prod(self.values.shape[1:]))
        h = self.values.reshape(counted.shape)
        most = np.where(counted, h, -np.inf).max(axis=1, initial=-np.inf)
        least = np.where(counted, h, np.inf).min(axis=1, initial=np.inf)
        some = counted.any(axis=1)
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
        found = cls(profile, cells, first, np.empty(0, np.int64), 0)
        return found.placed(np.arange(found.pairs), found.pairs)

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
        return None if self.rows == self.pairs and self._in_order else self.row >= 0

    @cached_property
    def _in_order(self) -> bool:
        return bool((self.row == np.arange(self.pairs)).all())

    def by_row(self, by_pair: FloatArray) -> FloatArray:
        """Sums over the pairs of every row."""
        if self._kept is None:
            return by_pair
        return sum_by(self.row[self._kept], by_pair[self._kept], self.rows)

    def extremes(self, there: BoolArray) -> tuple[IntArray, IntArray]:
        """The lowest and highest value code of every row, for one column of values."""
        many = there.shape[-1]
        low, high = np.full(int(self.first[-1]), many), np.full(int(self.first[-1]), -1)
        profile, code = np.nonzero(there & (self.cells >= 0))
        np.minimum.at(low, self.cells[profile, code], code)
        np.maximum.at(high, self.cells[profile, code], code)
        first, last = np.full(self.rows, many), np.full(self.rows, -1)
        kept = self.row >= 0
        np.minimum.at(first, self.row[kept], low[self.pair_form[kept]])
        np.maximum.at(last, self.row[kept], high[self.pair_form[kept]])
        return first, last


class Totals(ABC):
    """Estimates of some statistics by row, and how their combinations scatter."""

    values: FloatArray  # (statistics, rows)
    present: BoolArray  # (statistics, rows): whether any record could add to it
    _statistics: Sequence[Statistic] = ()

    @abstractmethod
    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        """Var(Σ_j gradient_j·T̂_j) by row: with the gradient of f at T̂, that of f(T̂)."""

    def unbiased(self) -> FloatArray:
        """Unbiased estimates by (statistic, row), as far as there are any."""
        return self.values

    def noise(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        """Var(Σ_j gradient_j·U_j) by row, U being `unbiased`."""
        return self.variance(gradient)

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        """The ends of the interval around f(T̂), `quantile` being that of the normal law."""
        return value - quantile * stderr, value + quantile * stderr

    def ratio_interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        """`interval` where f is the first of two sums over the second."""
        possible = self.quotients()
        if not np.isfinite(possible[0]).all():
            return self.interval(value, stderr, quantile, gradient)
        value = np.clip(value, *possible)
        low, high = fieller(self, quantile, possible)
        low, high = np.fmin(low, value), np.fmax(high, value)
        return np.where(stderr == 0, value, low), np.where(stderr == 0, value, high)

    def quotients(self) -> tuple[FloatArray, FloatArray]:
        """What the first of two sums over the second can be: of counts, 0 … 1 or more."""
        rows = self.values.shape[1]
        low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
        if len(self._statistics) == 2 and all(each.is_count for each in self._statistics):
            first, second = self._statistics
            low[:] = 0.0
            if first.number == second.number and not (first.counted & ~second.counted).any():
                high[:] = 1.0
        return low, high


def fieller(
    totals: Totals, quantile: float, possible: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The interval of the first of two sums over the second, both without bias."""
    top, bottom, both = (totals.noise(g) for g in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0]))
    covariance = top, (both - top - bottom) / 2, bottom
    above, below = totals.unbiased()
    return ratio_interval(above, below, covariance, quantile, possible)


@dataclass(frozen=True, eq=False)
class Exact(Totals):
    """Sums that no sensitive column touches: counted, not estimated."""

    values: FloatArray
    present: BoolArray

    @classmethod
    def of(
        cls, weights: Sequence[tuple[Hashable, Hashable]], moments: Moments, forms: Forms
    ) -> Exact:
        """The sums of weights, each with the weight that counts its records."""
        values, numbers = (
            np.stack([forms.by_row(moments.total(pair[k])[forms.pair_class]) for pair in weights])
            for k in (0, 1)
        )
        return cls(values, numbers > 0)

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        return np.zeros(self.values.shape[1])


class Estimated(ABC):
    """The estimates of one set of moments; linear forms of them are computed when asked for."""

    @abstractmethod
    def reached(self, forms: Forms) -> BoolArray:
        """By pair: whether any record of the class could have a value of the form."""

    @abstractmethod
    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        """Estimate statistics by row."""


class Estimator(ABC):
    """From what is shown to estimates, for one operator or several independent ones."""

    @abstractmethod
    def estimate(self, moments: Moments) -> Estimated:
        """Estimates of these classes."""


def summed(forms: Forms, by_class: FloatArray, values: FloatArray) -> FloatArray:
    """Σ over the values of a form of by_class·h, by pair; `by_class` is by (class, value …)."""
    shape = (len(by_class), forms.cells[0].size if len(forms.cells) else 0)
    form = forms.cells[forms.profile].reshape(shape)
    added = (by_class * values[forms.profile]).reshape(shape)
    pair = forms.starts[:-1, None] + form - forms.first[forms.profile][:, None]
    chosen = form >= 0
    return np.asarray(np.bincount(pair[chosen], added[chosen], minlength=forms.pairs), np.float64)


def inside_forms(forms: Forms, profile: int | IntArray, form: IntArray | None = None) -> BoolArray:
    """Which values are in which form: of all forms of one profile, or by (profile, form)."""
    if form is None:
        assert isinstance(profile, int)
        form = np.arange(forms.first[profile], forms.first[profile + 1])
    return np.asarray(forms.cells[profile] == form[:, None], np.bool_)
