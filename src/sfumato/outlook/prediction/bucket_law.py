"""The expected error of the `shrunk` estimate from buckets, without drawing any (`block_law`)."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.mechanisms.buckets import BucketPlan
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.block_law import BlockLaw
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.deviations import BlockTable
from sfumato.outlook.prediction.laws import Asked, ErrorLaw
from sfumato.workloads.questions import CountQuestion

MOST_EXACT = 200  # values: with more, `by_size` would wait for the eigenvalues
USUAL_DEVIATION = 0.25  # τ², where only a histogram is known: counts half off from independence


class BucketLaw(ErrorLaw):
    """For one sensitive column in buckets, by its place among them."""

    def __init__(self, plan: BucketPlan, view: int = 0) -> None:
        self._plan, self._view = plan, view
        self.histogram: FloatArray = plan.holdings.views[view].counts.astype(np.float64)
        histogram = self.histogram
        self._rows = max(float(histogram.sum()), 1.0)
        self._shares = histogram / self._rows

    @property
    def operator(self) -> BucketOperator:
        return self._plan.operator(self._view)

    @cached_property
    def _law(self) -> BlockLaw:
        operator = self.operator
        return BlockLaw(BlockTable.whole(operator.counts, operator.together, self.histogram))

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        bias, covariance = self._law.moments(counts[None, :])
        biases = np.array([bias[values].sum() for values in asked])
        variances = np.array([covariance[np.ix_(values, values)].sum() for values in asked])
        return expected_absolute(biases, variances)

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of M, and how much of each value's count lies along each of them."""
        if len(self.histogram) > MOST_EXACT:
            return self._own_shares, np.eye(1)
        values, vectors = self.operator.spectrum
        return np.clip(values, 0.0, 1.0), vectors**2

    @property
    def _own_shares(self) -> FloatArray:
        """λ = (M[x, x] − share)/(1 − share) for buckets mixed as evenly as they can be.

        A record finds its own value once in its bucket, or more often where the bucket must hold
        it more often.
        """
        inside = np.zeros(len(self.histogram))
        parts = self._plan.filling.parts
        by_part = self._plan.by_part(self._view)
        for held, size, buckets in zip(by_part, parts.sizes, parts.buckets, strict=True):
            inside += held * np.maximum(held / buckets, 1.0) / size
        kept = inside / np.maximum(self.histogram, 1.0)
        rest = np.maximum(1 - self._shares, 1e-300)
        return np.asarray(np.clip((kept - self._shares) / rest, 0.0, 1.0))

    def by_size(self, sizes: FloatArray) -> FloatArray:
        """In the coordinates n_x/√o_x all is diagonal: eigenvalue λ has the noise ν(1−λ)/λ.

        Shrunk towards independence with a deviation of `USUAL_DEVIATION` (and chance beside it),
        a component's error has the variance πν(1−λ)/(λπ + ν(1−λ)), π being the deviation's and
        ν = n_A(1 − n_A/N)/N. With many values each is taken by itself.
        """
        values, squares = self._spectrum
        alone = len(squares) == 1
        people = np.where(self.histogram > 0, self.histogram, np.nan)
        errors = np.empty((len(sizes), len(people)))
        for index, size in enumerate(sizes):
            matching = np.minimum(size * self._rows / people, self._rows)
            prior = (USUAL_DEVIATION * size**2 + size) / people
            noise = matching * (1 - matching / self._rows) / self._rows
            if not alone:
                prior, noise = prior[:, None], noise[:, None]
            above, below = prior * noise * (1 - values), values * prior + noise * (1 - values)
            part = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
            spread = part if alone else (squares * part).sum(axis=1)
            errors[index] = expected_absolute(0.0, people * spread)
        return errors
