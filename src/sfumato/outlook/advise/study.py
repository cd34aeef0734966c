"""One table, one pool of questions: what any promise would cost there, without publishing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sfumato.draws import Draws
from sfumato.engines.binning import count_binned
from sfumato.engines.counting import Progress, count_cells, no_progress, take_profile
from sfumato.errors import (
    DataError,
    InfeasibleGuarantee,
    SingularOperator,
    UsageError,
    WeakPromiseWarning,
)
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Mechanism, Plan
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import MOST_MOMENTS
from sfumato.outlook.prediction import workload_errors
from sfumato.outlook.sketch import sketched
from sfumato.profile import Histogram, Holdings, Profile
from sfumato.table import Table
from sfumato.workloads import (
    People,
    SizeClass,
    Workload,
    generate_workload,
    people_of,
    true_counts,
)

_PLANS = 4
_FEW = 80  # questions that a search looks at; what it finds is looked at with all of them


@dataclass(frozen=True, eq=False)
class Study:
    """Count questions of certain sizes, asked of plans instead of releases."""

    table: Table
    people: People
    profile: Profile
    workload: Workload
    truth: FloatArray
    seed: int
    progress: Progress = no_progress
    _plans: dict[tuple[str, str, bool], Plan] = field(default_factory=dict, repr=False)
    _known: dict[tuple[str, str, bool], float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        table: Table,
        classes: Sequence[SizeClass],
        *,
        questions: int,
        seed: int,
        progress: Progress,
    ) -> Study:
        if len(table.sensitive) != 1:
            raise UsageError(
                f"Advice is for one sensitive column at a time; {table.label} has "
                f"{', '.join(table.sensitive)}. Ask once for each, the others among --drop."
            )
        progress("counting", 0, 0)
        people = people_of(table)
        try:
            workload = generate_workload(people, count=questions, seed=seed, classes=classes)
        except DataError:
            least = min(each.least for each in classes)
            raise UsageError(
                f"No condition on the quasi-identifiers has a count of {least:,} or more. Choose a "
                "smaller --min-count."
            ) from None
        truth = true_counts(workload, people).astype(np.float64)
        return cls(table, people, take_profile(table), workload, truth, seed, progress)

    @property
    def histogram(self) -> Histogram:
        (histogram,) = self.profile.histograms.values()
        return histogram

    @cached_property
    def _with_cells(self) -> Profile:
        own = self.histogram
        return replace(self.profile, cells=count_cells(self.table, own.column, own.values))

    @cached_property
    def _with_bins(self) -> Profile:
        own = self.histogram
        return replace(self.profile, binned=count_binned(self.table, Holdings.one(own)))

    def profile_for(self, mechanism: Mechanism) -> Profile:
        found = self._with_bins if mechanism.needs_bins else self.profile
        return replace(found, cells=self._with_cells.cells) if mechanism.needs_cells else found

    @cached_property
    def _sample(self) -> list[int]:
        """Places of a few questions, evenly spread over the sizes of their counts."""
        order = np.argsort(self.truth, kind="stable")
        step = max(len(order) / _FEW, 1.0)
        return [int(order[int(k * step)]) for k in range(min(_FEW, len(order)))]

    def plan(self, guarantee: Guarantee, mechanism: Mechanism, *, rough: bool = False) -> Plan:
        """The plan that a release would have, but for its draws; the last few are kept.

        A `rough` one is a sketch where there is one: enough to see which promise to look at.
        """
        key = str(guarantee), str(mechanism), rough
        if key not in self._plans:
            profile, promise = self.profile_for(mechanism), mechanism.promised(guarantee)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakPromiseWarning)
                sketch = sketched(profile, promise, mechanism) if rough else None
                if rough and sketch is None:
                    return self.plan(guarantee, mechanism)
                draws = Draws.from_seed(self.seed).child("advice")
                plan = sketch or mechanism.plan(profile, promise, draws)
            while len(self._plans) >= _PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        return self._plans[key]

    def errors(
        self, guarantee: Guarantee, mechanism: Mechanism, *, few: bool = False
    ) -> FloatArray:
        """The expected relative error of every question, or of a few.

        Of many values, a few questions are asked of a sketch; `few` and all are then compared.
        """
        places = self._sample if few else list(range(len(self.workload)))
        rough = few and len(self.histogram.values) > MOST_MOMENTS
        plan = self.plan(guarantee, mechanism, rough=rough)
        chosen, profile = self.workload.chosen(places), self.profile_for(mechanism)
        found = workload_errors(plan, profile, self.people, chosen, exact=not rough)
        return np.asarray(found / self.truth[places])

    def error(self, guarantee: Guarantee, mechanism: Mechanism, *, few: bool = False) -> float:
        """The mean of them; infinite where the promise cannot be kept, or a count not be told."""
        key = (str(guarantee), str(mechanism), few)
        if key not in self._known:
            self.progress(f"predicting {guarantee}", 0, 0)
            try:
                mean = float(np.mean(self.errors(guarantee, mechanism, few=few)))
            except (InfeasibleGuarantee, UsageError, SingularOperator):
                mean = math.inf
            self._known[key] = mean if math.isfinite(mean) else math.inf
        return self._known[key]

    def best(
        self, guarantee: Guarantee, mechanisms: Sequence[Mechanism], *, few: bool = False
    ) -> tuple[float, Mechanism]:
        """The mechanism with the smallest error, the first of equals to nine digits."""
        found = [(self.error(guarantee, mechanism, few=few), mechanism) for mechanism in mechanisms]
        return min(found, key=lambda pair: float(f"{pair[0]:.9g}"))
