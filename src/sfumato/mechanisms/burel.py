"""BuReL: homogeneous beta-likeness (Cao and Karras 2012, [11] of the heterogeneous paper).

Bucketize values by likeness, reallocate records to class sizes by halving, and retrieve the
records of each class along a Hilbert order. The baseline that heterogeneous generalization beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.mechanisms.generalized import (
    BaselinePlan,
    Generalized,
    RangeCover,
    SetCover,
    Shown,
    Stage,
    covers_of,
    one_column,
    set_cover,
)
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.hilbert import hilbert_order
from sfumato.mechanisms.protocol import Mechanism, Standing
from sfumato.profile import Histogram, Profile


def likeness_runs(
    histogram: Histogram, beta: Fraction, fill: Fraction = Fraction(1)
) -> list[list[int]]:
    """The fewest runs of values, by frequency, whose total is at most (1+β) times their rarest.

    Even if all that a class takes from a run has one value, its share stays within the bound.
    `fill` below 1 leaves room for rounding when classes are halved. Dynamic programming over the
    sorted values, O(m²).

    >>> likeness_runs(Histogram("s", tuple("abc"), np.array([6, 7, 12])), Fraction(3))
    [[0], [1, 2]]
    """
    order = [int(c) for c in np.argsort(histogram.counts, kind="stable") if histogram.counts[c]]
    counts = [int(histogram.counts[code]) for code in order]
    fewest = [0] + [len(order) + 1] * len(order)
    start = [0] * (len(order) + 1)
    for first in range(len(order)):
        total = 0
        for last in range(first, len(order)):
            total += counts[last]
            if last > first and total > fill * (1 + beta) * counts[first]:
                break
            if fewest[first] + 1 < fewest[last + 1]:
                fewest[last + 1], start[last + 1] = fewest[first] + 1, first
    runs: list[list[int]] = []
    end = len(order)
    while end:
        runs.insert(0, order[start[end] : end])
        end = start[end]
    return runs


def class_sizes(totals: Sequence[int], shares: Sequence[Fraction]) -> list[list[int]]:
    """How many records each class takes from each run: halves as long as no run exceeds its share.

    >>> class_sizes([4, 4], [Fraction(1, 2), Fraction(1, 2)])
    [[1, 1], [1, 1], [1, 1], [1, 1]]
    """
    waiting, classes = [list(totals)], []
    while waiting:
        taken = waiting.pop()
        left, up = [], True
        for number in taken:  # odd ones are rounded up and down in turn
            half, odd = divmod(number, 2)
            left.append(half + (1 if odd and up else 0))
            up = up != bool(odd)
        right = [number - part for number, part in zip(taken, left, strict=True)]
        if _keeps(left, shares) and _keeps(right, shares):
            waiting += [right, left]
        else:
            classes.append(taken)
    return classes


def _keeps(taken: Sequence[int], shares: Sequence[Fraction]) -> bool:
    size = sum(taken)
    return size > 0 and all(n <= share * size for n, share in zip(taken, shares, strict=True))


@dataclass(frozen=True, eq=False)
class BurelPlan(BaselinePlan):
    """Runs of values and the classes that take from them, from counts alone."""

    histogram: Histogram
    beta: Fraction
    runs: list[list[int]]
    classes: list[list[int]]

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        run_of = np.zeros(len(self.histogram.counts), np.int64)
        for number, run in enumerate(self.runs):
            run_of[run] = number
        # the curve's ties are broken at random, not by the order of the table
        by_steps = sorted(axes, key=lambda axis: -axis.denominator)
        order = hilbert_order(by_steps, draws.order("hilbert ties", len(codes)))
        queues = [order[run_of[codes[order]] == number] for number in range(len(self.runs))]
        taken = [0] * len(queues)
        source, group, covers, units = [], [], [], [0] * len(axes)
        for number, sizes in enumerate(self.classes):
            parts = []
            for place, size in enumerate(sizes):
                parts.append(queues[place][taken[place] : taken[place] + size])
                taken[place] += size
            members = np.concatenate(parts)
            shown, unit = covers_of(axes, [members[None, :]])
            covers.append(shown)
            units = [a + b * len(members) for a, b in zip(units, unit, strict=True)]
            source.append(members[draws.order(f"class {number}", len(members))])
            group.append(np.full(len(members), number))
            progress("grouping", number + 1, len(self.classes))
        sizes_of = np.array([len(part) for part in source])
        return Generalized(
            np.concatenate(source),
            [_repeated([row[k] for row in covers], sizes_of) for k in range(len(axes))],
            units,
            group=np.concatenate(group),
        )

    def public(self) -> dict[str, Any]:
        return {"matches": min(sum(sizes) for sizes in self.classes), "groups": len(self.classes)}

    def caveats(self) -> list[str]:
        return [
            "People in a group share what is published of their quasi columns; the promise is "
            "about the shares of values in each group. Which people come together depends on "
            "their values: no promise against somebody who reruns the algorithm."
        ]

    def check(self) -> None:
        shares = self.histogram.shares
        for sizes in self.classes:
            for run, size in zip(self.runs, sizes, strict=True):
                rarest = min(shares[code] for code in run)
                assert size <= (1 + self.beta) * rarest * sum(sizes), (run, sizes)


def _repeated(shown: Sequence[Shown], sizes: IntArray) -> Shown:
    """What every row of every class shows, from what each class shows."""
    first = shown[0]
    if isinstance(first, RangeCover):
        low = np.array([c.low[0] for c in shown if isinstance(c, RangeCover)])
        high = np.array([c.high[0] for c in shown if isinstance(c, RangeCover)])
        return RangeCover(np.repeat(low, sizes), np.repeat(high, sizes))
    sets = [cover.codes for cover in shown if isinstance(cover, SetCover)]
    lengths = np.repeat([len(codes) for codes in sets], sizes)
    codes = np.concatenate([np.tile(c, n) for c, n in zip(sets, sizes.tolist(), strict=True)])
    return set_cover(lengths, codes)


@dataclass(frozen=True)
class Burel(Mechanism):
    """Homogeneous groups that keep beta-likeness.

    >>> Burel().keeps(BetaLikeness(3))
    True
    """

    name: ClassVar[str] = "burel"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (BetaLikeness,)
    sentence: ClassVar[str] = "Shows ranges and sets for groups of like people."
    standing: ClassVar[Standing] = "baseline"

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BurelPlan:
        assert isinstance(guarantee, BetaLikeness)
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        plans = [self._filled(histogram, guarantee.beta, Fraction(k, 10)) for k in range(10, 2, -1)]
        # many classes are small ones; few runs leave each class near records to choose from
        return max(plans, key=lambda plan: Fraction(len(plan.classes) ** 2, len(plan.runs)))

    def _filled(self, histogram: Histogram, beta: Fraction, fill: Fraction) -> BurelPlan:
        """A run without slack stops the halving early, so several fills are tried."""
        runs = likeness_runs(histogram, beta, fill)
        totals = [int(histogram.counts[run].sum()) for run in runs]
        shares = histogram.shares
        limits = [(1 + beta) * min(shares[code] for code in run) for run in runs]
        return BurelPlan(histogram, beta, runs, class_sizes(totals, limits))
