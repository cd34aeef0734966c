"""Classes that differ only in how much their records count, as one class.

`SUM(CASE WHEN ill = 'flu' THEN age END)` makes a class of every age, each of which counts the same
values so many times. The same sum asked as `SUM(age) … WHERE ill = 'flu'` is one class with age as
its weight. An estimator that fits every class by itself would answer the two differently, so the
first is made into the second: the factor goes into the weight.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Forms, Moments, Statistic


@dataclass(frozen=True, eq=False)
class Folded:
    """A question with one class for every pool: the same sums by row."""

    moments: Moments
    forms: Forms
    statistics: list[Statistic]


def folded(moments: Moments, forms: Forms, statistics: Sequence[Statistic]) -> Folded | None:
    """One class for every pool; None where there is nothing to fold, or classes differ in more.

    >>> ages = Moments(2, np.array([0, 1]), (np.array([0, 0]),), {("n",): np.array([3.0, 5.0]),
    ...     ("n", "n"): np.array([3.0, 5.0])}, pool=np.array([0, 0]))
    >>> forms = Forms.of(np.array([0, 1]), np.array([[0, -1], [1, -1]]), np.array([0, 1, 2]))
    >>> aged = np.array([[30.0, 0.0], [40.0, 0.0]])
    >>> one = folded(ages, forms.placed(np.zeros(2, int), 1), [Statistic("n", "n", aged, aged > 0)])
    >>> one.moments.total(one.statistics[0].weight).tolist(), one.statistics[0].values.tolist()
    ([290.0], [[1.0, 0.0]])
    """
    pool = moments.pool
    if pool is None or forms.cells.ndim != 2 or int(pool.max(initial=-1)) + 1 == moments.classes:
        return None
    if any(statistic.scale is None for statistic in statistics):
        return None
    rows = _row_of_value(forms, pool)
    if rows is None:
        return None
    fold = _Fold(moments, forms, pool, rows)
    folded_statistics = [fold.statistic(statistic) for statistic in statistics]
    kept = [statistic for statistic in folded_statistics if statistic is not None]
    return (
        Folded(fold.moments(), fold.forms(), kept) if len(kept) == len(folded_statistics) else None
    )


def _row_of_value(forms: Forms, pool: IntArray) -> IntArray | None:
    """By (pool, value): the row that it adds to; None where classes of a pool differ in it."""
    row_of = np.full((int(pool.max(initial=-1)) + 1, forms.cells.shape[1]), -1)
    classes, value = np.nonzero(forms.cells[forms.profile] >= 0)
    form = forms.cells[forms.profile[classes], value]
    pair = forms.starts[classes] + form - forms.first[forms.profile[classes]]
    row = forms.row[pair]
    np.maximum.at(row_of, (pool[classes], value), row)
    differs = (row >= 0) & (row != row_of[pool[classes], value])
    return None if differs.any() else row_of


class _Fold:
    """The weights of the statistics, each times what its classes count."""

    def __init__(self, moments: Moments, forms: Forms, pool: IntArray, rows: IntArray) -> None:
        self._moments, self._forms, self._pool, self._rows = moments, forms, pool, rows
        self._factors: dict[tuple[Hashable, bytes], FloatArray] = {}
        self._empty = np.bincount(moments.of, minlength=moments.classes) == 0

    def statistic(self, each: Statistic) -> Statistic | None:
        """What it counts, once; None where the classes of a pool count different values."""
        scale, profile = each.scale, self._forms.profile
        assert scale is not None
        asked = self._asked(each.counted)
        counts = asked.any(axis=1)
        together = self._any(asked)
        if (asked != together[self._pool])[counts].any():
            return None
        there = self._asked(each.there)
        factor = np.where(counts, scale[profile], 0.0)
        number = self._name(each.number, np.where(there.any(axis=1), 1.0, 0.0))
        weight = self._name(each.weight, factor)
        return Statistic(weight, number, together.astype(np.float64), self._any(there))

    def _asked(self, chosen: BoolArray) -> BoolArray:
        """By (class, value), where it adds to a row."""
        profile = self._forms.profile
        inside = chosen[profile] & (self._forms.cells[profile] >= 0)
        return np.asarray(inside & (self._rows[self._pool] >= 0), np.bool_)

    def _any(self, asked: BoolArray) -> BoolArray:
        present = np.zeros(self._rows.shape, np.bool_)
        np.logical_or.at(present, self._pool, asked)
        return present

    def _name(self, weight: Hashable, factor: FloatArray) -> Hashable:
        factor = np.where(self._empty, 1.0, factor)  # whatever it is, there is nothing to count
        name = weight, factor.tobytes()
        self._factors[name] = factor
        return name

    def moments(self) -> Moments:
        """Sums of the new weights by the lines that there are."""
        old, of = self._moments, self._moments.of
        sums: dict[tuple[Hashable, ...], FloatArray] = {}
        for one, factor in self._factors.items():
            sums[(one,)] = factor[of] * old.sums[(one[0],)]
            for other, beyond in self._factors.items():
                if (one[0], other[0]) in old.sums:
                    sums[(one, other)] = (factor * beyond)[of] * old.sums[(one[0], other[0])]
        return Moments(len(self._rows), self._pool[of], old.shown, sums)

    def forms(self) -> Forms:
        """Every pool is a profile of its own, with a form for each of its rows."""
        pools, values = self._rows.shape
        cells, row, first = np.full((pools, values), -1), [], [0]
        for index, pools_of_row in enumerate(self._rows):
            distinct, form = np.unique(pools_of_row[pools_of_row >= 0], return_inverse=True)
            cells[index, pools_of_row >= 0] = first[-1] + form
            first.append(first[-1] + len(distinct))
            row.append(distinct)
        pool_forms = Forms.of(np.arange(pools), cells, np.array(first))
        return pool_forms.placed(np.concatenate(row), self._forms.rows)
