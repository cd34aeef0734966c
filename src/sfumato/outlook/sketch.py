"""Plans in a blink: what a promise costs, without deciding who stands where.

Buckets and decoys take seconds to plan for many values. What answers are off by hardly depends on
who stands where, because mixing is close to proportional by construction (`mechanisms.mixing`):
sizes and counts suffice. So a steward can move a promise and watch. What is then published is
planned properly; where `optimal` finds other sizes than the two that are sketched, its figures
differ, and `preview(..., exact=True)` tells them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, IntArray, Permutation
from sfumato.guarantees import CeilingGuarantee, Guarantee, SmallSum
from sfumato.mechanisms import Mechanism, Plan
from sfumato.mechanisms.buckets import BucketedPlan, OptimalBuckets, TwoSizeBuckets
from sfumato.mechanisms.buckets.filling import Runs
from sfumato.mechanisms.buckets.settings import Limits, Setting, part_rooms
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.buckets.ways import USUAL_LARGEST, only_histogram
from sfumato.mechanisms.splu import DecoyGroups, DecoyPlan, DecoyValues
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.outlook.prediction.bucket_law import MOST_EXACT
from sfumato.profile import Histogram, Profile

_SIZES = 40  # bucket sizes that are tried where there are many
_GROWN = (1, 2, 4, 8, 16)  # times as large buckets are tried where none fit
_ROUNDS = 30  # of balancing the meetings
_REACH, _HALVINGS = 40.0, 50  # of the level at which parts are filled


@dataclass(frozen=True, eq=False)
class Unfilled:
    """Buckets whose contents nobody has decided."""

    counts: IntArray
    buckets: int

    def place(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        raise TypeError("a sketch publishes nothing")

    def runs(self) -> Runs:
        raise TypeError("a sketch has no contents")

    def check(self) -> None:
        assert self.buckets >= 0, self.buckets


class SketchedOperator(BucketOperator):
    """An operator that does not look for values it would confuse where that takes long."""

    def confused(self) -> IntArray:
        if len(self.counts) > MOST_EXACT:
            return np.empty(0, np.int64)
        return super().confused()


class SketchedBuckets(BucketedPlan):
    """Sizes and who may stand in them; `operator` is the one that mixing comes close to."""

    @cached_property
    def operator(self) -> BucketOperator:
        values = len(self.histogram.values)
        together = np.zeros((values, values))
        for part, filling in zip(self.setting, self.fillings, strict=True):
            together += _meetings(filling.counts.astype(np.float64), part.size, part.buckets)
        return SketchedOperator(self.histogram.counts.astype(np.float64), together, None)


def sketched(profile: Profile, guarantee: Guarantee, mechanism: Mechanism) -> Plan | None:
    """A plan to ask for its cost; None for mechanisms that plan quickly themselves.

    Raises `InfeasibleGuarantee` as planning would.

    >>> from sfumato.guarantees import LDiversity
    >>> counts = Histogram("s", tuple("abcd"), np.full(4, 30))
    >>> plan = sketched(Profile(120, {"s": counts}), LDiversity(3), OptimalBuckets())
    >>> plan.operator.matrix()[0].round(3).tolist()
    [0.333, 0.222, 0.222, 0.222]
    """
    if isinstance(guarantee, CeilingGuarantee) and mechanism in (
        OptimalBuckets(),
        TwoSizeBuckets(),
    ):
        return _sketched_buckets(only_histogram(profile), guarantee)
    if isinstance(guarantee, SmallSum) and mechanism == DecoyValues():
        return _sketched_decoys(profile, guarantee)
    return None


def _sketched_buckets(histogram: Histogram, guarantee: CeilingGuarantee) -> Plan | None:
    guarantee.require_feasible(histogram)
    limits = Limits(tuple(guarantee.ceilings(histogram)))
    setting = quick_setting(histogram.counts, limits)
    if setting is None:
        return None
    shares = _spread(setting, histogram.counts, limits)
    fillings = tuple(
        Unfilled(held, part.buckets) for part, held in zip(setting, shares, strict=True)
    )
    return SketchedBuckets(histogram, limits, setting, fillings, _no_slots())


def _sketched_decoys(profile: Profile, guarantee: SmallSum) -> Plan:
    columns = []
    for histogram in profile.histograms.values():
        guarantee.require_feasible(histogram)
        counts, size = histogram.counts, guarantee.size
        nobody = cast(Any, Unfilled(counts, histogram.rows // size))
        columns.append(DecoyGroups(histogram.column, size, counts, counts, nobody, _no_slots()))
    return DecoyPlan(tuple(columns), profile.histograms, profile.rows % guarantee.size)


def _no_slots() -> Permutation:
    """Of nothing: a sketch places nobody, and permutations of many slots take a while."""
    return Draws.system().permutation("slots", np.ones(1, np.int64))


def quick_setting(counts: IntArray, limits: Limits) -> Setting | None:
    """A good setting of two sizes: the best of all, or of some where there are many."""
    usual = max(USUAL_LARGEST, limits.needed_size(counts))
    if usual <= 2 * USUAL_LARGEST:
        found = best_two_size(counts, limits, usual)
        if found is not None:
            return found
    for times in _GROWN:
        found = _among_some(counts, limits, usual * times)
        if found is not None:
            return found
    return None


def _among_some(counts: IntArray, limits: Limits, largest: int) -> Setting | None:
    # room grows where a size reaches 1/f'_x for one more value: those sizes are worth a look
    present = [limit for limit, count in zip(limits.ceilings, counts, strict=True) if count > 0]
    steps = np.sort([-(-limit.denominator // limit.numerator) for limit in present])
    some = steps[np.linspace(0, len(steps) - 1, _SIZES).astype(np.int64)]
    spaced = np.geomspace(limits.smallest_size, largest, _SIZES).astype(np.int64)
    return best_two_size(counts, limits, largest, np.unique(np.concatenate([some, spaced])))


def _spread(setting: Setting, counts: IntArray, limits: Limits) -> IntArray:
    """Records by part and value, with the largest entropy, as `mechanisms.buckets.spread` has it.

    With two parts, logit(h/r) in the one and in the other differ by the same λ for every value: a
    quadratic equation for each value, and halving for λ.
    """
    if len(setting) == 1:
        return counts[None, :].copy()
    rooms = part_rooms(setting, counts, limits).astype(np.float64)
    held = counts.astype(np.float64)
    fewest, most = np.maximum(held - rooms[1], 0.0), np.minimum(rooms[0], held)

    def first(level: float) -> FloatArray:
        odds = np.exp(level)
        linear = rooms[1] - held + odds * (rooms[0] + held)
        constant = odds * rooms[0] * held
        root = np.sqrt(np.maximum(linear**2 + 4 * (1 - odds) * constant, 0.0))
        below = linear + root
        found = np.divide(2 * constant, below, out=most.copy(), where=below > 0)
        return np.asarray(np.clip(found, fewest, most))

    low, high = -_REACH, _REACH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(first(middle).sum()) < setting[0].records:
            low = middle
        else:
            high = middle
    part = np.rint(first((low + high) / 2)).astype(np.int64)
    return np.stack([part, counts - part])


def _meetings(held: FloatArray, size: int, buckets: int) -> FloatArray:
    """Σ over buckets of c_x·c_y/size: a value stands ⌊h/b⌋ or ⌈h/b⌉ times, others by their number.

    Rows sum to the counts. Off the diagonal it is h_x·h_y, scaled on both sides until that holds.
    """
    whole = np.floor(held / buckets)
    more = held - whole * buckets
    own = ((buckets - more) * whole**2 + more * (whole + 1) ** 2) / size
    rest = np.maximum(held - own, 0.0)
    scale = rest / np.sqrt(max(float(rest.sum()), 1e-300))
    for _ in range(_ROUNDS):
        others = scale.sum() - scale
        scale = np.sqrt(scale * np.divide(rest, others, out=np.zeros_like(rest), where=others > 0))
    meetings = np.outer(scale, scale)
    np.fill_diagonal(meetings, 0.0)
    # what balancing leaves over stays with the value itself, so that rows sum exactly
    np.fill_diagonal(meetings, held - meetings.sum(axis=1))
    return meetings
