"""The bucket mechanisms: four ways to choose the sizes, one way to fill and publish."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.columns import value_text
from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.buckets.accuracy import error_of, told_by_parts, variances_of
from sfumato.mechanisms.buckets.fakes import Fakes
from sfumato.mechanisms.buckets.feasible import LARGEST_TRIED, infeasible, only_histogram
from sfumato.mechanisms.buckets.filling import Filling, RoundRobin
from sfumato.mechanisms.buckets.multi_size import recursive_multi_size
from sfumato.mechanisms.buckets.optimal import optimal_setting
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.buckets.rungs import settings_for_answers
from sfumato.mechanisms.buckets.settings import (
    Limits,
    Setting,
    check_parts,
    setting_of,
)
from sfumato.mechanisms.buckets.shared import SharedPlan, plan_shared
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.mixing import MixedGroups
from sfumato.mechanisms.protocol import Mechanism, Standing
from sfumato.profile import Histogram, Profile
from sfumato.textform import rational

USUAL_LARGEST = 50  # M' of the paper, Table 4
USUAL_ASSOCIATION = Fraction(1, 10)
_FEW_VALUES = 300  # filling and comparing several settings takes a second or two
_CLARITY = 1.25  # so much more error is worth telling all values apart
OBJECTIVES = ("error", "loss")

# a setting, and a proven lower bound on the loss if there is one
Found = tuple[Setting, Fraction | None]


@dataclass(frozen=True, eq=False)
class Choice:
    """A setting, who goes where (parts by values), and a lower bound on the loss, if any."""

    setting: Setting
    shares: IntArray
    bound: Fraction | None = None
    of_a_paper: bool = False  # `two-size`'s or `multi-size`'s: never to be worse than that


@dataclass(frozen=True)
class BucketMechanism(Mechanism):
    """Buckets of at most `max_size` records, each listing `fakes` values that nobody in it has.

    Without `max_size` it is 50, or as large as the ceilings need. With `association` fakes are
    ruled out by records of the bucket as often as real values: x is, by a quasi value whose holders
    have it at most `association` times as often as everybody (see `association`).
    """

    max_size: int | None = None
    fakes: int = 0
    association: Fraction | None = None

    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    # into so many pieces all parts together are mixed, and each part at least: more would not fit
    # the cache
    mixing: ClassVar[tuple[int, int]] = (4096, 128)

    def __post_init__(self) -> None:
        for parameter, least in (("max_size", 1), ("fakes", 0)):
            given = getattr(self, parameter)
            if given is None:
                continue
            try:
                number = int(str(given))
            except ValueError:
                number = least - 1
            if number < least:
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must be a whole number of at "
                    f"least {least}. Got {str(given)!r} instead."
                )
            object.__setattr__(self, parameter, number)
        if self.association is not None:
            threshold = rational(self.association, "association")
            if not 0 < threshold < 1 or self.fakes == 0:
                raise UsageError(
                    f"The 'association' parameter of {self.name} must lie between 0 and 1 and "
                    f"needs fakes: write {self.name}(fakes=2, association=0.1)."
                )
            object.__setattr__(self, "association", threshold)

    def plan(
        self, profile: Profile, guarantee: Guarantee, draws: Draws
    ) -> BucketedPlan | SharedPlan:
        return self.plan_column(profile, guarantee, draws)

    def plan_column(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketedPlan:
        """Buckets for one sensitive column and one row of each person."""
        histogram = only_histogram(profile)
        guarantee.require_feasible(histogram)
        limits = Limits(tuple(guarantee.ceilings(histogram)), distinct=self.fakes > 0)
        choices = self._choices(histogram, limits, guarantee)
        plans = [self._filled(choice, histogram, limits, draws) for choice in choices]
        papers = [plan for plan, choice in zip(plans, choices, strict=True) if choice.of_a_paper]
        return _best(plans, papers)

    def _filled(
        self, choice: Choice, histogram: Histogram, limits: Limits, draws: Draws
    ) -> BucketedPlan:
        check_parts(choice.setting, choice.shares, histogram.counts, limits)
        rows, (most, fewest) = max(histogram.rows, 1), self.mixing
        fillings: list[Filling] = []
        for number, (part, counts) in enumerate(zip(choice.setting, choice.shares, strict=True)):
            fillings.append(
                MixedGroups.plan(
                    counts,
                    size=part.size,
                    buckets=part.buckets,
                    limits=limits.table([part.size])[0],
                    draws=draws.child(f"part {number}"),
                    blocks=max(fewest, most * part.records // rows),
                    gathered=True,
                )
            )
        return BucketedPlan(
            histogram,
            limits,
            choice.setting,
            tuple(fillings),
            draws.permutation("slots", histogram.counts),
            self._fakes(histogram, limits, choice.setting, draws),
            choice.bound,
            self.association,
        )

    def _fakes(
        self, histogram: Histogram, limits: Limits, setting: Setting, draws: Draws
    ) -> Fakes | None:
        if not self.fakes:
            return None
        buckets = sum(part.buckets for part in setting)
        fakes = Fakes(self.fakes, histogram.counts, buckets, draws.child("fakes"), limits.ceilings)
        for part in setting:
            listable = int(fakes.listable(part.size).sum())
            if listable < part.size + self.fakes:
                present = [code for code, count in enumerate(histogram.counts) if count > 0]
                rarest = min(present, key=lambda code: limits.ceilings[code])
                raise InfeasibleGuarantee(
                    f"Buckets of {part.size} records with {self.fakes} fake values would list "
                    f"{part.size + self.fakes} values of column {histogram.column!r}, but only "
                    f"{listable} have a ceiling that allows it. Use fewer fakes.",
                    witness=value_text(histogram.values[rarest]),
                )
        return fakes

    def _choices(self, histogram: Histogram, limits: Limits, guarantee: Guarantee) -> list[Choice]:
        """Settings to fill and compare, within the maximum size; it grows where none was stated."""
        found = self._found(histogram, limits)
        shares = None if found is None else spread_evenly(found[0], histogram.counts, limits)
        if found is None or shares is None:
            raise self._infeasible(histogram, limits, guarantee)
        return [Choice(found[0], shares, found[1])]

    def _found(self, histogram: Histogram, limits: Limits) -> Found | None:
        """This mechanism's own setting; sizes are doubled until there is one where none is said."""
        largest = self._largest(histogram, limits)
        found = self._setting(histogram.counts, limits, largest) if largest > 0 else None
        while found is None and self.max_size is None and not self.fakes:
            if largest >= min(LARGEST_TRIED, histogram.rows):
                break
            largest = min(2 * largest, max(LARGEST_TRIED, largest), histogram.rows)
            found = self._setting(histogram.counts, limits, largest)
        return found

    def _largest(self, histogram: Histogram, limits: Limits) -> int:
        largest = self.max_size or max(USUAL_LARGEST, limits.needed_size(histogram.counts))
        # fakes need values of their own: |g| + σ different ones (errata F15)
        present = int((histogram.counts > 0).sum())
        return min(largest, present - self.fakes) if self.fakes else largest

    def _infeasible(
        self, histogram: Histogram, limits: Limits, guarantee: Guarantee
    ) -> InfeasibleGuarantee:
        largest = self._largest(histogram, limits)
        if self.fakes:
            present = int((histogram.counts > 0).sum())
            common = int(np.argmax(histogram.counts))
            return InfeasibleGuarantee(
                f"'{guarantee}' cannot be kept on column {histogram.column!r} with {self.fakes} "
                f"fake values per bucket: buckets may hold each value once and at most "
                f"{max(largest, 0)} records, because {present} different values are there. "
                f"The commonest value, {value_text(histogram.values[common])}, has a share of "
                f"{float(histogram.shares[common]):.4g}. Use fewer fakes, or merge rare values.",
                witness=value_text(histogram.values[common]),
            )

        def possible(size: int) -> bool:
            return self._setting(histogram.counts, limits, size) is not None

        return infeasible(guarantee, self.name, histogram, limits, largest, possible)

    @abstractmethod
    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Found | None:
        """The best setting of this kind, None where there is none."""


@dataclass(frozen=True)
class OptimalBuckets(BucketMechanism):
    """Any number of sizes, with the smallest predicted error of counts (see `rungs`, `accuracy`).

    `objective=loss` takes the least loss of the F'-privacy paper instead, to a proven gap (see
    `optimal`). Several sensitive columns share their buckets (see `shared`).

    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> from sfumato.guarantees import LDiversity
    >>> plan = OptimalBuckets().plan(
    ...     Profile(14, {"s": counts}), LDiversity(3), Draws.from_seed(1))
    >>> plan.setting
    (Part(size=3, buckets=2), Part(size=4, buckets=2))
    """

    objective: str = "error"

    name: ClassVar[str] = "optimal"
    needs_kinds: ClassVar[bool] = True
    sentence: ClassVar[str] = (
        "Shows records in buckets, of the sizes that answer best, with the values beside."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective not in OBJECTIVES:
            raise UsageError(
                f"The 'objective' parameter of {self.name} must be one of "
                f"{', '.join(OBJECTIVES)}. Got {self.objective!r} instead."
            )

    def plan(
        self, profile: Profile, guarantee: Guarantee, draws: Draws
    ) -> BucketedPlan | SharedPlan:
        if len(profile.histograms) == 1:
            return self.plan_column(profile, guarantee, draws)
        if self.fakes or self.objective == "loss":
            raise UsageError(
                f"'{self}' hides one sensitive column: fakes and the papers' loss are defined for "
                "one. Leave the parameters out."
            )
        return plan_shared(str(self), profile, guarantee, self.max_size, draws)

    def _choices(self, histogram: Histogram, limits: Limits, guarantee: Guarantee) -> list[Choice]:
        if self.objective == "loss":
            return super()._choices(histogram, limits, guarantee)
        counts, usual = histogram.counts, self._largest(histogram, limits)
        largest = usual if self.max_size or self.fakes else histogram.rows
        own = _fillable(settings_for_answers(counts, limits, largest), counts, limits)
        ways: list[BucketMechanism] = [TwoSizeBuckets(self.max_size, self.fakes)]
        if len(counts) <= _FEW_VALUES:
            ways.append(MultiSizeBuckets(self.max_size, self.fakes))
        papers = [found[0] for way in ways if (found := way._found(histogram, limits))]
        others = [
            dataclasses.replace(choice, of_a_paper=True)
            for choice in _fillable(papers, counts, limits)
        ]
        if not own and not others:
            return super()._choices(histogram, limits, guarantee)
        if len(counts) <= _FEW_VALUES:
            return own + others
        return [min(own + others, key=lambda choice: _foreseen(choice, counts, limits))]

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Found | None:
        found = optimal_setting(counts, limits, max_size)
        return None if found is None else (found.setting, found.bound)


def _fillable(settings: list[Setting], counts: IntArray, limits: Limits) -> list[Choice]:
    found = []
    for setting in dict.fromkeys(settings):
        shares = spread_evenly(setting, counts, limits)
        if shares is not None:
            found.append(Choice(setting, shares))
    return found


def _foreseen(choice: Choice, counts: IntArray, limits: Limits) -> float:
    allowed = limits.table([part.size for part in choice.setting])
    told = told_by_parts(choice.setting, choice.shares, counts, allowed)
    return error_of(variances_of(counts, told), counts)


def _best(plans: list[BucketedPlan], papers: list[BucketedPlan]) -> BucketedPlan:
    """The smallest predicted error; a quarter more where that tells all values apart."""
    if len(plans) == 1:
        return plans[0]
    best = min(plans, key=BucketedPlan.predicted_error)
    bounds = [_CLARITY * best.predicted_error(), *(plan.predicted_error() for plan in papers)]
    apart = [
        plan for plan in plans if not len(plan.confused) and plan.predicted_error() <= min(bounds)
    ]
    return min(apart, key=BucketedPlan.predicted_error, default=best)


@dataclass(frozen=True)
class MultiSizeBuckets(BucketMechanism):
    """The paper's recursive heuristic (Section 5.2), for comparison with `optimal`."""

    name: ClassVar[str] = "multi-size"
    sentence: ClassVar[str] = "Buckets of several sizes, chosen by the paper's rule of thumb."
    standing: ClassVar[Standing] = "on request"

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Found | None:
        found = recursive_multi_size(counts, limits, max_size)
        return None if found is None else (found[0], None)


@dataclass(frozen=True)
class TwoSizeBuckets(BucketMechanism):
    """The best setting with two sizes (Section 5.1): the fastest to plan."""

    name: ClassVar[str] = "two-size"
    sentence: ClassVar[str] = "Buckets of two sizes: the fastest to plan."
    standing: ClassVar[Standing] = "on request"

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Found | None:
        found = best_two_size(counts, limits, max_size)
        return None if found is None else (found, None)


@dataclass(frozen=True)
class AnatomyBuckets(Mechanism):
    """Anatomy on counts: ⌊N/l⌋ buckets, dealt round robin, for comparison (errata F14).

    l is the smallest that keeps every ceiling (Remark 1). The same values meet again and again,
    so answers are worse than from mixed buckets.
    """

    name: ClassVar[str] = "anatomy"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    sentence: ClassVar[str] = "Buckets of about equal size, dealt round robin."
    standing: ClassVar[Standing] = "baseline"

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketedPlan:
        histogram = only_histogram(profile)
        guarantee.require_feasible(histogram)
        limits = Limits(tuple(guarantee.ceilings(histogram)))
        diversity = limits.needed_size(histogram.counts)
        rows, buckets = histogram.rows, histogram.rows // diversity
        commonest = int(np.argmax(histogram.counts))
        if int(histogram.counts[commonest]) > buckets:
            share = float(histogram.shares[commonest])
            raise InfeasibleGuarantee(
                f"Anatomy needs {diversity} different values in every bucket for '{guarantee}', "
                f"but {value_text(histogram.values[commonest])} has a share of {share:.4g}, above "
                f"1/{diversity}. Use the mechanism 'optimal'.",
                witness=value_text(histogram.values[commonest]),
                nearest=str(OptimalBuckets()),
            )
        size, more = divmod(rows, buckets)
        return BucketedPlan(
            histogram,
            limits,
            setting_of((size, size + 1), (buckets - more, more)),
            (RoundRobin(histogram.counts, buckets),),
            draws.permutation("slots", histogram.counts),
        )
