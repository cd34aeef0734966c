"""How far answers will be off, for every kind of plan that draws values, before publishing.

A law answers two questions. `within`: given how many records of a condition have each value, what
is E|answer − truth| for sets of values? `by_size`: for every value and size of count, the same
under the condition that a histogram alone suggests, where the value is about as common as in the
table. The variance of an estimate is the operator's, and what is made of it what answers make of
it: it is drawn towards independence (`operators.shrinkage`), here for a few quantiles of its law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.decoy import ValueSums
from sfumato.operators.shrinkage import SIZES, USUAL, Belief, CountEstimates
from sfumato.workloads.questions import CountQuestion

Asked = Sequence[IntArray]  # for each question, the codes of its values
Moments = tuple[float, float]  # bias and variance

_QUANTILES = 32
_FEW = 8  # quantiles, where only a histogram is known
_STEP = 13  # of the quantiles from value to value, so that they do not move together
_MOST = 400  # values that are looked at one by one, if only a histogram is known


class ErrorLaw(ABC):
    """The expected absolute errors of one sensitive column under one plan."""

    @abstractmethod
    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        """For a condition with these true counts by value."""

    @abstractmethod
    def by_size(self, sizes: FloatArray) -> FloatArray:
        """By (size of count, value); not a number where nobody has the value."""


class DrawnLaw(ErrorLaw):
    """Where records are drawn one by one."""

    shrinks = True
    histogram: FloatArray

    @abstractmethod
    def variances(self, counts: FloatArray) -> FloatArray:
        """Of the unbiased estimate of every value."""

    @abstractmethod
    def moments(self, question: CountQuestion, counts: FloatArray, values: IntArray) -> Moments:
        """Bias and variance of the unbiased estimate of a set of values."""

    @abstractmethod
    def usual(self, matching: FloatArray) -> FloatArray:
        """The variance of a value's count among so many people, by (any, value), who are like
        everybody."""

    @cached_property
    def shares(self) -> FloatArray:
        return np.asarray(self.histogram / max(self.histogram.sum(), 1.0))

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        people, every = float(counts.sum()), np.arange(len(counts))
        variance = np.maximum(np.nan_to_num(self.variances(counts), posinf=0.0), 0.0)
        share = people / max(float(self.histogram.sum()), 1.0)
        off = np.sqrt(variance) * _shuffled(len(counts))
        seen, outside = counts + off, np.asarray(1 - share)
        independent = people * self.shares + _of_everybody(off, variance, share)
        belief = Belief.of(
            CountEstimates(seen, independent, np.broadcast_to(variance, seen.shape), outside)
        )
        errors = []
        for values in asked:
            rest = np.setdiff1d(every, values)
            summed = rest if len(rest) < 2 <= len(values) else values  # the total is known
            bias, noise = self.moments(question, counts, summed) if len(summed) else (0.0, 0.0)
            true, expected = counts[summed].sum(), people * self.shares[summed].sum()
            if 2 * expected > people:  # what most people have is what the others have not
                true, expected, bias = people - true, people - expected, -bias
            off = np.sqrt(noise) * _normal(_QUANTILES)
            shown = true + bias + off
            if self.shrinks:
                start = expected + _of_everybody(off, noise, share)
                cells = CountEstimates(shown, start, np.full(len(shown), noise), outside)
                shown = cells.moved(belief.shrunk(cells, np.arange(_QUANTILES)).kept)
                shown = np.clip(shown, 0.0, people)
            errors.append(float(np.abs(shown - true).mean()))
        return np.array(errors)

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


def _shuffled(values: int) -> FloatArray:
    """By (quantile, value): values are apart from each other."""
    places = np.arange(_QUANTILES)[:, None] * (1 + 2 * (np.arange(values) % (_QUANTILES // 2)))
    return np.asarray(_normal(_QUANTILES)[(places + _STEP * np.arange(values)) % _QUANTILES])


def _usual_ratios() -> tuple[FloatArray, FloatArray]:
    """What counts are over those under independence, and how often."""
    ratios = np.stack([1 - np.sqrt(SIZES), 1 + np.sqrt(SIZES)])
    weights = np.where(ratios > 0, USUAL, 0.0)
    weights = weights * USUAL / weights.sum(axis=0)
    return ratios[weights > 0], weights[weights > 0]


class PerturbedLaw(DrawnLaw):
    """One operator: records are drawn one by one (`Operator.expected`)."""

    def __init__(self, operator: Operator, histogram: FloatArray) -> None:
        self.operator, self.histogram, self.shrinks = operator, histogram, operator.shrinks

    def variances(self, counts: FloatArray) -> FloatArray:
        return self.operator.variances(counts)

    def moments(self, question: CountQuestion, counts: FloatArray, values: IntArray) -> Moments:
        marked = np.zeros(len(counts))
        marked[values] = 1.0
        return 0.0, max(float(self.operator.expected(counts, marked)), 0.0)

    def usual(self, matching: FloatArray) -> FloatArray:
        return matching * self._of_record

    @cached_property
    def _of_record(self) -> FloatArray:
        return self.variances(self.shares)


class PartsLaw(PerturbedLaw):
    """Sub-tables: a record's part is published, so only the draws inside the parts are noise.

    Which records of a condition stand in which part is chance, and the estimate is unbiased
    whatever it is: the variance is that of the expected numbers.
    """

    def __init__(self, operator: Parts, quotas: IntArray, histogram: FloatArray) -> None:
        self.histogram = histogram
        # by (part, value): where a record with the value stands
        spread = quotas / np.maximum(histogram, 1.0)
        self._parts = [
            (part.operator, np.array(part.codes, np.int64), part_spread)
            for part, part_spread in zip(operator.parts, spread, strict=True)
        ]

    def variances(self, counts: FloatArray) -> FloatArray:
        by_value = np.zeros(len(counts))
        for operator, codes, spread in self._parts:
            by_value[codes] += operator.variances(counts[codes] * spread[codes])
        return by_value

    def moments(self, question: CountQuestion, counts: FloatArray, values: IntArray) -> Moments:
        marked = np.zeros(len(counts))
        marked[values] = 1.0
        noises = [
            float(operator.expected(counts[codes] * spread[codes], marked[codes]))
            for operator, codes, spread in self._parts
        ]
        return 0.0, max(sum(noises), 0.0)


class DecoyLaw(DrawnLaw):
    """Decoys: hidden groups, so others show a value by a hypergeometric number.

    `groups` knows how values meet in the groups. The estimate takes them to meet as evenly as they
    can (errata S5), which is a bias where they do not, and so does this law without `groups`.
    """

    def __init__(self, operator: Decoy, groups: BucketOperator | None) -> None:
        assert operator.counts is not None
        self.operator = operator
        self.histogram = np.array(operator.counts, np.float64)
        self._meetings = operator.whole_matrix() if groups is None else groups.matrix()
        self._whole = operator.whole_inverse()

    def variances(self, counts: FloatArray) -> FloatArray:
        return self.operator.variances(counts)

    def moments(self, question: CountQuestion, counts: FloatArray, values: IntArray) -> Moments:
        if np.isin(values, self.operator.at_the_limit()).any():
            return np.nan, np.nan
        marked = np.zeros((1, len(counts)))
        marked[0, values] = 1.0
        z = np.asarray(self._whole.weigh(marked))
        bias = float(z[0] @ (counts @ self._meetings)) - float(counts[values].sum())
        if len(values) == 1:
            variance = self.operator.variances_within(values, counts[values], counts.sum())
        else:
            form = ValueSums(marked, z, counts[None, :])
            variance = self.operator.set_covariance(form.sums, form, form)
        return bias, max(float(variance[0]), 0.0)

    def usual(self, matching: FloatArray) -> FloatArray:
        by_value = matching * self.shares
        variances = self.operator.variances_within(np.arange(len(by_value)), by_value, matching)
        variances[self.operator.at_the_limit()] = np.inf
        return variances


class UnknownLaw(ErrorLaw):
    """Ranges and sets are known only once they are made."""

    def __init__(self, values: int) -> None:
        self._values = values

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        return np.full(len(asked), np.nan)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        return np.full((len(sizes), self._values), np.nan)
