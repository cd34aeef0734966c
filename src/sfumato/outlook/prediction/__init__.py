"""What a release will be off by, told from its plan and the histograms: nothing is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from sfumato.columns import Value
from sfumato.errors import UsageError
from sfumato.mechanisms import Plan
from sfumato.mechanisms.buckets import BucketPlan
from sfumato.mechanisms.partitioned import PartitionedPlan
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.mechanisms.splu import DecoyPlan
from sfumato.operators import Decoy
from sfumato.operators.base import FloatArray
from sfumato.outlook.prediction.bucket_law import BucketLaw
from sfumato.outlook.prediction.laws import (
    DecoyLaw,
    ErrorLaw,
    PartsLaw,
    PerturbedLaw,
    SampledLaw,
    UnknownLaw,
)
from sfumato.profile import Histogram, Profile

SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


@dataclass(frozen=True)
class PredictedError:
    """Of counts of this size: the median of |estimate − truth| / truth."""

    count: int
    error: float


@singledispatch
def error_law(plan: Plan, profile: Profile, column: str) -> ErrorLaw:
    """The law of a plan's errors on one sensitive column."""
    return UnknownLaw()


@error_law.register
def _(plan: PerturbedPlan, profile: Profile, column: str) -> ErrorLaw:
    return PerturbedLaw(plan.operators[column], _counts(profile, column))


@error_law.register
def _(plan: PartitionedPlan, profile: Profile, column: str) -> ErrorLaw:
    cut = plan.columns[column]
    return PartsLaw(cut.operator, cut.quotas, _counts(profile, column))


@error_law.register
def _(plan: DecoyPlan, profile: Profile, column: str) -> ErrorLaw:
    column_plan = next(part for part in plan.columns if part.column == column)
    return DecoyLaw(Decoy(len(column_plan.counts), column_plan.size).observed(column_plan.grouped))


@error_law.register
def _(plan: SampledPlan, profile: Profile, column: str) -> ErrorLaw:
    return SampledLaw(plan)


@error_law.register
def _(plan: BucketPlan, profile: Profile, column: str) -> ErrorLaw:
    return BucketLaw(plan, list(profile.histograms).index(column))


def _counts(profile: Profile, column: str) -> FloatArray:
    return profile.histograms[column].counts.astype(np.float64)


def error_by_count(
    plan: Plan,
    profile: Profile,
    sizes: Sequence[int] = SIZES,
    *,
    column: str | None = None,
) -> list[PredictedError]:
    """The median relative error of a count of each size, over the values that many people have.

    A count of that size is taken within a condition that has nothing to do with the sensitive
    column. Sizes that no value reaches are left out. Not a number for ranges and sets.
    """
    histogram = _histogram(profile, column)
    law = error_law(plan, profile, histogram.column)
    predictions = []
    for size in sizes:
        reached = histogram.counts >= size
        if size > 0 and reached.any():
            errors, weights = law.draws(np.full(len(reached), float(size)))
            weights = np.broadcast_to(weights, errors.shape)
            (median,) = _medians(*(e[:, reached].reshape(1, -1) for e in (errors, weights)))
            predictions.append(PredictedError(int(size), float(median / size)))
    return predictions


def error_by_value(
    plan: Plan, profile: Profile, size: int = 500, *, column: str | None = None
) -> list[tuple[Value, float]]:
    """For each value the median relative error of a count of `size`, or of its whole count.

    Not a number where nobody has the value, and for ranges and sets.
    """
    histogram = _histogram(profile, column)
    law = error_law(plan, profile, histogram.column)
    people = np.minimum(histogram.counts, size).astype(np.float64)
    errors, weights = law.draws(np.maximum(people, 1.0))
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


def _histogram(profile: Profile, column: str | None) -> Histogram:
    name = column or next(iter(profile.histograms))
    if name not in profile.histograms:
        raise UsageError(
            f"{name!r} is no sensitive column. There are: {', '.join(profile.histograms)}."
        )
    return profile.histograms[name]
