"""Plans in a blink: what a promise costs, without deciding who stands where.

Buckets and decoys take seconds to plan for many values. What answers are off by hardly depends on
who stands where, because mixing is close to proportional by construction (`mechanisms.mixed`):
sizes and counts suffice. So a steward can move a promise and watch. What is then published is
planned properly; where `optimal` finds a better setting than the one that is foreseen to be best,
its figures differ, and `preview(..., exact=True)` tells them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from sfumato.draws import Draws, IntArray, Permutation
from sfumato.guarantees import CeilingGuarantee, Guarantee, SmallSum
from sfumato.mechanisms import Mechanism, Plan
from sfumato.mechanisms.buckets import BucketPlan, OptimalBuckets, TwoSizeBuckets
from sfumato.mechanisms.buckets.accuracy import spread_between
from sfumato.mechanisms.buckets.feasible import only_histogram
from sfumato.mechanisms.buckets.filling import Entries, Runs
from sfumato.mechanisms.buckets.rungs import settings_for_answers
from sfumato.mechanisms.buckets.settings import Limits, Part
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.buckets.ways import USUAL_LARGEST
from sfumato.mechanisms.mixed import Parts, SmallArray
from sfumato.mechanisms.splu import DecoyGroups, DecoyPlan, DecoyValues
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.profile import Histogram, Holdings, Profile

_ROUNDS = 30  # of fitting how values make room for one another


@dataclass(frozen=True, eq=False)
class Unfilled:
    """Buckets whose contents nobody has decided."""

    parts: Parts

    def slot_buckets(self) -> SmallArray:
        raise TypeError("a sketch publishes nothing")

    def listed(self) -> Iterator[Entries]:
        raise TypeError("a sketch has no contents")

    def runs(self) -> Runs:
        raise TypeError("a sketch has no contents")

    def check(self) -> None:
        assert len(self.parts.sizes), self.parts


class SketchedBuckets(BucketPlan):
    """Sizes and who may stand in them; `operator` is the one that mixing comes close to."""

    def operator(self, view: int = 0) -> BucketOperator:
        return self._sketched

    @cached_property
    def _sketched(self) -> BucketOperator:
        parts, values = self.filling.parts, len(self.holdings.counts)
        together, allowed = np.zeros((values, values)), self.limits.table(parts.sizes)
        each = zip(parts.sizes.tolist(), parts.buckets.tolist(), parts.counts, allowed, strict=True)
        for size, buckets, counts, most in each:
            together += _meetings(counts, Part(size, buckets), most)
        return BucketOperator(self.holdings.counts.astype(np.float64), together, None)


def sketched(profile: Profile, guarantee: Guarantee, mechanism: Mechanism) -> Plan | None:
    """A plan to ask for its cost; None for mechanisms that plan quickly themselves.

    Raises `InfeasibleGuarantee` as planning would.

    >>> from sfumato.guarantees import LDiversity
    >>> counts = Histogram("s", tuple("abcd"), np.full(4, 30))
    >>> plan = sketched(Profile(120, {"s": counts}), LDiversity(3), OptimalBuckets())
    >>> plan.operator().matrix()[0].round(3).tolist()
    [0.333, 0.222, 0.222, 0.222]
    """
    if isinstance(guarantee, CeilingGuarantee) and mechanism in (
        OptimalBuckets(),
        TwoSizeBuckets(),
    ):
        return _sketched_buckets(only_histogram(profile), guarantee, mechanism)
    if isinstance(guarantee, SmallSum) and mechanism == DecoyValues():
        return _sketched_decoys(profile, guarantee)
    return None


def _sketched_buckets(
    histogram: Histogram, guarantee: CeilingGuarantee, mechanism: Mechanism
) -> Plan | None:
    guarantee.require_feasible(histogram)
    limits, counts = Limits(tuple(guarantee.ceilings(histogram))), histogram.counts
    usual = max(USUAL_LARGEST, limits.needed_size(counts))
    settings = [best_two_size(counts, limits, usual)]
    if mechanism == OptimalBuckets():
        settings = [*settings_for_answers(counts, limits, histogram.rows, most=1), *settings]
    for setting in settings:
        shares = None if setting is None else spread_evenly(setting, counts, limits)
        if setting is not None and shares is not None:
            sizes, buckets = np.array(setting).T
            parts = Parts(np.zeros(len(sizes), np.int64), sizes, buckets, shares)
            holdings = Holdings.one(histogram)
            return SketchedBuckets(holdings, limits, Unfilled(parts), _no_slots())
    return None


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


def _meetings(counts: IntArray, part: Part, allowed: IntArray) -> FloatArray:
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
