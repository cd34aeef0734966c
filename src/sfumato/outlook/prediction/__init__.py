"""What a release will be off by, told from its plan: nothing is published for it.

`workload_errors` predicts every question of a workload from the plan and the raw table's counts;
`error_by_count` and `error_by_value` need the histogram alone, so they are fast enough to follow a
steward's hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from sfumato.columns import Value
from sfumato.errors import UsageError
from sfumato.mechanisms import Plan
from sfumato.mechanisms.buckets import BucketPlan
from sfumato.mechanisms.buckets.filling import in_pieces
from sfumato.mechanisms.partitioned import PartitionedPlan
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.mechanisms.splu import DecoyGroups, DecoyPlan
from sfumato.operators import Decoy
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.outlook.prediction.bucket_law import BucketLaw
from sfumato.outlook.prediction.laws import (
    DecoyLaw,
    ErrorLaw,
    PartsLaw,
    PerturbedLaw,
    UnknownLaw,
)
from sfumato.outlook.prediction.sampled_law import SampledLaw
from sfumato.profile import Histogram, Profile
from sfumato.workloads.coded_table import CodedTable
from sfumato.workloads.questions import Workload

SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


@dataclass(frozen=True)
class PredictedError:
    """Of counts of this size: the expected |estimate − truth| / truth."""

    count: int
    error: float


@singledispatch
def error_law(plan: Plan, profile: Profile, column: str, *, exact: bool = True) -> ErrorLaw:
    """The law of a plan's errors on one sensitive column.

    `exact` looks at how the groups of decoys were really mixed, which costs some milliseconds.
    """
    return UnknownLaw(len(profile.histograms[column].counts))


@error_law.register
def _(plan: PerturbedPlan, profile: Profile, column: str, *, exact: bool = True) -> ErrorLaw:
    return PerturbedLaw(plan.operators[column], _counts(profile, column))


@error_law.register
def _(plan: PartitionedPlan, profile: Profile, column: str, *, exact: bool = True) -> ErrorLaw:
    cut = plan.columns[column]
    return PartsLaw(cut.operator, cut.quotas, _counts(profile, column))


@error_law.register
def _(plan: DecoyPlan, profile: Profile, column: str, *, exact: bool = True) -> ErrorLaw:
    column_plan = next(part for part in plan.columns if part.column == column)
    operator = Decoy(len(column_plan.counts), column_plan.size).observed(column_plan.grouped)
    return DecoyLaw(operator, decoy_groups(column_plan) if exact else None)


@error_law.register
def _(plan: SampledPlan, profile: Profile, column: str, *, exact: bool = True) -> ErrorLaw:
    return SampledLaw(plan)


@error_law.register
def _(plan: BucketPlan, profile: Profile, column: str, *, exact: bool = True) -> ErrorLaw:
    return BucketLaw(plan, list(profile.histograms).index(column))


def _counts(profile: Profile, column: str) -> FloatArray:
    return profile.histograms[column].counts.astype(np.float64)


def decoy_groups(column: DecoyGroups) -> BucketOperator:
    """How values meet in the hidden groups of one column: they are buckets nobody sees."""
    groups = column.groups
    return BucketOperator.of(in_pieces(kinds for _, kinds in groups.runs()), len(column.counts))


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
    law = error_law(plan, profile, histogram.column, exact=False)
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
    law = error_law(plan, profile, histogram.column, exact=False)
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


def workload_errors(
    plan: Plan, profile: Profile, people: CodedTable, workload: Workload, *, exact: bool = True
) -> FloatArray:
    """The expected |estimate − truth| of every question, from the plan and the true counts.

    `exact` as in `error_law`: a sketch of a plan has no groups to look at.
    """
    errors = np.zeros(len(workload))
    laws: dict[str, ErrorLaw] = {}
    for together in workload.by_conditions().values():
        for column in {workload.questions[number].column for number in together}:
            if column not in laws:
                laws[column] = error_law(plan, profile, column, exact=exact)
            of_column = [
                number for number in together if workload.questions[number].column == column
            ]
            first = workload.questions[of_column[0]]
            counts = people.counts_within(first).astype(np.float64)
            asked = [np.array(people.places_of(workload.questions[number])) for number in of_column]
            errors[of_column] = laws[column].within(first, counts, asked)
    return errors


def _histogram(profile: Profile, column: str | None) -> Histogram:
    name = column or next(iter(profile.histograms))
    if name not in profile.histograms:
        raise UsageError(
            f"{name!r} is no sensitive column. There are: {', '.join(profile.histograms)}."
        )
    return profile.histograms[name]
