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
    """Of counts of this size: the expected |estimate − truth| / truth."""

    count: int
    error: float


@singledispatch
def error_law(plan: Plan, profile: Profile, column: str) -> ErrorLaw:
    """The law of a plan's errors on one sensitive column."""
    return UnknownLaw(len(profile.histograms[column].counts))


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
    """The mean, over the values that many people have, of the expected relative error.

    A count of that size is taken within a condition that has nothing to do with the sensitive
    column. Sizes that no value reaches are left out. Not a number for ranges and sets.
    """
    histogram = _histogram(profile, column)
    law = error_law(plan, profile, histogram.column)
    largest = int(histogram.counts.max(initial=0))
    possible = [int(size) for size in sizes if 0 < size <= largest]
    errors = law.by_size(np.array(possible, np.float64))
    predictions = []
    for size, row in zip(possible, errors, strict=True):
        reached = row[histogram.counts >= size] / size
        predictions.append(PredictedError(size, float(np.mean(reached))))
    return predictions


def error_by_value(
    plan: Plan, profile: Profile, size: int = 500, *, column: str | None = None
) -> list[tuple[Value, float]]:
    """For each value the expected relative error of a count of `size`, or of its whole count.

    Not a number where nobody has the value, and for ranges and sets.
    """
    histogram = _histogram(profile, column)
    law = error_law(plan, profile, histogram.column)
    counts = histogram.counts.astype(np.float64)
    asked = np.unique(np.minimum(counts, size)[counts > 0])
    errors = law.by_size(asked)
    errors_by_value: list[tuple[Value, float]] = []
    for code, value in enumerate(histogram.values):
        people = min(counts[code], float(size))
        error = (
            errors[np.searchsorted(asked, people), code] / people if people > 0 else float("nan")
        )
        errors_by_value.append((value, float(error)))
    return errors_by_value


def _histogram(profile: Profile, column: str | None) -> Histogram:
    name = column or next(iter(profile.histograms))
    if name not in profile.histograms:
        raise UsageError(
            f"{name!r} is no sensitive column. There are: {', '.join(profile.histograms)}."
        )
    return profile.histograms[name]
