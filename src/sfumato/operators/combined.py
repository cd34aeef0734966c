"""Several columns whose values stand together in a list: an estimator of combinations as values.

Questions number values by column, an estimator of buckets the combinations that are listed. What
no bucket lists nobody has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.estimator import Estimated, Estimator, Forms, Moments, Statistic, Totals


class CombinedEstimated(Estimated):
    """Forms over several columns, read as forms over their combinations."""

    def __init__(self, inner: Estimated, codes: tuple[IntArray, ...]) -> None:
        self._inner, self._codes = inner, codes

    def _listed(self, by_column: Any) -> Any:
        """What stands by profile and value of every column, for the combinations."""
        return by_column[(slice(None), *self._codes)]

    def _forms(self, forms: Forms) -> Forms:
        return replace(forms, cells=self._listed(forms.cells))

    def reached(self, forms: Forms) -> BoolArray:
        """A form of combinations that nobody has is reached by nobody."""
        whole = self._forms(forms)
        there = np.zeros(int(forms.first[-1]), np.bool_)
        there[whole.cells[whole.cells >= 0]] = True
        return self._inner.reached(whole) & there[forms.pair_form]

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        listed = [
            replace(
                statistic,
                values=self._listed(statistic.values),
                there=self._listed(statistic.there),
            )
            for statistic in statistics
        ]
        return self._inner.read(self._forms(forms), listed)


class CombinedEstimator(Estimator):
    """`inner` estimates combinations; `codes` are theirs in the columns that are asked about."""

    def __init__(self, inner: Estimator, codes: tuple[IntArray, ...]) -> None:
        self._inner, self._codes = inner, codes

    def estimate(self, moments: Moments) -> Estimated:
        return CombinedEstimated(self._inner.estimate(moments), self._codes)
