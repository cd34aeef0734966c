"""How much better counts are in blocks than in buckets over the whole table, before any is filled.

`publish` compares mechanisms by predicted errors. Those of buckets over the whole table follow from
their sizes (`foretold`). What blocks change is told by conditions on one quasi column,
every bin of every column: a cut makes less of a block's variance come through, and less of its
people deviate; it tells less of them where a value comes near its ceiling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.foretold import SizedLaw, identified_by_parts
from sfumato.mechanisms.buckets.sizes import views_of
from sfumato.mechanisms.buckets.spread import best_foreseen
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts

if TYPE_CHECKING:
    from sfumato.mechanisms.buckets.plan import BucketPlan

_SMALLEST = 5.0  # people: smaller counts are noise whatever is done
_FACTOR = np.log(4)  # counts up to four times as large are of one size
_NUMBERS = 1 << 24  # counts by (block, condition, value) that are held


@dataclass(frozen=True, eq=False)
class CountedBlocks:
    """The cells that a tree was grown on, and the block of each."""

    binned: BinnedCounts
    block: IntArray

    def __getstate__(self) -> dict[str, object]:
        """Workers compare nothing."""
        return {}

    def error(self, plan: BucketPlan) -> float:
        """That of the best foreseen buckets over the whole table, times what blocks save; of
        several columns the one which is told worst."""
        views = views_of(plan.holdings, plan.limits)
        best = best_foreseen(views, plan.holdings.people)
        assert best is not None, "everybody in one bucket keeps what can be kept"
        (sizes, buckets), errors = np.array(best[0]).T, []
        for view in range(len(plan.holdings.columns)):
            counts, limits = views[view]
            shares = best[1][view], limits.table(sizes), counts
            identified = identified_by_parts(sizes, buckets, *shares).sum(axis=0)
            whole = SizedLaw.of(counts[None], identified[None], np.ones(1))
            inside = self.inside(plan, view)
            errors.append(whole.error() * _saved(inside, plan.foretold(view), whole))
        return max(errors)

    def inside(self, plan: BucketPlan, view: int) -> FloatArray:
        """Of usual conditions, people by (block, condition, value of a column)."""
        values = len(plan.holdings.columns[view].values)
        return self._inside(plan.holdings.of[self.binned.values, view], values)

    @cached_property
    def through(self) -> FloatArray:
        """By block: how much of a count's variance usual conditions let through, over what they let
        through of all people together."""
        inside = self._inside(0 * self.block, 1)[:, :, 0]
        people = np.bincount(self.block, self.binned.counts)
        share, whole = inside / np.maximum(people, 1)[:, None], inside.sum(axis=0) / people.sum()
        some = (whole > 0) & (whole < 1)
        through = (share * (1 - share))[:, some] / (whole * (1 - whole))[some]
        return np.asarray(through.mean(axis=1)) if some.any() else np.ones(len(people))

    def _inside(self, value: IntArray, values: int) -> FloatArray:
        """Of usual conditions, bins of quasi columns, people by (block, condition, value); of many
        numbers, every so manieth bin."""
        blocks, columns = int(self.block.max(initial=0)) + 1, self.binned.columns
        many = sum(bins.number for bins in columns) * blocks * values
        step, conditions = max(1, -(-many // _NUMBERS)), [np.zeros((blocks, 0, values))]
        for bins, codes in zip(columns, self.binned.codes, strict=True):
            at = (self.block * bins.number + codes) * values + value
            table = np.bincount(at, self.binned.counts, blocks * bins.number * values)
            whole = table.astype(np.float64).reshape(blocks, bins.number, values)
            conditions.append(whole[:, ::step])
        return np.concatenate(conditions, axis=1)


def _saved(inside: FloatArray, law: SizedLaw, whole: SizedLaw) -> float:
    """The errors in blocks over those without, counts of every size weighing alike."""
    counts = inside.sum(axis=0)
    now = expected_absolute(*law.errors(inside))
    before = expected_absolute(*whole.errors(counts[None]))
    asked = (counts >= _SMALLEST) & (before > 0)
    size = (np.log(counts[asked] / _SMALLEST) / _FACTOR).astype(np.int64)
    weigh = 1 / np.sqrt(counts[asked])
    left, whole_error = (np.bincount(size, e[asked] * weigh) for e in (now, before))
    some = whole_error > 0
    return float((left[some] / whole_error[some]).mean()) if some.any() else 1.0


def expected_absolute(bias: FloatArray | float, variance: FloatArray | float) -> FloatArray:
    """E|Z| for Z ~ N(bias, variance): σ√(2/π)·exp(−b²/2σ²) + |b|·erf(|b|/σ√2).

    >>> expected_absolute(np.array([0.0, 3.0]), np.array([math.pi / 2, 0.0])).tolist()
    [1.0, 3.0]
    """
    from scipy.special import erf

    distance = np.abs(np.asarray(bias, np.float64))
    deviation = np.sqrt(np.maximum(np.asarray(variance, np.float64), 0.0))
    ratio = np.divide(
        distance,
        deviation,
        out=np.full(np.broadcast(distance, deviation).shape, np.inf),
        where=deviation > 0,
    )
    spread = deviation * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2)
    return np.asarray(spread + distance * erf(ratio / math.sqrt(2)))
