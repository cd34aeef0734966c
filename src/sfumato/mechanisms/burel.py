"""BuReL: homogeneous beta-likeness (Cao and Karras 2012, [11] of the heterogeneous paper).

Bucketize values by likeness, reallocate records to classes by halving, and retrieve the records of
each class near to each other. The baseline that heterogeneous generalization is measured against.

The authors' program decides the sizes of classes on runs of values, fills them along a Hilbert
curve and halves each further as long as its true values allow it (`classes=curve`). By default
classes are halved from the whole table on, by true values from the first cut, along columns
(`halving`): that leaves more choice, and much smaller ranges and sets. Their program also limits
common values further, to 1 + min(beta, -ln f) times their share f; here a promise is what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.mechanisms.curve import class_sizes, nearest_classes
from sfumato.mechanisms.generalized import (
    BaselinePlan,
    Generalized,
    Stage,
    homogeneous,
    one_column,
)
from sfumato.mechanisms.halving import Halving, along_columns, ranked, run_by_run, together
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.hilbert import hilbert_order
from sfumato.mechanisms.protocol import Mechanism, Standing
from sfumato.profile import Histogram, Profile

CLASSES = ("halves", "curve")


def likeness_runs(histogram: Histogram, beta: Fraction) -> list[list[int]]:
    """The fewest runs of values, by frequency, whose total is at most (1+β) times their rarest.

    Even if all that a class takes from a run has one value, its share stays within the bound.
    Dynamic programming over the sorted values, O(m²).

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
            if last > first and total > (1 + beta) * counts[first]:
                break
            if fewest[first] + 1 < fewest[last + 1]:
                fewest[last + 1], start[last + 1] = fewest[first] + 1, first
    runs: list[list[int]] = []
    end = len(order)
    while end:
        runs.insert(0, order[start[end] : end])
        end = start[end]
    return runs


@dataclass(frozen=True, eq=False)
class BurelPlan(BaselinePlan):
    """Runs of values and what a class may have of each value, from counts alone."""

    histogram: Histogram
    beta: Fraction
    ceilings: tuple[Fraction, ...]
    runs: list[list[int]]
    way: str  # of CLASSES

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        # the curve's ties are broken at random, not by the order of the table
        by_steps = sorted(axes, key=lambda axis: -axis.denominator)
        curve = hilbert_order(by_steps, draws.order("hilbert ties", len(codes)))
        return homogeneous(axes, self.classes(axes, codes, curve, draws), draws, progress)

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, curve: IntArray, draws: Draws
    ) -> list[IntArray]:
        """The people of each class; `curve` are all of them along a Hilbert curve."""
        run_of = self.run_of()
        if self.way == "halves":
            places, ways = along_columns(axes, curve), (run_by_run, together)
            return Halving(axes, codes, run_of, self.ceilings, places, ways).classes(curve)
        halving = Halving(axes, codes, run_of, self.ceilings, [ranked(curve)], (run_by_run,))
        near = nearest_classes(curve, run_of[codes], self._sizes(), draws)
        return [part for each in near for part in halving.classes(each)]

    def _sizes(self) -> list[list[int]]:
        """What classes take from each run, were all of a run the rarest of its values."""
        counts, shares = self.histogram.counts, self.histogram.shares
        totals = [int(counts[run].sum()) for run in self.runs]
        limits = [(1 + self.beta) * min(shares[code] for code in run) for run in self.runs]
        return class_sizes(totals, limits)

    def run_of(self) -> IntArray:
        """The run of every value."""
        run_of = np.zeros(len(self.histogram.counts), np.int64)
        for number, run in enumerate(self.runs):
            run_of[run] = number
        return run_of

    def public(self) -> dict[str, Any]:
        return {"matches": ceil(1 / max(self.ceilings))}

    def caveats(self) -> list[str]:
        return [
            "People in a group share what is published of their quasi columns; the promise is "
            "about the shares of values in each group. Which people come together depends on "
            "their values: no promise against somebody who reruns the algorithm."
        ]

    def check(self) -> None:
        codes = sorted(code for run in self.runs for code in run)
        assert codes == np.flatnonzero(self.histogram.counts).tolist(), self.runs
        shares = self.histogram.shares
        assert all(s <= c for s, c in zip(shares, self.ceilings, strict=True)), shares


@dataclass(frozen=True)
class Burel(Mechanism):
    """Homogeneous groups that keep beta-likeness.

    `classes` is halves, or curve for those of the authors' program, for comparison.

    >>> Burel().keeps(BetaLikeness(3)), str(Burel("curve"))
    (True, 'burel(classes=curve)')
    """

    classes: str = "halves"

    name: ClassVar[str] = "burel"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (BetaLikeness,)
    sentence: ClassVar[str] = "Shows ranges and sets for groups of like people."
    standing: ClassVar[Standing] = "baseline"

    def __post_init__(self) -> None:
        if self.classes not in CLASSES:
            raise UsageError(
                f"The 'classes' parameter of {self.name} must be one of {', '.join(CLASSES)}. "
                f"Got {self.classes!r} instead."
            )

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BurelPlan:
        assert isinstance(guarantee, BetaLikeness)
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        ceilings = tuple(guarantee.ceilings(histogram))
        runs = likeness_runs(histogram, guarantee.beta)
        return BurelPlan(histogram, guarantee.beta, ceilings, runs, self.classes)
