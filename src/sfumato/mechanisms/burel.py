"""BuReL: homogeneous beta-likeness (Cao and Karras 2012, [11] of the heterogeneous paper).

Bucketize values by likeness, reallocate records to classes by halving, and retrieve the records of
each class near to each other. The baseline that heterogeneous generalization is measured against.
Nothing in it is particular to beta-likeness: it keeps any ceilings.

The authors' program decides the sizes of classes on runs of values, fills them along a Hilbert
curve and halves each further as long as its true values allow it (`classes=curve`). By default
classes are halved from the whole table on, by true values from the first cut, along columns
(`halving`): that leaves more choice, and much smaller ranges and sets. Their program also limits
common values further, to 1 + min(beta, -ln f) times their share f; here a promise is what it says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.curve import class_sizes, nearest_classes
from sfumato.mechanisms.generalized import (
    BaselinePlan,
    Generalized,
    Stage,
    check_marginals,
    homogeneous,
)
from sfumato.mechanisms.halving import Halving, Held, along_columns, by_runs, ranked, together
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.hilbert import hilbert_order
from sfumato.mechanisms.protocol import Mechanism, Standing, one_column
from sfumato.profile import Histogram, Profile

CLASSES = ("halves", "curve")


def likeness_runs(histogram: Histogram, ceilings: Sequence[Fraction]) -> list[list[int]]:
    """The fewest runs of values, by frequency, whose share is within the ceilings of all of them.

    Even if all that a class takes from a run has one value, its share stays within the bound.
    Dynamic programming over the sorted values, O(m²).

    >>> histogram = Histogram("s", tuple("abc"), np.array([6, 7, 12]))
    >>> likeness_runs(histogram, [4 * share for share in histogram.shares])
    [[0], [1, 2]]
    """
    order = [int(c) for c in np.argsort(histogram.counts, kind="stable") if histogram.counts[c]]
    counts = [int(histogram.counts[code]) for code in order]
    fewest = [0] + [len(order) + 1] * len(order)
    start = [0] * (len(order) + 1)
    for first in range(len(order)):
        total, least = 0, Fraction(1)
        for last in range(first, len(order)):
            total, least = total + counts[last], min(least, ceilings[order[last]])
            if last > first and total > least * histogram.rows:
                break
            if fewest[first] + 1 < fewest[last + 1]:
                fewest[last + 1], start[last + 1] = fewest[first] + 1, first
    runs: list[list[int]] = []
    end = len(order)
    while end:
        runs.insert(0, order[start[end] : end])
        end = start[end]
    return runs


def run_of(runs: Sequence[Sequence[int]], values: int) -> IntArray:
    """The run of every value; one that nobody has is in the first."""
    found = np.zeros(values, np.int64)
    for number, run in enumerate(runs):
        found[list(run)] = number
    return found


@dataclass(frozen=True, eq=False)
class ClassesPlan(BaselinePlan):
    """Groups of people who share what they show, whatever decides who comes together."""

    @abstractmethod
    def classes(
        self, axes: Sequence[Axis], codes: IntArray, curve: IntArray, draws: Draws
    ) -> list[IntArray]:
        """The people of each class; `curve` are all of them along a Hilbert curve."""

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        # the curve's ties are broken at random, not by the order of the table
        by_steps = sorted(axes, key=lambda axis: -axis.denominator)
        curve = hilbert_order(by_steps, draws.order("hilbert ties", len(codes)))
        return homogeneous(axes, self.classes(axes, codes, curve, draws), draws, progress)

    def caveats(self) -> list[str]:
        return [
            "People in a group share what is published of their quasi columns; the promise is "
            "about the shares of values in each group. Which people come together depends on "
            "their values: no promise against somebody who reruns the algorithm."
        ]


@dataclass(frozen=True, eq=False)
class BurelPlan(ClassesPlan):
    """Runs of values and what a class may have of each value, from counts alone."""

    histogram: Histogram
    ceilings: tuple[Fraction, ...]
    runs: list[list[int]]
    way: str  # of CLASSES
    marginals: bool = True

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, curve: IntArray, draws: Draws
    ) -> list[IntArray]:
        run, held = self.run_of()[codes], [Held(codes, self.ceilings)]
        if self.way == "halves":
            places, ways = along_columns(axes, curve), (by_runs(run), together)
            return Halving(axes, held, places, ways).classes(curve)
        halving = Halving(axes, held, [ranked(curve)], (by_runs(run),))
        near = nearest_classes(curve, run, self._sizes(), draws)
        return [part for each in near for part in halving.classes(each)]

    def _sizes(self) -> list[list[int]]:
        """What classes take from each run, were all of a run the rarest of its values."""
        totals = [int(self.histogram.counts[run].sum()) for run in self.runs]
        limits = [min(self.ceilings[code] for code in run) for run in self.runs]
        return class_sizes(totals, limits)

    def run_of(self) -> IntArray:
        """The run of every value."""
        return run_of(self.runs, len(self.histogram.counts))

    def public(self) -> dict[str, Any]:
        return {"matches": ceil(1 / max(self.ceilings))}

    def check(self) -> None:
        codes = sorted(code for run in self.runs for code in run)
        assert codes == np.flatnonzero(self.histogram.counts).tolist(), self.runs
        shares = self.histogram.shares
        assert all(s <= c for s, c in zip(shares, self.ceilings, strict=True)), shares


@dataclass(frozen=True)
class Burel(Mechanism):
    """Homogeneous groups that keep beta-likeness or other ceilings.

    `classes` is halves, or curve for those of the authors' program, for comparison; `marginals`
    whether the manifest tells how many people have which quasi values: counts or none.

    >>> from sfumato.guarantees import BetaLikeness, LDiversity
    >>> Burel().keeps(BetaLikeness(3)), Burel().keeps(LDiversity(3)), str(Burel("curve"))
    (True, True, 'burel(classes=curve)')
    """

    classes: str = "halves"
    marginals: str = "counts"

    name: ClassVar[str] = "burel"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    sentence: ClassVar[str] = "Shows ranges and sets for groups of like people."
    standing: ClassVar[Standing] = "baseline"

    def __post_init__(self) -> None:
        check_marginals(self.name, self.marginals)
        if self.classes not in CLASSES:
            raise UsageError(
                f"The 'classes' parameter of {self.name} must be one of {', '.join(CLASSES)}. "
                f"Got {self.classes!r} instead."
            )

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> ClassesPlan:
        histogram = one_column(profile, self.name, guarantee)
        guarantee.require_feasible(histogram)
        ceilings = tuple(guarantee.ceilings(histogram))
        runs = likeness_runs(histogram, ceilings)
        return BurelPlan(histogram, ceilings, runs, self.classes, self._tells)

    @property
    def _tells(self) -> bool:
        return self.marginals == "counts"
