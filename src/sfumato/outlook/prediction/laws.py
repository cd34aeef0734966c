"""How far counts will be off, for every kind of plan that draws values, before publishing.

Of every value and size of count, under the condition that a histogram alone suggests, where the
value is about as common as in the table. The variance of an estimate is the operator's, and what is
made of it what answers make of it: it is drawn towards independence (`operators.shrinkage`). Errors
are told as a few draws of each value, equally likely or with weights, so that medians over values
are those of all that a reader may see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.operators import ObservedDecoy, Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.shrinkage import SIZES, USUAL, Belief, CountEstimates

_FEW = 16  # quantiles of the normal law
_STEP = 5  # of those of the whole release, so that they do not move with those of the group


class ErrorLaw(ABC):
    """The errors of counts of one sensitive column under one plan."""

    @abstractmethod
    def draws(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """|estimate − truth| by (draw, value) of counts of these sizes, one for every value, and
        their weights (one column where all values have the same); not a number where nothing is
        told."""


class DrawnLaw(ErrorLaw):
    """Where records are drawn one by one."""

    shrinks = True
    histogram: FloatArray

    @abstractmethod
    def usual(self, matching: FloatArray) -> FloatArray:
        """The variance of a value's count among so many people, by value, who are like
        everybody."""

    @cached_property
    def shares(self) -> FloatArray:
        return np.asarray(self.histogram / max(self.histogram.sum(), 1.0))

    def draws(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Over the deviations from independence that are usual."""
        ratios, weights = _usual_ratios()
        rows, errors = self.histogram.sum(), []
        for ratio in ratios:
            expected = sizes / ratio
            matching = np.minimum(expected / np.maximum(self.shares, 1e-300), rows)
            noise, share = np.maximum(self.usual(matching), 0.0), matching / rows
            off = np.sqrt(noise) * normal_quantiles()[:, None]
            shown = sizes + off
            if self.shrinks:
                start = np.maximum(expected + _of_everybody(off, noise, share), 0.0)
                noise, outside = (np.broadcast_to(e, off.shape) for e in (noise, 1 - share))
                cells = CountEstimates(shown, start, noise, outside)
                group = np.zeros(shown.shape, np.int64)
                shown = np.maximum(cells.moved(Belief.usual(1).shrunk(cells, group).kept), 0.0)
            errors.append(np.abs(shown - sizes))
        return np.concatenate(errors), np.repeat(weights, _FEW)[:, None]


def _of_everybody(off: FloatArray, variance: FloatArray, share: FloatArray) -> FloatArray:
    """How far what is expected is off, because the whole release is: by quantile along the first
    axis, partly with the group that is a `share` of it."""
    others = np.sqrt(np.maximum(share * (1 - share) * variance, 0.0))
    apart = normal_quantiles()[np.arange(len(off)) * _STEP % len(off)]
    return np.asarray(share * off + others * apart[:, None])


def normal_quantiles() -> FloatArray:
    """Of the standard normal law, scaled to its variance."""
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(_FEW) + 0.5) / _FEW)
    return np.asarray(quantiles / quantiles.std())


def _usual_ratios() -> tuple[FloatArray, FloatArray]:
    """What counts are over those under independence, and how often."""
    ratios = np.stack([1 - np.sqrt(SIZES), 1 + np.sqrt(SIZES)])
    weights = np.where(ratios > 0, USUAL, 0.0)
    weights = weights * USUAL / weights.sum(axis=0)
    return ratios[weights > 0], weights[weights > 0]


class PerturbedLaw(DrawnLaw):
    """One operator: records are drawn one by one."""

    def __init__(self, operator: Operator, histogram: FloatArray) -> None:
        self.histogram, self.shrinks = histogram, operator.shrinks
        self._of_record = operator.variances(self.shares)

    def usual(self, matching: FloatArray) -> FloatArray:
        return matching * self._of_record


class PartsLaw(DrawnLaw):
    """Sub-tables: a record's part is published, so only the draws inside the parts are noise.

    Which records of a condition stand in which part is chance, and the estimate is unbiased
    whatever it is: the variance is that of the expected numbers.
    """

    def __init__(self, operator: Parts, quotas: IntArray, histogram: FloatArray) -> None:
        self.histogram = histogram
        self._of_record = np.zeros(len(histogram))
        # by (part, value): where a record with the value stands
        for part, spread in zip(operator.parts, quotas / np.maximum(histogram, 1.0), strict=True):
            codes = np.array(part.codes, np.int64)
            inside = self.shares[codes] * spread[codes]
            self._of_record[codes] += part.operator.variances(inside)

    def usual(self, matching: FloatArray) -> FloatArray:
        return matching * self._of_record


class DecoyLaw(DrawnLaw):
    """Decoys: hidden groups, so others show a value by a hypergeometric number."""

    def __init__(self, operator: ObservedDecoy) -> None:
        self.operator, self.histogram = operator, np.array(operator.counts, np.float64)

    def usual(self, matching: FloatArray) -> FloatArray:
        by_value = matching * self.shares
        variances = self.operator.variances_within(np.arange(len(by_value)), by_value, matching)
        variances[self.operator.at_the_limit()] = np.inf
        return variances


class SampledLaw(DrawnLaw):
    """Samples that are copied: the uniform operator's, times what sampling adds over the table."""

    shrinks = False  # few draws, copied often, are no normal law: what is foretold is the most

    def __init__(self, plan: SampledPlan) -> None:
        self.histogram = plan.histogram.counts.astype(np.float64)
        self._of_record = plan.operator.variances(self.shares) * plan.inflation

    def usual(self, matching: FloatArray) -> FloatArray:
        return matching * self._of_record


class UnknownLaw(ErrorLaw):
    """Ranges and sets are known only once they are made."""

    def draws(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.full((1, len(sizes)), np.nan), np.ones((1, 1))
