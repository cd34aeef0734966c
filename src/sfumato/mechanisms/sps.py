"""Sampling-Perturbing-Scaling under reconstruction privacy (Section 5)."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.columns import value_text
from sfumato.draws import Draws
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.reconstruction import ReconstructionPrivacy
from sfumato.mechanisms.protocol import Mechanism, one_column
from sfumato.mechanisms.reconstruction.groups import personal_groups
from sfumato.mechanisms.reconstruction.levels import levels
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.mechanisms.reconstruction.tails import Setting
from sfumato.mechanisms.reconstruction.testing import choose_samples
from sfumato.operators import Uniform
from sfumato.operators.base import dyadic_floor
from sfumato.profile import Profile
from sfumato.textform import Parameter


@dataclass(frozen=True)
class SamplingPerturbingScaling(Mechanism):
    """Perturb a sample of each personal group, and copy it back to the group's size.

    `merge` says which quasi values are merged first: connected `components` of the pairs that a
    chi-square test of that `significance` does not tell apart, or `none`.

    >>> str(SamplingPerturbingScaling(merge="none"))
    'sps(merge=none)'
    """

    merge: str = "components"
    significance: Fraction = Fraction(1, 20)

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("merge", options=("components", "none")),
        Parameter("significance", above=0, below=1),
    )
    name: ClassVar[str] = "sps"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (ReconstructionPrivacy,)
    sentence: ClassVar[str] = (
        "Perturbs a sample of each group of like people and copies it back to its size."
    )
    needs_cells: ClassVar[bool] = True

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> SampledPlan:
        assert isinstance(guarantee, ReconstructionPrivacy)
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        assert profile.cells is not None
        m = len(histogram.values)
        operator = Uniform(m, dyadic_floor(guarantee.retention))
        setting = Setting(guarantee.error, guarantee.chance, operator.retention, m)
        significance = None if self.merge == "none" else self.significance
        groups = personal_groups(profile.cells, m, significance)
        samples = choose_samples(groups, setting, levels(setting))
        plan = SampledPlan(histogram, operator, setting, groups, samples)
        if not samples.any():
            raise self._infeasible(plan, guarantee)
        return plan

    def _infeasible(
        self, plan: SampledPlan, guarantee: ReconstructionPrivacy
    ) -> InfeasibleGuarantee:
        largest = int(np.argmax(plan.groups.sizes))
        codes = plan.groups.codes(np.array([largest]))
        witness = ", ".join(
            f"{m.column} = {value_text(m.members()[int(codes[m.column][0])][0])}"
            for m in plan.groups.merges
        )
        nearest = self._nearest(plan, guarantee)
        advice = (
            f"Nearest that can be kept: '{nearest}'."
            if nearest
            else "Choose a smaller error or a smaller retention."
        )
        return InfeasibleGuarantee(
            f"'{guarantee}' cannot be kept in any group of people with the same quasi values, not "
            f"even by publishing a single perturbed record of each; the largest has "
            f"{int(plan.groups.sizes[largest]):,} people. {advice}",
            witness=witness or "the whole table",
            nearest=nearest,
        )

    def _nearest(self, plan: SampledPlan, guarantee: ReconstructionPrivacy) -> str | None:
        """The largest chance, in hundredths, that some group allows: it allows all below, too."""
        below = range(1, math.ceil(guarantee.chance * 100))
        allowed = bisect_left(below, True, key=lambda k: not plan.allows(Fraction(k, 100)))
        return str(replace(guarantee, chance=Fraction(allowed, 100))) if allowed else None
