"""The expected error of counts from sampled, perturbed and copied groups (SPS)."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np

from sfumato.columns import Value, value_to_json
from sfumato.draws import IntArray
from sfumato.mechanisms.reconstruction.sampled import SampledPlan, published_variance
from sfumato.operators.base import FloatArray
from sfumato.outlook.prediction.laws import DrawnLaw, Moments
from sfumato.workloads.questions import CountQuestion


class SampledLaw(DrawnLaw):
    """Groups add up: each is off by its sample's draws, times its copies; left out ones are lost.

    A condition that cuts through merged values takes them as evenly filled, as answers do.
    """

    def __init__(self, plan: SampledPlan) -> None:
        self._plan = plan
        self.histogram = plan.histogram.counts.astype(np.float64)
        groups = plan.groups
        every = np.arange(len(groups))
        self._codes = groups.codes(every)
        self._sizes = groups.sizes
        self._kept = plan.samples > 0
        self._samples = np.maximum(plan.samples, 1)
        owner = np.repeat(every, np.diff(groups.starts))
        order = np.argsort(groups.values, kind="stable")
        cuts = np.searchsorted(groups.values[order], np.arange(plan.setting.values + 1))
        self._cells = [  # by value: its groups, and its records in each
            (owner[order[low:high]], groups.counts[order[low:high]])
            for low, high in itertools.pairwise(cuts.tolist())
        ]

    @cached_property
    def _members(self) -> dict[str, list[list[Value]]]:
        return {
            merge.column: [[value_to_json(v) for v in inside] for inside in merge.members()]
            for merge in self._plan.groups.merges
        }

    def _fits(self, question: CountQuestion) -> FloatArray:
        """How much of each group satisfies the conditions."""
        fits = self._kept.astype(np.float64)
        for name, condition in question.conditions.items():
            shares = [np.mean([condition.holds_json(v) for v in m]) for m in self._members[name]]
            fits *= np.array(shares)[self._codes[name]]
        return fits

    shrinks = False  # few draws, copied often, are no normal law: what is foretold is the most

    def variances(self, counts: FloatArray) -> FloatArray:
        """The uniform operator's, times what sampling adds over the whole table."""
        return self._plan.operator.variances(counts) * self._plan.inflation

    def usual(self, matching: FloatArray) -> FloatArray:
        return matching * self.variances(self.shares)

    def moments(self, question: CountQuestion, counts: FloatArray, values: IntArray) -> Moments:
        """As `SampledPlan.moments` has it, the values asked for taken as one."""
        fits = self._fits(question)
        chosen, setting = np.flatnonzero(fits), self._plan.setting
        p, q = float(setting.retention), float(setting.background) * len(values)
        matching = np.zeros(len(fits))
        for value in values:
            groups, records = self._cells[value]
            matching[groups] += records
        asked, sizes, samples = matching[chosen], self._sizes[chosen], self._samples[chosen]
        weights = fits[chosen]
        bias = float(weights @ asked) - float(counts[values].sum())
        variance = published_variance(sizes.astype(float), samples.astype(float), asked, p, q)
        return bias, float(weights**2 @ variance) / p**2
