"""Plans in a blink: what a promise costs, without deciding who stands where.

Buckets and decoys take seconds to plan for many values. What answers are off by hardly depends on
who stands where, because mixing is close to proportional by construction (`mechanisms.mixed`):
sizes and counts suffice. So a steward can move a promise and watch. What is then published is
planned properly; where `optimal` finds a better setting than the one that is foreseen to be best,
its figures differ, and `preview(..., exact=True)` tells them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from sfumato.draws import Draws, IntArray, Permutation
from sfumato.guarantees import CeilingGuarantee, Guarantee, SmallSum
from sfumato.mechanisms import Mechanism, Plan
from sfumato.mechanisms.buckets import BucketPlan, OptimalBuckets, TwoSizeBuckets
from sfumato.mechanisms.buckets.accuracy import spread_between
from sfumato.mechanisms.buckets.exchange import foreseen_settings
from sfumato.mechanisms.buckets.feasible import holdings_of, limits_of
from sfumato.mechanisms.buckets.filling import Entries, Runs
from sfumato.mechanisms.buckets.rungs import settings_for_answers
from sfumato.mechanisms.buckets.settings import Limits, Setting, SizedBuckets
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.buckets.ways import USUAL_LARGEST
from sfumato.mechanisms.mixed import BucketParts, SmallArray
from sfumato.mechanisms.splu import DecoyGroups, DecoyPlan, DecoyValues
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.profile import Holdings, Profile

_ROUNDS = 30  # of fitting how values make room for one another


@dataclass(frozen=True, eq=False)
class Unfilled:
    """Buckets whose contents nobody has decided."""

    parts: BucketParts

    def slot_buckets(self) -> SmallArray:
        raise TypeError("a sketch publishes nothing")

    def listed(self) -> Iterator[Entries]:
        raise TypeError("a sketch has no contents")

    def runs(self) -> Runs:
        raise TypeError("a sketch has no contents")

    def check(self) -> None:
        assert len(self.parts.sizes), self.parts


@dataclass(frozen=True, eq=False)
class SketchedBuckets(BucketPlan):
    """Sizes and, for every view, how many people with each value stand in buckets of each size;
    `operator` is the one that mixing comes close to."""

    spread: Sequence[IntArray] = ()

    def by_part(self, view: int) -> IntArray:
        return self.spread[view]

    def operator(self, view: int = 0) -> BucketOperator:
        return self._sketches[view]

    @cached_property
    def _sketches(self) -> list[BucketOperator]:
        return [self._sketched(view) for view in range(len(self.holdings.views))]

    def _sketched(self, view: int) -> BucketOperator:
        parts, histogram = self.filling.parts, self.holdings.views[view]
        start, values = self.holdings.starts[view], len(histogram.values)
        allowed = self.limits.table(parts.sizes)[:, start : start + values]
        together = np.zeros((values, values))
        sizes = zip(parts.sizes.tolist(), parts.buckets.tolist(), strict=True)
        for (size, buckets), counts, most in zip(sizes, self.spread[view], allowed, strict=True):
            together += _meetings(counts, SizedBuckets(size, buckets), most)
        return BucketOperator(histogram.counts.astype(np.float64), together)


def sketched(profile: Profile, guarantee: Guarantee, mechanism: Mechanism) -> Plan | None:
    """A plan to ask for its cost; None for mechanisms that plan quickly themselves.

    Raises `InfeasibleGuarantee` as planning would.

    >>> from sfumato.guarantees import LDiversity
    >>> from sfumato.profile import Histogram
    >>> counts = Histogram("s", tuple("abcd"), np.full(4, 30))
    >>> plan = sketched(Profile(120, {"s": counts}), LDiversity(3), OptimalBuckets())
    >>> plan.operator().matrix()[0].round(3).tolist()
    [0.333, 0.222, 0.222, 0.222]
    """
    if isinstance(guarantee, CeilingGuarantee) and mechanism in (
        OptimalBuckets(),
        TwoSizeBuckets(),
    ):
        return _sketched_buckets(profile, guarantee, mechanism)
    if isinstance(guarantee, SmallSum) and mechanism == DecoyValues():
        return _sketched_decoys(profile, guarantee)
    return None


def _sketched_buckets(
    profile: Profile, guarantee: CeilingGuarantee, mechanism: Mechanism
) -> Plan | None:
    holdings = holdings_of(mechanism.name, profile, guarantee)
    limits = limits_of(holdings, guarantee)
    for setting in _settings(holdings, limits, mechanism):
        spread = [
            spread_evenly(setting, view.counts, Limits(limits.ceilings[start:end]))
            for view, start, end in zip(
                holdings.views, holdings.starts[:-1], holdings.starts[1:], strict=True
            )
        ]
        whole = [counts for counts in spread if counts is not None]
        if len(whole) == len(spread):
            sizes, buckets = np.array(setting).T
            parts = BucketParts(np.zeros(len(sizes), np.int64), sizes, buckets, whole[0])
            return SketchedBuckets(holdings, limits, Unfilled(parts), _no_slots(), spread=whole)
    return None


def _settings(holdings: Holdings, limits: Limits, mechanism: Mechanism) -> Iterator[Setting]:
    """The settings that planning would try, the best foreseen first."""
    if len(holdings.views) > 1:
        yield from foreseen_settings(holdings, limits, None)
        return
    counts = holdings.counts
    if mechanism == OptimalBuckets():
        yield from settings_for_answers(counts, limits, holdings.people, most=1)
    usual = max(USUAL_LARGEST, limits.needed_size(counts))
    if (setting := best_two_size(counts, limits, usual)) is not None:
        yield setting


def _sketched_decoys(profile: Profile, guarantee: SmallSum) -> Plan:
    columns = []
    for histogram in profile.histograms.values():
        guarantee.require_feasible(histogram)
        counts, size = histogram.counts, guarantee.size
        nobody = cast(Any, None)  # nobody looks at who stands where
        columns.append(DecoyGroups(histogram.column, size, counts, counts, nobody, _no_slots()))
    return DecoyPlan(tuple(columns), profile.histograms, profile.rows % guarantee.size)


def _no_slots() -> Permutation:
    """Of nothing: a sketch places nobody, and permutations of many slots take a while."""
    return Draws.system().permutation("slots", np.ones(1, np.int64))


def _meetings(counts: IntArray, part: SizedBuckets, allowed: IntArray) -> FloatArray:
    """Σ over buckets of c_x·c_y/size, as mixing has it on average; rows sum to the counts.

    How often x stands in a bucket varies by v_x; a bucket's places add up, so where one value has
    more the others have less. As in sampling with given odds, the covariance is w_x − w_x²/Σw on
    the diagonal and −w_x·w_y/Σw beside it, with w such that the diagonal is v.
    """
    mean = counts / part.buckets
    variance = spread_between(counts, part.buckets, allowed)
    odds = variance.copy()
    for _ in range(_ROUNDS):
        whole = max(float(odds.sum()), 1e-300)
        odds = variance / np.maximum(1 - odds / whole, 0.5)
    whole = max(float(odds.sum()), 1e-300)
    covariance = np.diag(odds) - np.outer(odds, odds) / whole
    return np.asarray((np.outer(mean, mean) + covariance) * (part.buckets / part.size))
