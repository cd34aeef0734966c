"""Sampling-Perturbing-Scaling under reconstruction privacy (Section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.reconstruction import ReconstructionPrivacy
from sfumato.mechanisms.perturbed import relative_error
from sfumato.mechanisms.protocol import CellPlan, Emitted, Mechanism, PlanTable, PublishedQuasi
from sfumato.mechanisms.reconstruction.described import describe_sampling
from sfumato.mechanisms.reconstruction.drawing import draw_block
from sfumato.mechanisms.reconstruction.groups import PersonalGroups, personal_groups
from sfumato.mechanisms.reconstruction.levels import Bound, Level, levels
from sfumato.mechanisms.reconstruction.merging import Linkage
from sfumato.mechanisms.reconstruction.scales import part_scales, parts_of
from sfumato.mechanisms.reconstruction.tails import Setting
from sfumato.mechanisms.reconstruction.testing import choose_samples, violations, worst_tail
from sfumato.operators import Uniform
from sfumato.operators.base import dyadic_floor
from sfumato.profile import Histogram, Profile
from sfumato.textform import decimal_text, rational

BOUNDS = ("exact", "chernoff")
LINKAGES = ("components", "complete", "none")


@dataclass(frozen=True, eq=False)
class SampledPlan(CellPlan):
    """How many records of each personal group are perturbed; the group's copies make up the rest.

    `samples[g]` is n for group g: its size where it stays whole, 0 where it is not published.
    """

    histogram: Histogram
    operator: Uniform
    setting: Setting
    bound: Bound
    levels: tuple[Level, ...]
    groups: PersonalGroups
    samples: IntArray

    kind: ClassVar[str] = "perturbed"

    @property
    def operators(self) -> dict[str, Uniform]:
        return {self.histogram.column: self.operator}

    @property
    def withheld(self) -> int:  # type: ignore[override]
        return int(self.groups.sizes[self.samples == 0].sum())

    @property
    def suppressed(self) -> int:
        """Groups that are not published."""
        return int((self.samples == 0).sum())

    @property
    def scales(self) -> tuple[float, ...]:
        """For each part: at most so many published records stand for one that was perturbed."""
        return part_scales(self.groups.sizes, self.samples)

    @property
    def inflation(self) -> float:
        """By how much the perturbation's variance grows: Σ|g|·(|g|/n)/Σ|g| (errata R12)."""
        kept = self.samples > 0
        sizes = self.groups.sizes[kept].astype(np.float64)
        return float((sizes**2 / self.samples[kept]).sum() / max(sizes.sum(), 1.0))

    def quasi(self) -> list[PublishedQuasi]:
        return [
            PublishedQuasi(m.column, m.labels() if m.changes else m.domain, m.changes)
            for m in self.groups.merges
        ]

    def emit(self, draws: Draws) -> Iterator[Emitted]:
        scales = self.scales
        for run in self.groups.blocks():
            drawn = draw_block(self.groups, self.samples, run, self.operator, draws)
            parts = parts_of(
                self.groups.sizes[drawn.groups], self.samples[drawn.groups], len(scales)
            )
            yield Emitted(
                self.groups.codes(drawn.groups),
                {self.histogram.column: drawn.values},
                {"part": parts},
                drawn.counts,
            )

    def public(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "operators": {column: op.to_json() for column, op in self.operators.items()},
            "sampling": {
                "bound": self.bound,
                "levels": [level.to_json() for level in self.levels],
                "scales": list(self.scales),
                "groups_suppressed": self.suppressed,
            },
        }
        merged = {m.column: m.to_json() for m in self.groups.merges if m.changes}
        return described | ({"merges": merged} if merged else {})

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        if self.bound == "exact":
            return guarantee.statement(histogram)
        return (
            f"Column {histogram.column!r}: take all people who share their published quasi values. "
            "For whoever estimates from this release how many of them have some value, Chernoff's "
            f"bound does not rule out errors of more than {float(self.setting.error):.4g} of the "
            f"truth: on either side it bounds their chance by no less than "
            f"{float(self.setting.chance):.4g}. Their chance itself can be far smaller."
        )

    def caveats(self) -> list[str]:
        sentences = [
            "Groups of people with the same quasi values were sampled, perturbed and copied back "
            "to their size: records are not independent, and copies carry no information of their "
            "own. Standard errors take the copies into account.",
        ]
        if self.bound == "chernoff":
            sentences.append(
                "bound=chernoff is the paper's test. It bounds from above the chance of a large "
                "error, which is what protects; the chance itself can be hundreds of times "
                "smaller. bound=exact keeps the promise as it reads."
            )
        merged = [m for m in self.groups.merges if m.changes]
        if merged:
            names = [f"{m.column} ({len(m.domain)} values to {m.count})" for m in merged]
            sentences.append(
                "Quasi values that say the same about the sensitive column were merged: "
                f"{list_some(names)}."
            )
        sentences += [
            f"Column {m.column!r}: of the {m.pairs:,} pairs of values inside its merged classes, "
            f"{len(m.rejected):,} differ by the same test (merging by connected components does "
            "not see that; merge=complete does)."
            for m in merged
            if len(m.rejected)
        ]
        if self.suppressed:
            sentences.append(
                f"{self.suppressed:,} groups, {self.withheld:,} people, are left out: not even one "
                "of their records could be perturbed and published within the promise."
            )
        return sentences

    def description(self) -> tuple[list[PlanTable], list[str]]:
        return describe_sampling(self)

    def predicted_error(self) -> float:
        plain = relative_error(self.operator, self.histogram.counts.astype(np.float64))
        return float(plain * np.sqrt(self.inflation))

    def exposed(self, bound: Bound, setting: Setting | None = None) -> tuple[float, float]:
        """v_g and v_r: the shares of groups and of people that perturbation alone exposes."""
        found = violations(self.groups, setting or self.setting, bound)
        people = self.groups.sizes
        return float(found.mean()), float(people[found].sum() / people.sum())

    def check(self) -> None:
        sizes, kept = self.groups.sizes, self.samples > 0
        assert int(sizes.sum()) == self.histogram.rows, (int(sizes.sum()), self.histogram.rows)
        assert bool((self.samples <= sizes).all())
        scale = np.asarray(self.scales)[parts_of(sizes[kept], self.samples[kept], len(self.scales))]
        assert bool((scale * self.samples[kept] >= sizes[kept]).all())
        if self.bound == "exact":
            _, private = worst_tail(self.groups, self.samples, self.setting)
            assert bool(private.all()), np.flatnonzero(~private)[:12]


@dataclass(frozen=True)
class SamplingPerturbingScaling(Mechanism):
    """Perturb a sample of each personal group, and copy it back to the group's size.

    `bound` says how the promise is tested: on the exact tails, or by Chernoff's bound as in the
    paper. `merge` says which quasi values are merged first: connected `components` of the pairs
    that a chi-square test of that `significance` does not tell apart, `complete` linkage, `none`.

    >>> str(SamplingPerturbingScaling(bound="chernoff", merge="none"))
    'sps(bound=chernoff, merge=none)'
    """

    bound: str = "exact"
    merge: str = "components"
    significance: Fraction = Fraction(1, 20)

    name: ClassVar[str] = "sps"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (ReconstructionPrivacy,)
    sentence: ClassVar[str] = (
        "Perturbs a sample of each group of like people and copies it back to its size."
    )
    needs_cells: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for parameter, possible in (("bound", BOUNDS), ("merge", LINKAGES)):
            value = getattr(self, parameter)
            if value not in possible:
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must be one of: "
                    f"{', '.join(possible)}. Got {value!r} instead."
                )
        significance = rational(self.significance, "significance")
        if not 0 < significance < 1:
            raise UsageError(
                f"The 'significance' parameter of {self.name} must lie between 0 and 1, both "
                f"excluded. Got {decimal_text(significance)} instead."
            )
        object.__setattr__(self, "significance", significance)

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> SampledPlan:
        assert isinstance(guarantee, ReconstructionPrivacy)
        if len(profile.histograms) != 1:
            raise UsageError(
                f"{self.name} publishes one sensitive column; got "
                f"{', '.join(profile.histograms)}. How many records of a group may be drawn "
                "follows from the shares of one column. Name one as sensitive and drop the "
                "others; or promise rho-privacy, which is kept for several (--joint: together)."
            )
        (histogram,) = profile.histograms.values()
        guarantee.require_feasible(histogram)
        assert profile.cells is not None
        m = len(histogram.values)
        linkage, bound = cast(Linkage, self.merge), cast(Bound, self.bound)
        operator = Uniform(m, dyadic_floor(guarantee.retention))
        setting = Setting(guarantee.error, guarantee.chance, operator.retention, m)
        groups = personal_groups(profile.cells, m, linkage, self.significance)
        chosen = levels(setting, bound)
        samples = choose_samples(groups, setting, bound, chosen)
        plan = SampledPlan(histogram, operator, setting, bound, chosen, groups, samples)
        if not samples.any():
            raise self._infeasible(plan, guarantee)
        return plan

    def _infeasible(
        self, plan: SampledPlan, guarantee: ReconstructionPrivacy
    ) -> InfeasibleGuarantee:
        largest = int(np.argmax(plan.groups.sizes))
        place = np.array([largest])
        codes = plan.groups.codes(place)
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
        """The largest chance, in hundredths, that some group allows."""
        for hundredths in range(int(guarantee.chance * 100), 0, -1):
            chance = Fraction(hundredths, 100)
            if chance >= guarantee.chance:
                continue
            setting = replace(plan.setting, chance=chance)
            chosen = levels(setting, plan.bound)
            if choose_samples(plan.groups, setting, plan.bound, chosen).any():
                return str(replace(guarantee, chance=chance))
        return None
