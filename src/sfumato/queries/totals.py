"""The totals of one aggregate: what is counted, what is estimated, and from which classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Totals
from sfumato.queries.classes import ByValue
from sfumato.queries.question_plan import Planned
from sfumato.queries.sources import QuestionSource


def totals_of(
    source: QuestionSource,
    planned: Sequence[Planned],
    moments: Moments,
    forms: Forms,
    cells: ByValue | None,
    estimator: Estimator | None,
    estimated: Estimated | None,
) -> Totals:
    """The statistics of an aggregate; `estimated` are the moments of all its classes."""
    apart = source.counts_exactly or cells is None
    exact = [statistic for statistic in planned if statistic.is_exact and apart]
    counted = None
    if exact:
        counted = source.counted([statistic.weight for statistic in exact], moments, forms)
    if len(exact) == len(planned) and counted is not None:
        return counted
    assert cells is not None
    assert estimator is not None
    assert estimated is not None
    asked = [statistic for statistic in planned if statistic not in exact]
    adding = _adding(moments, forms, [cells.adding(statistic) for statistic in asked])
    if adding is not None:
        estimated = estimator(moments.only(adding))
    estimates = estimated.read(forms, [cells.statistic(statistic) for statistic in asked])
    if counted is None:
        return estimates
    return estimates.beside(counted, [statistic in exact for statistic in planned])


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
