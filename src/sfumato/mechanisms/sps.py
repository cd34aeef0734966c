"""Sampling-Perturbing-Scaling under reconstruction privacy (Section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from sfumato.columns import value_text
from sfumato.draws import Draws, IntArray
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.reconstruction import JointReconstruction, ReconstructionPrivacy
from sfumato.mechanisms.perturbed import relative_error
from sfumato.mechanisms.protocol import Emitted, Mechanism
from sfumato.mechanisms.reconstruction.drawing import draw_block
from sfumato.mechanisms.reconstruction.groups import PersonalGroups, personal_groups
from sfumato.mechanisms.reconstruction.levels import Bound, Level, levels
from sfumato.mechanisms.reconstruction.looks import (
    Look,
    choose_together,
    column_sets,
    seen_codes,
    simple_levels,
)
from sfumato.mechanisms.reconstruction.merging import Linkage
from sfumato.mechanisms.reconstruction.sampled import SampledGroups
from sfumato.mechanisms.reconstruction.simple import draw_simply
from sfumato.mechanisms.reconstruction.tails import Setting
from sfumato.mechanisms.reconstruction.testing import choose_samples
from sfumato.operators import Uniform
from sfumato.operators.base import dyadic_floor
from sfumato.profile import Histogram, Profile
from sfumato.textform import decimal_text, rational

MOST_COMBINATIONS = 1 << 16  # of several sensitive columns
BOUNDS = ("exact", "chernoff")
LINKAGES = ("components", "complete", "none")


@dataclass(frozen=True, eq=False)
class SampledPlan(SampledGroups):
    """One sensitive column: a sample's values are rounded shares of its group's."""

    histogram: Histogram
    operator: Uniform
    setting: Setting
    bound: Bound
    levels: tuple[Level, ...]
    groups: PersonalGroups
    samples: IntArray

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        return (self.histogram,)

    @property
    def operators(self) -> dict[str, Uniform]:
        return {self.histogram.column: self.operator}

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        return (Look((self.histogram.column,), self.groups, self.setting, self.levels),)

    def emit(self, draws: Draws) -> Iterator[Emitted]:
        for run in self.groups.blocks():
            drawn = draw_block(self.groups, self.samples, run, self.operator, draws)
            yield Emitted(
                self.groups.codes(drawn.groups),
                {self.histogram.column: drawn.values},
                {"part": self.parts(drawn.groups)},
                drawn.counts,
            )

    def public(self) -> dict[str, Any]:
        return self._described([level.to_json() for level in self.levels])

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

    def _own_caveats(self) -> list[str]:
        if self.bound == "exact":
            return []
        return [
            "bound=chernoff is the paper's test. It bounds from above the chance of a large "
            "error, which is what protects; the chance itself can be hundreds of times "
            "smaller. bound=exact keeps the promise as it reads."
        ]

    def predicted_error(self) -> float:
        plain = relative_error(self.operator, self.histogram.counts.astype(np.float64))
        return float(plain * np.sqrt(self.inflation))

    def exposed(self, bound: Bound, setting: Setting | None = None) -> tuple[float, float]:
        """v_g and v_r: the shares of groups and of people that perturbation alone exposes."""
        return self.looks[0].exposed(bound, setting)

    def allows(self, chance: Fraction) -> bool:
        """Whether some group could be published under another chance δ."""
        setting = replace(self.setting, chance=chance)
        chosen = levels(setting, self.bound)
        return bool(choose_samples(self.groups, setting, self.bound, chosen).any())


@dataclass(frozen=True, eq=False)
class SampledColumnsPlan(SampledGroups):
    """Several sensitive columns, perturbed together: a record keeps its combination or shows any.

    `groups` have cells by combination of all columns; `operator` is that of combinations.
    """

    columns: tuple[Histogram, ...]
    operator: Uniform
    seen: tuple[Look, ...]
    groups: PersonalGroups
    samples: IntArray
    bound: Bound = "exact"

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        return self.columns

    @property
    def looks(self) -> tuple[Look, ...]:
        return self.seen

    @property
    def holds_for_columns(self) -> bool:
        return True  # what all columns let estimate of one, that one lets estimate alone

    @property
    def operators(self) -> dict[str, Uniform]:
        retention = self.operator.retention
        return {h.column: Uniform(len(h.values), retention) for h in self.histograms}

    def emit(self, draws: Draws) -> Iterator[Emitted]:
        sizes = tuple(len(histogram.values) for histogram in self.histograms)
        for run in self.groups.blocks():
            drawn = draw_simply(self.groups, self.samples, run, self.operator, draws)
            codes = np.unravel_index(drawn.values, sizes)
            yield Emitted(
                self.groups.codes(drawn.groups),
                {h.column: own for h, own in zip(self.histograms, codes, strict=True)},
                {"part": self.parts(drawn.groups)},
                drawn.counts,
            )

    def public(self) -> dict[str, Any]:
        levels = {look.title: [level.to_json() for level in look.levels] for look in self.looks}
        return self._described(levels, together=True)

    def _own_caveats(self) -> list[str]:
        named = ", ".join(histogram.column for histogram in self.histograms)
        return [
            f"The columns {named} were perturbed together: a record shows either all values of a "
            "person or any combination. Whoever knows one of them of a person, and sees it beside "
            "another that few have together, may take that for theirs."
        ]

    def predicted_error(self) -> float:
        """That of the column which is told worst."""
        plain = max(
            relative_error(self.operators[h.column], h.counts.astype(np.float64))
            for h in self.histograms
        )
        return float(plain * np.sqrt(self.inflation))

    def allows(self, chance: Fraction) -> bool:
        """Whether some group could be published under another chance δ."""
        looks = []
        for look in self.looks:
            setting = replace(look.setting, chance=chance)
            looks.append(replace(look, setting=setting, levels=simple_levels(setting)))
        return bool(choose_together(looks).any())


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

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> SampledGroups:
        assert isinstance(guarantee, ReconstructionPrivacy)
        for histogram in profile.histograms.values():
            guarantee.require_feasible(histogram)
        several = len(profile.histograms) > 1
        plan = self._of_columns(profile, guarantee) if several else self._of(profile, guarantee)
        if not plan.samples.any():
            raise self._infeasible(plan, guarantee)
        return plan

    def _of(self, profile: Profile, guarantee: ReconstructionPrivacy) -> SampledPlan:
        (histogram,) = profile.histograms.values()
        assert profile.cells is not None
        m = len(histogram.values)
        linkage, bound = cast(Linkage, self.merge), cast(Bound, self.bound)
        operator = Uniform(m, dyadic_floor(guarantee.retention))
        setting = Setting(guarantee.error, guarantee.chance, operator.retention, m)
        groups = personal_groups(profile.cells, m, linkage, self.significance)
        chosen = levels(setting, bound)
        samples = choose_samples(groups, setting, bound, chosen)
        return SampledPlan(histogram, operator, setting, bound, chosen, groups, samples)

    def _of_columns(self, profile: Profile, guarantee: ReconstructionPrivacy) -> SampledColumnsPlan:
        histograms = tuple(profile.histograms.values())
        names = [histogram.column for histogram in histograms]
        if self.bound != "exact":
            raise UsageError(
                f"'{self}' tests a bound that is known for one sensitive column; the table has "
                f"{', '.join(names)}. Use bound=exact, or drop the others."
            )
        if profile.cells is None:
            raise UsageError(
                f"'{self}' counts combinations of several sensitive columns on one machine only. "
                "Publish with --engine local, or name one sensitive column and drop the others."
            )
        sizes = [len(histogram.values) for histogram in histograms]
        every = int(np.prod(sizes, dtype=object))
        if every > MOST_COMBINATIONS:
            raise DataError(
                f"The sensitive columns {', '.join(names)} have {every:,} combinations of values; "
                f"'{self.name}' perturbs at most {MOST_COMBINATIONS:,} together. Recode or drop "
                "some."
            )
        joint = isinstance(guarantee, JointReconstruction)
        sets = list(column_sets(names))
        views = [seen_codes(sizes, chosen) for chosen in sets]
        promised = [joint or len(chosen) == 1 for chosen in sets]
        groups = personal_groups(
            profile.cells,
            every,
            cast(Linkage, self.merge),
            self.significance,
            [view for view, held in zip(views, promised, strict=True) if held],
        )
        operator = Uniform(every, dyadic_floor(guarantee.retention))
        looks = []
        for chosen, (of, many), held in zip(sets, views, promised, strict=True):
            setting = Setting(guarantee.error, guarantee.chance, operator.retention, many)
            own = tuple(names[place] for place in chosen)
            seen = groups.seen_by(of, many)
            looks.append(Look(own, seen, setting, simple_levels(setting), True, held))
        samples = choose_together(looks)
        return SampledColumnsPlan(histograms, operator, tuple(looks), groups, samples)

    def _infeasible(
        self, plan: SampledPlan | SampledColumnsPlan, guarantee: ReconstructionPrivacy
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

    def _nearest(
        self, plan: SampledPlan | SampledColumnsPlan, guarantee: ReconstructionPrivacy
    ) -> str | None:
        """The largest chance, in hundredths, that some group allows."""
        for hundredths in range(int(guarantee.chance * 100), 0, -1):
            chance = Fraction(hundredths, 100)
            if chance < guarantee.chance and plan.allows(chance):
                return str(replace(guarantee, chance=chance))
        return None
