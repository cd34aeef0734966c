"""Before sampling groups: who would be exposed without it, which values merge, what it costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.mechanisms.protocol import PlanTable
from sfumato.mechanisms.reconstruction.merging import Merge

if TYPE_CHECKING:
    from sfumato.mechanisms.reconstruction.sampled import SampledPlan

USUAL = tuple(Fraction(tenths, 10) for tenths in range(1, 6))  # the paper's λ and δ


def describe_sampling(plan: SampledPlan) -> tuple[list[PlanTable], list[str]]:
    """v_g and v_r by λ and δ, merges and the price."""
    tables = [exposure_table(plan)]
    if any(merge.changes for merge in plan.groups.merges):
        tables.insert(0, merge_table(plan.groups.merges))
    whole = np.where(plan.samples > 0, plan.groups.sizes, 0)
    growth = plan.moments(plan.samples)[1] / plan.moments(whole)[1]
    notes = [
        f"{len(plan.groups):,} personal groups; {int((plan.samples == plan.groups.sizes).sum()):,} "
        f"stay whole, {plan.suppressed:,} are left out ({plan.withheld:,} people).",
        f"Sampling multiplies the variance of a value's count over the whole table by "
        f"{float(np.median(growth)):.3g} (median), its standard error by "
        f"{float(np.sqrt(np.median(growth))):.3g}.",
    ]
    return tables, notes


def exposure_table(plan: SampledPlan) -> PlanTable:
    """v_g and v_r under plain uniform perturbation, around the promised λ and δ."""
    setting = plan.setting
    settings = [replace(setting, error=error) for error in sorted({*USUAL, setting.error})]
    settings += [
        replace(setting, chance=chance)
        for chance in sorted({*USUAL, setting.chance})
        if chance != setting.chance
    ]
    rows = [
        (float(setting.error), float(setting.chance), *plan.exposed(setting))
        for setting in settings
    ]
    return PlanTable(
        "Exposed",
        "shares of personal groups and of people exposed by uniform perturbation alone",
        ("error", "chance", "groups", "people"),
        rows,
    )


def merge_table(merges: tuple[Merge, ...]) -> PlanTable:
    rows = [(m.column, len(m.domain), m.count, m.pairs, m.rejected) for m in merges]
    return PlanTable(
        "Merged",
        "quasi values that say the same about the sensitive column",
        ("column", "values", "after merging", "pairs inside", "of them told apart"),
        rows,
    )
