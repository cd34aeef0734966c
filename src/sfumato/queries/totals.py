"""The totals of one aggregate: what is counted, what is estimated, and from which classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Totals
from sfumato.queries.classes import ByValue
from sfumato.queries.question_plan import Planned
from sfumato.queries.sources import Source


class PartlyExact(Totals):
    """Some statistics are counted, the others estimated: only these scatter."""

    def __init__(self, counted: Totals, estimated: Totals, is_exact: Sequence[bool]) -> None:
        self._estimated, self._is_exact = estimated, is_exact
        parts = [iter(zip(each.values, each.present, strict=True)) for each in (estimated, counted)]
        rows = [next(parts[exact]) for exact in is_exact]
        self.values = np.stack([values for values, _ in rows])
        self.present = np.stack([present for _, present in rows])

    def _own(self, gradient: Sequence[FloatArray | float]) -> list[FloatArray | float]:
        return [slope for slope, exact in zip(gradient, self._is_exact, strict=True) if not exact]

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        return self._estimated.variance(self._own(gradient))

    def unbiased(self) -> FloatArray:
        estimated = self._estimated.unbiased()
        if estimated is self._estimated.values:
            return self.values
        found = self.values.copy()
        found[~np.asarray(self._is_exact)] = estimated
        return found

    def noise(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        return self._estimated.noise(self._own(gradient))

    def interval(
        self,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray | float],
    ) -> tuple[FloatArray, FloatArray]:
        return self._estimated.interval(value, stderr, quantile, self._own(gradient))


def totals_of(
    source: Source,
    planned: Sequence[Planned],
    moments: Moments,
    forms: Forms,
    cells: ByValue | None,
    estimator: Estimator | None,
    estimated: Estimated | None,
) -> Totals:
    """The statistics of an aggregate; `estimated` are the moments of all its classes."""
    apart = source.counts_exactly or cells is None
    exact = [each for each in planned if each.is_exact and apart]
    counted = None
    if exact:
        counted = source.counted([each.weight for each in exact], moments, forms)
    if len(exact) == len(planned) and counted is not None:
        return counted
    assert cells is not None
    assert estimator is not None
    assert estimated is not None
    asked = [each for each in planned if each not in exact]
    adding = _adding(moments, forms, [cells.adding(each) for each in asked])
    if adding is not None:
        estimated = estimator.estimate(moments.only(adding))
    found = estimated.read(forms, [cells.statistic(each) for each in asked])
    if counted is None:
        return found
    return PartlyExact(counted, found, [each in exact for each in planned])


def _adding(moments: Moments, forms: Forms, asked: Sequence[BoolArray]) -> BoolArray | None:
    """The lines of classes that can add to a statistic; None where all can.

    `SUM(CASE WHEN ill = 'flu' AND age < 50 THEN 1 ELSE 0 END)` asks about people below 50: others
    would not be looked at if the question had a WHERE, and so they are not here.
    """
    adds = np.zeros(len(forms.cells), np.bool_)
    for one in asked:
        adds |= one.any(axis=tuple(range(1, one.ndim)))
    active = adds[forms.profile]
    pool = np.arange(moments.classes) if moments.pool is None else moments.pool
    # where nothing adds, what is estimated is 0, of people that are there
    active |= (np.bincount(pool, active, minlength=len(pool)) == 0)[pool]
    return None if active.all() else np.asarray(active[moments.of], np.bool_)
