"""How far counts will be off, for every kind of plan that draws values, before publishing.

Of every value and size of count, under the condition that a histogram alone suggests, where the
value is about as common as in the table. The variance of an estimate is the operator's, and what is
made of it what answers make of it: it is drawn towards independence (`operators.shrinkage`), here
for a few quantiles of its law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.shrinkage import SIZES, USUAL, Belief, CountEstimates

_FEW = 8  # quantiles, where only a histogram is known
_STEP = 13  # of the quantiles from value to value, so that they do not move together
_MOST = 400  # values that are looked at one by one, if only a histogram is known


class ErrorLaw(ABC):
    """The expected absolute errors of one sensitive column under one plan."""

    @abstractmethod
    def by_size(self, sizes: FloatArray) -> FloatArray:
        """By (size of count, value); not a number where nobody has the value."""


class DrawnLaw(ErrorLaw):
    """Where records are drawn one by one."""

    shrinks = True
    histogram: FloatArray

    @abstractmethod
    def usual(self, matching: FloatArray) -> FloatArray:
        """The variance of a value's count among so many people, by (any, value), who are like
        everybody."""

    @cached_property
    def shares(self) -> FloatArray:
        return np.asarray(self.histogram / max(self.histogram.sum(), 1.0))

    def by_size(self, sizes: FloatArray) -> FloatArray:
        """Over the deviations from independence that are usual."""
        ratios, weights = _usual_ratios()
        errors = np.full((len(sizes), len(self.shares)), np.nan)
        there = np.flatnonzero(self.shares > 0)
        order = there[np.argsort(self.shares[there], kind="stable")]
        step = max(-(-len(order) // _MOST), 1)
        some = np.unique(np.append(order[::step], order[-1:]))
        some = some[np.argsort(self.shares[some], kind="stable")]
        rows = self.histogram.sum()
        for index, size in enumerate(sizes):
            relative = np.zeros(len(some))
            for ratio, weight in zip(ratios, weights, strict=True):
                expected = size / ratio
                matching = np.minimum(expected / np.maximum(self.shares, 1e-300), rows)
                noise = np.maximum(self.usual(matching)[some], 0.0)
                off, share = (np.sqrt(noise)[:, None] * _normal(_FEW)).T, (matching / rows)[some]
                shown = size + off
                if self.shrinks:
                    start = np.maximum(expected + _of_everybody(off, noise, share), 0.0)
                    noise, outside = (np.broadcast_to(e, off.shape) for e in (noise, 1 - share))
                    cells = CountEstimates(shown, start, noise, outside)
                    group = np.zeros(shown.shape, np.int64)
                    shown = np.maximum(cells.moved(Belief.usual(1).shrunk(cells, group).kept), 0.0)
                relative += weight * np.abs(shown - size).mean(axis=0)
            errors[index, order] = np.interp(self.shares[order], self.shares[some], relative)
            errors[index, some] = relative
        return errors


def _of_everybody(off: FloatArray, variance: FloatArray | float, share: Any) -> FloatArray:
    """How far what is expected is off, because the whole release is: by quantile along the first
    axis, partly with the group that is a `share` of it."""
    others = np.sqrt(np.maximum(share * (1 - share) * variance, 0.0))
    apart = _normal(len(off))[np.arange(len(off)) * _STEP % len(off)]
    return np.asarray(share * off + (others * apart if off.ndim == 1 else others * apart[:, None]))


def _normal(number: int) -> FloatArray:
    """Quantiles of the standard normal law, scaled to its variance."""
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(number) + 0.5) / number)
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

    def __init__(self, operator: Decoy) -> None:
        assert operator.counts is not None
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

    def __init__(self, values: int) -> None:
        self._values = values

    def by_size(self, sizes: FloatArray) -> FloatArray:
        return np.full((len(sizes), self._values), np.nan)
