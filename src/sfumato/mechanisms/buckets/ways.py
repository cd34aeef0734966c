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
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.buckets.fakes import Fakes
from sfumato.mechanisms.buckets.feasible import infeasible, smallest_max_size
from sfumato.mechanisms.buckets.filling import Filling, RoundRobin
from sfumato.mechanisms.buckets.multi_size import recursive_multi_size
from sfumato.mechanisms.buckets.optimal import optimal_setting
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.buckets.settings import (
    Limits,
    Setting,
    check_parts,
    setting_of,
)
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.mixing import MixedGroups
from sfumato.mechanisms.protocol import Mechanism, Standing
from sfumato.profile import Histogram, Profile
from sfumato.textform import rational

USUAL_LARGEST = 50  # M' of the paper, Table 4
USUAL_ASSOCIATION = Fraction(1, 10)
_BLOCKS = 4096  # over all parts: more would not fit the cache
_FEWEST_BLOCKS = 128

# the setting, and a proven lower bound on the loss if there is one
Choice = tuple[Setting, Fraction | None]


@dataclass(frozen=True)
class BucketMechanism(Mechanism):
    """Buckets of at most `max_size` records, each listing `fakes` values that nobody in it has.

    Without `max_size` it is 50, or as large as the ceilings need. With `association` fakes are
    values that no record of the bucket rules out: x is ruled out by a quasi value whose holders
    have it at most `association` times as often as everybody (see `association`).
    """

    max_size: int | None = None
    fakes: int = 0
    association: Fraction | None = None

    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)

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

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketedPlan:
        histogram = only_histogram(profile)
        guarantee.require_feasible(histogram)
        limits = Limits(tuple(guarantee.ceilings(histogram)), distinct=self.fakes > 0)
        setting, bound = self._choose(histogram, limits, guarantee)
        shares = spread_evenly(setting, histogram.counts, limits)
        check_parts(setting, shares, histogram.counts, limits)
        rows = max(histogram.rows, 1)
        fillings: list[Filling] = []
        for number, (part, counts) in enumerate(zip(setting, shares, strict=True)):
            fillings.append(
                MixedGroups.plan(
                    counts,
                    size=part.size,
                    buckets=part.buckets,
                    limits=limits.table([part.size])[0],
                    draws=draws.child(f"part {number}"),
                    blocks=max(_FEWEST_BLOCKS, _BLOCKS * part.records // rows),
                )
            )
        return BucketedPlan(
            histogram,
            limits,
            setting,
            tuple(fillings),
            draws.permutation("slots", histogram.counts),
            self._fakes(histogram, limits, setting, draws),
            bound,
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

    def _choose(self, histogram: Histogram, limits: Limits, guarantee: Guarantee) -> Choice:
        """The setting, within the maximum size; grown to what is needed where none was stated."""
        largest = self._largest(histogram, limits)
        found = self._setting(histogram.counts, limits, largest) if largest else None
        if found is None and self.max_size is None and not self.fakes:

            def possible(size: int) -> bool:
                return self._setting(histogram.counts, limits, size) is not None

            grown = smallest_max_size(histogram, limits, possible)
            found = self._setting(histogram.counts, limits, grown) if grown else None
        if found is None:
            raise self._infeasible(histogram, limits, guarantee, largest)
        return found

    def _largest(self, histogram: Histogram, limits: Limits) -> int:
        largest = self.max_size or max(USUAL_LARGEST, limits.needed_size(histogram.counts))
        # fakes need values of their own: |g| + σ different ones (errata F15)
        present = int((histogram.counts > 0).sum())
        return min(largest, present - self.fakes) if self.fakes else largest

    def _infeasible(
        self, histogram: Histogram, limits: Limits, guarantee: Guarantee, largest: int
    ) -> InfeasibleGuarantee:
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
    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
        """The best setting of this kind, None where there is none."""


@dataclass(frozen=True)
class OptimalBuckets(BucketMechanism):
    """Any number of sizes with the least loss, to a proven gap (see `optimal`).

    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> from sfumato.guarantees import LDiversity
    >>> plan = OptimalBuckets().plan(
    ...     Profile(14, {"s": counts}), LDiversity(3), Draws.from_seed(1))
    >>> plan.setting
    (Part(size=3, buckets=2), Part(size=4, buckets=2))
    """

    name: ClassVar[str] = "optimal"
    sentence: ClassVar[str] = (
        "Shows records in buckets, of the sizes that lose least, with the values beside."
    )

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
        found = optimal_setting(counts, limits, max_size)
        return None if found is None else (found.setting, found.bound)


@dataclass(frozen=True)
class MultiSizeBuckets(BucketMechanism):
    """The paper's recursive heuristic (Section 5.2), for comparison with `optimal`."""

    name: ClassVar[str] = "multi-size"
    sentence: ClassVar[str] = "Buckets of several sizes, chosen by the paper's rule of thumb."
    standing: ClassVar[Standing] = "on request"

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
        found = recursive_multi_size(counts, limits, max_size)
        return None if found is None else (found[0], None)


@dataclass(frozen=True)
class TwoSizeBuckets(BucketMechanism):
    """The best setting with two sizes (Section 5.1): the fastest to plan."""

    name: ClassVar[str] = "two-size"
    sentence: ClassVar[str] = "Buckets of two sizes: the fastest to plan."
    standing: ClassVar[Standing] = "on request"

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
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


def with_fakes(way: Mechanism, fakes: int, *, resist_association: bool) -> BucketMechanism:
    """A bucket mechanism with fakes, as the command line's flags ask for them.

    >>> str(with_fakes(OptimalBuckets(), 2, resist_association=True))
    'optimal(fakes=2, association=0.1)'
    """
    if not isinstance(way, BucketMechanism):
        raise UsageError(
            f"The mechanism '{way}' has no fake values. Mechanisms that have: "
            f"{OptimalBuckets.name}, {MultiSizeBuckets.name}, {TwoSizeBuckets.name}."
        )
    threshold = USUAL_ASSOCIATION if resist_association else way.association
    return dataclasses.replace(way, fakes=fakes or way.fakes, association=threshold)


def only_histogram(profile: Profile) -> Histogram:
    """Buckets speak of one sensitive column."""
    if len(profile.histograms) != 1:
        raise UsageError(
            f"Buckets hide one sensitive column; this table has {len(profile.histograms)} "
            f"({', '.join(profile.histograms)}). Name one as sensitive, and drop the others."
        )
    (histogram,) = profile.histograms.values()
    if histogram.column in ("bucket", "count"):
        raise DataError(
            f"The sensitive column {histogram.column!r} has the name of a column that the release "
            "adds. Rename it."
        )
    return histogram
