"""How far the counts of a release will be off, told from its plan and the histograms before it is
published.

Of every value and size of count, under the condition that a histogram alone suggests, where the
value is about as common as in the table. The variance of an estimate is the operator's, and what is
made of it what answers make of it: it is drawn towards independence (`operators.shrinkage`). Errors
are told as a few draws of each value, equally likely or with weights, so that medians over values
are those of all that a reader may see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, singledispatch

import numpy as np

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.mechanisms import Plan
from sfumato.mechanisms.buckets import BucketPlan
from sfumato.mechanisms.partitioned import PartitionedPlan
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.mechanisms.splu import DecoyPlan
from sfumato.operators import Decoy, ObservedDecoy, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.shrinkage import SIZES as DEVIATIONS
from sfumato.operators.shrinkage import USUAL, Belief, CountEstimates
from sfumato.profile import Profile

SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
USUAL_DEVIATION = 0.25  # τ², where only a histogram is known: counts half off from independence
_ALIKE = np.log(2)  # counts half or twice as large
_FEW = 16  # quantiles of the normal law
_STEP = 5  # of those of the whole release, so that they do not move with those of the group

# |estimate − truth| by (draw, value) of counts of these sizes, one for every value, and the weights
# of the draws (one column where all values have the same); not a number where nothing is told
Errors = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
# the variance of a value's count among so many people, by value, who are like everybody
Variance = Callable[[FloatArray], FloatArray]


def error_by_count(
    plan: Plan, profile: Profile, column: str, sizes: Sequence[int] = SIZES
) -> dict[int, float]:
    """For each size the median of |estimate − truth| / truth over the values that many people have.

    A count of that size is taken within a condition that has nothing to do with the sensitive
    column. Sizes that no value reaches are left out. Not a number for ranges and sets.
    """
    histogram = profile.histograms[column]
    errors_of = errors_of_plan(plan, profile, column)
    predicted = {}
    for size in sizes:
        reached = histogram.counts >= size
        if size > 0 and reached.any():
            errors, weights = errors_of(np.full(len(reached), float(size)))
            weights = np.broadcast_to(weights, errors.shape)
            (median,) = _medians(*(e[:, reached].reshape(1, -1) for e in (errors, weights)))
            predicted[int(size)] = float(median / size)
    return predicted


def error_by_value(
    plan: Plan, profile: Profile, column: str, size: int = 500
) -> list[tuple[Value, float]]:
    """For each value the median relative error of a count of `size`, or of its whole count.

    Not a number where nobody has the value, and for ranges and sets.
    """
    histogram = profile.histograms[column]
    people = np.minimum(histogram.counts, size).astype(np.float64)
    errors, weights = errors_of_plan(plan, profile, column)(np.maximum(people, 1.0))
    medians = np.where(people > 0, _medians(errors.T, weights.T) / np.maximum(people, 1.0), np.nan)
    return list(zip(histogram.values, medians.tolist(), strict=True))


def _medians(errors: FloatArray, weights: FloatArray) -> FloatArray:
    """Of draws with weights, along the last axis, between the two draws in the middle.

    >>> _medians(np.array([[4.0, 1.0, 3.0, 2.0]]), np.ones((1, 4))).tolist()
    [2.5]
    """
    order = np.argsort(errors, axis=-1)
    ordered, steps = (
        np.take_along_axis(np.broadcast_to(e, errors.shape), order, axis=-1)
        for e in (errors, weights)
    )
    middle = np.cumsum(steps, axis=-1) - (steps + steps.sum(axis=-1, keepdims=True)) / 2
    above = (middle < 0).sum(axis=-1)
    ends = np.stack([np.maximum(above - 1, 0), np.minimum(above, errors.shape[-1] - 1)], axis=-1)
    low, high = np.moveaxis(np.take_along_axis(ordered, ends, axis=-1), -1, 0)
    before, after = np.moveaxis(np.take_along_axis(middle, ends, axis=-1), -1, 0)
    part = np.divide(-before, after - before, out=np.zeros_like(low), where=after > before)
    return np.asarray(low + np.where(high > low, part * (high - low), 0.0))


# -- by kind of plan -------------------------------------------------------------------------------


@singledispatch
def errors_of_plan(plan: Plan, profile: Profile, column: str) -> Errors:
    """The errors of counts of one sensitive column. Ranges and sets are known only once they are
    made."""
    return lambda sizes: (np.full((1, len(sizes)), np.nan), np.ones((1, 1)))


@errors_of_plan.register
def _(plan: PerturbedPlan, profile: Profile, column: str) -> Errors:
    operator, histogram = plan.operators[column], _counts(profile, column)
    of_record = operator.variances(histogram / max(histogram.sum(), 1.0))
    return partial(_drawn, histogram, lambda people: people * of_record, True)


@errors_of_plan.register
def _(plan: PartitionedPlan, profile: Profile, column: str) -> Errors:
    cut, histogram = plan.columns[column], _counts(profile, column)
    of_record = _of_record_in_parts(cut.operator, cut.quotas, histogram)
    return partial(_drawn, histogram, lambda people: people * of_record, True)


@errors_of_plan.register
def _(plan: DecoyPlan, profile: Profile, column: str) -> Errors:
    part = next(part for part in plan.columns if part.column == column)
    operator = Decoy(len(part.counts), part.size).observed(part.grouped)
    return partial(
        _drawn, np.array(operator.counts, np.float64), partial(_of_decoys, operator), True
    )


@errors_of_plan.register
def _(plan: SampledPlan, profile: Profile, column: str) -> Errors:
    """The uniform operator's, times what sampling adds over the table. Few draws, copied often, are
    no normal law: what is foretold, without shrinkage, is the most."""
    histogram = plan.histogram.counts.astype(np.float64)
    of_record = plan.operator.variances(histogram / max(histogram.sum(), 1.0)) * plan.inflation
    return partial(_drawn, histogram, lambda people: people * of_record, False)


@errors_of_plan.register
def _(plan: BucketPlan, profile: Profile, column: str) -> Errors:
    return partial(_bucketed, plan, list(profile.histograms).index(column))


def _counts(profile: Profile, column: str) -> FloatArray:
    return profile.histograms[column].counts.astype(np.float64)


def _of_record_in_parts(operator: Parts, quotas: IntArray, histogram: FloatArray) -> FloatArray:
    """Sub-tables: a record's part is published, so only the draws inside the parts are noise.

    Which records of a condition stand in which part is chance, and the estimate is unbiased
    whatever it is: the variance is that of the expected numbers.
    """
    shares, of_record = histogram / max(histogram.sum(), 1.0), np.zeros(len(histogram))
    # by (part, value): where a record with the value stands
    for part, spread in zip(operator.parts, quotas / np.maximum(histogram, 1.0), strict=True):
        codes = np.array(part.codes, np.int64)
        of_record[codes] += part.operator.variances(shares[codes] * spread[codes])
    return of_record


def _of_decoys(operator: ObservedDecoy, people: FloatArray) -> FloatArray:
    """Decoys: hidden groups, so others show a value by a hypergeometric number."""
    counts = np.array(operator.counts, np.float64)
    by_value = people * (counts / max(counts.sum(), 1.0))
    variances = operator.variances_within(np.arange(len(counts)), by_value, people)
    variances[operator.at_the_limit()] = np.inf
    return variances


# -- the two laws ----------------------------------------------------------------------------------


def _drawn(
    histogram: FloatArray, variance: Variance, shrinks: bool, sizes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where records are drawn one by one: over the deviations from independence that are usual."""
    ratios, weights = _usual_ratios()
    rows, errors = histogram.sum(), []
    shares = histogram / max(rows, 1.0)
    for ratio in ratios:
        expected = sizes / ratio
        matching = np.minimum(expected / np.maximum(shares, 1e-300), rows)
        noise, share = np.maximum(variance(matching), 0.0), matching / rows
        told = np.isfinite(noise)  # of a value at the eligibility limit nothing can be
        noise = np.where(told, noise, 0.0)
        off = np.sqrt(noise) * _normal_quantiles()[:, None]
        shown = sizes + off
        if shrinks:
            start = np.maximum(expected + _of_everybody(off, noise, share), 0.0)
            noise, outside = (np.broadcast_to(e, off.shape) for e in (noise, 1 - share))
            cells = CountEstimates(shown, start, noise, outside)
            group = np.zeros(shown.shape, np.int64)
            shown = np.maximum(cells.moved(Belief.usual(1).shrunk(cells, group).kept), 0.0)
        errors.append(np.where(told, np.abs(shown - sizes), np.nan))
    return np.concatenate(errors), np.repeat(weights, _FEW)[:, None]


def _of_everybody(off: FloatArray, variance: FloatArray, share: FloatArray) -> FloatArray:
    """How far what is expected is off, because the whole release is: by quantile along the first
    axis, partly with the group that is a `share` of it."""
    others = np.sqrt(np.maximum(share * (1 - share) * variance, 0.0))
    apart = _normal_quantiles()[np.arange(len(off)) * _STEP % len(off)]
    return np.asarray(share * off + others * apart[:, None])


def _normal_quantiles() -> FloatArray:
    """Of the standard normal law, scaled to its variance."""
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(_FEW) + 0.5) / _FEW)
    return np.asarray(quantiles / quantiles.std())


def _usual_ratios() -> tuple[FloatArray, FloatArray]:
    """What counts are over those under independence, and how often."""
    ratios = np.stack([1 - np.sqrt(DEVIATIONS), 1 + np.sqrt(DEVIATIONS)])
    weights = np.where(ratios > 0, USUAL, 0.0)
    weights = weights * USUAL / weights.sum(axis=0)
    return ratios[weights > 0], weights[weights > 0]


def _bucketed(plan: BucketPlan, view: int, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The `shrunk` estimate from buckets, of a sensitive column by its place among them."""
    normal, law = _normal_quantiles()[:, None], plan.foretold(view)
    if plan.blocks is None:
        people = plan.holdings.views[view].counts.astype(np.float64)
        share = np.minimum(sizes / np.where(people > 0, people, np.nan), 1.0)
        deviation = USUAL_DEVIATION / np.maximum(1 - share, 1e-9) ** 2
        errors = np.sqrt(law.variances(share * (1 - share), deviation)) * np.abs(normal)
        return errors, np.ones((len(normal), 1))
    # usual conditions on the people themselves, those with counts of about this size
    inside = plan.blocks.inside(plan, view)
    counts = inside.sum(axis=0)
    mean, variance = law.errors(inside)
    scale = np.sqrt(sizes / np.maximum(counts, 1.0))
    errors = np.abs(mean + np.sqrt(variance) * normal[:, :, None]) * scale
    off = np.log(np.maximum(counts, 0.1) / sizes) / _ALIKE
    weights = np.where(counts < inside.sum(), np.exp(-(off**2)), 0.0) + 1e-12
    weights = np.broadcast_to(weights, errors.shape)
    return errors.reshape(-1, len(sizes)), weights.reshape(-1, len(sizes))
