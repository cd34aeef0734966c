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
from typing import Any, cast

import numpy as np

from sfumato.draws import Draws, IntArray, Permutation
from sfumato.guarantees import CeilingGuarantee, Guarantee, SmallSum
from sfumato.mechanisms import Mechanism, Plan
from sfumato.mechanisms.buckets import BucketPlan, OptimalBuckets, TwoSizeBuckets
from sfumato.mechanisms.buckets.feasible import holdings_of, limits_of
from sfumato.mechanisms.buckets.filling import Entries, Runs
from sfumato.mechanisms.buckets.settings import SizedBuckets
from sfumato.mechanisms.buckets.sizes import views_of
from sfumato.mechanisms.buckets.spread import best_foreseen, spread_evenly
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.buckets.ways import USUAL_LARGEST
from sfumato.mechanisms.mixed import BucketParts, SmallArray
from sfumato.mechanisms.splu import DecoyGroups, DecoyPlan, DecoyValues
from sfumato.operators.base import FloatArray
from sfumato.operators.block_law import varies_between
from sfumato.operators.deviations import BlockTable
from sfumato.profile import Profile

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
    values meet in them as mixing comes close to."""

    spread: Sequence[IntArray] = ()

    def by_part(self, view: int) -> IntArray:
        return self.spread[view]

    def block_table(self, view: int = 0) -> BlockTable:
        parts, histogram = self.filling.parts, self.holdings.views[view]
        start, values = self.holdings.starts[view], len(histogram.values)
        allowed = self.limits.table(parts.sizes)[:, start : start + values]
        together = np.zeros((values, values))
        sizes = zip(parts.sizes.tolist(), parts.buckets.tolist(), strict=True)
        for (size, buckets), counts, most in zip(sizes, self.spread[view], allowed, strict=True):
            together += _meetings(counts, SizedBuckets(size, buckets), most)
        counts = histogram.counts.astype(np.float64)
        return BlockTable.whole(counts, together, counts)


def sketched(profile: Profile, guarantee: Guarantee, mechanism: Mechanism) -> Plan | None:
    """A plan to ask for its cost; None for mechanisms that plan quickly themselves.

    Raises `InfeasibleGuarantee` as planning would.

    >>> from sfumato.guarantees import LDiversity
    >>> from sfumato.profile import Histogram
    >>> counts = Histogram("s", tuple("abcd"), np.full(4, 30))
    >>> plan = sketched(Profile(120, {"s": counts}), LDiversity(3), OptimalBuckets())
    >>> plan.block_table().together.toarray()[0, :4].round(3).tolist()
    [10.0, 6.667, 6.667, 6.667]
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
    most = None if mechanism == OptimalBuckets() else 1
    holdings = holdings_of(mechanism.name, profile, guarantee, most)
    limits = limits_of(holdings, guarantee)
    views, best = views_of(holdings, limits), None
    if mechanism == OptimalBuckets():
        best = best_foreseen(views, holdings.people)
    else:
        usual = max(USUAL_LARGEST, limits.needed_size(holdings.counts))
        setting = best_two_size(holdings.counts, limits, usual)
        shares = None if setting is None else spread_evenly(setting, holdings.counts, limits)
        best = None if setting is None or shares is None else (setting, [shares])
    if best is None:
        return None
    (sizes, buckets), spread = np.array(best[0]).T, best[1]
    parts = BucketParts(np.zeros(len(sizes), np.int64), sizes, buckets, spread[0])
    return SketchedBuckets(holdings, limits, Unfilled(parts), _no_slots(), spread=spread)


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
    variance = varies_between(mean, allowed)
    odds = variance.copy()
    for _ in range(_ROUNDS):
        whole = max(float(odds.sum()), 1e-300)
        odds = variance / np.maximum(1 - odds / whole, 0.5)
    whole = max(float(odds.sum()), 1e-300)
    covariance = np.diag(odds) - np.outer(odds, odds) / whole
    return np.asarray((np.outer(mean, mean) + covariance) * (part.buckets / part.size))
