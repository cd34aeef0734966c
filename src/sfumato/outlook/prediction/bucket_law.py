"""The errors of the `shrunk` estimate from buckets, without drawing any."""

from __future__ import annotations

import numpy as np

from sfumato.mechanisms.buckets import BucketPlan
from sfumato.operators.base import FloatArray
from sfumato.outlook.prediction.laws import ErrorLaw, normal_quantiles

USUAL_DEVIATION = 0.25  # τ², where only a histogram is known: counts half off from independence
_ALIKE = np.log(2)  # counts half or twice as large


class BucketLaw(ErrorLaw):
    """For one sensitive column in buckets, by its place among them."""

    def __init__(self, plan: BucketPlan, view: int) -> None:
        self._plan, self._view = plan, view
        self.histogram: FloatArray = plan.holdings.views[view].counts.astype(np.float64)

    def draws(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        normal = normal_quantiles()[:, None]
        law = self._plan.foretold(self._view)
        if self._plan.blocks is None:
            people = np.where(self.histogram > 0, self.histogram, np.nan)
            share = np.minimum(sizes / people, 1.0)
            deviation = USUAL_DEVIATION / np.maximum(1 - share, 1e-9) ** 2
            errors = np.sqrt(law.variances(share * (1 - share), deviation)) * np.abs(normal)
            return errors, np.ones((len(normal), 1))
        # usual conditions on the people themselves, those with counts of about this size
        inside = self._plan.blocks.inside(self._plan, self._view)
        counts = inside.sum(axis=0)
        mean, variance = law.errors(inside)
        scale = np.sqrt(sizes / np.maximum(counts, 1.0))
        errors = np.abs(mean + np.sqrt(variance) * normal[:, :, None]) * scale
        off = np.log(np.maximum(counts, 0.1) / sizes) / _ALIKE
        weights = np.where(counts < inside.sum(), np.exp(-(off**2)), 0.0) + 1e-12
        weights = np.broadcast_to(weights, errors.shape)
        return errors.reshape(-1, len(sizes)), weights.reshape(-1, len(sizes))
