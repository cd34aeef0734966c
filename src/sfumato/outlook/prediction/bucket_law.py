"""The expected error of the `shrunk` estimate from buckets, without drawing any."""

from __future__ import annotations

import numpy as np

from sfumato.mechanisms.buckets import BucketPlan
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.outlook.prediction.laws import ErrorLaw

USUAL_DEVIATION = 0.25  # τ², where only a histogram is known: counts half off from independence


class BucketLaw(ErrorLaw):
    """For one sensitive column in buckets, by its place among them."""

    def __init__(self, plan: BucketPlan, view: int) -> None:
        self._plan, self._view = plan, view
        self.histogram: FloatArray = plan.holdings.views[view].counts.astype(np.float64)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        """As if every block let through what usual conditions let of it, on average."""
        people = np.where(self.histogram > 0, self.histogram, np.nan)
        share = np.minimum(sizes[:, None] / people, 1.0)
        deviation = USUAL_DEVIATION / np.maximum(1 - share, 1e-9) ** 2
        law = self._plan.foretold(self._view)
        return expected_absolute(0.0, law.variances(share * (1 - share), deviation))
