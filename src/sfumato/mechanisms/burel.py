"""BuReL: homogeneous beta-likeness (Cao and Karras 2012, [11] of the heterogeneous paper).

Bucketize values by likeness, reallocate records to classes by halving, and retrieve the records of
each class near to each other. The baseline that heterogeneous generalization is measured against.
Nothing in it is particular to beta-likeness: it keeps any ceilings.

The authors' program decides the sizes of classes on runs of values and fills them along a Hilbert
curve (`papers/heterogeneous/curve.py`). Here classes are halved from the whole table on, by true
values from the first cut, along columns (`halving`): that leaves more choice, and much smaller
ranges and sets. Their program also limits common values further, to 1 + min(beta, -ln f) times
their share f; here a promise is what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.generalized import (
    MARGINALS,
    Generalized,
    Stage,
    TablePlan,
    homogeneous,
)
from sfumato.mechanisms.halving import Halving, Held, along_columns, by_runs, together
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.hilbert import hilbert_order
from sfumato.mechanisms.protocol import Mechanism, Standing, one_column
from sfumato.profile import Histogram, Profile
from sfumato.textform import Parameter


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
    run_by_value = np.zeros(values, np.int64)
    for number, run in enumerate(runs):
        run_by_value[list(run)] = number
    return run_by_value


@dataclass(frozen=True, eq=False)
class BurelPlan(TablePlan):
    """Runs of values and what a class may have of each value, from counts alone."""

    histogram: Histogram
    ceilings: tuple[Fraction, ...]
    marginals: bool = True

    @cached_property
    def runs(self) -> list[list[int]]:
        return likeness_runs(self.histogram, self.ceilings)

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        # the curve's ties are broken at random, not by the order of the table
        by_steps = sorted(axes, key=lambda axis: -axis.denominator)
        curve = hilbert_order(by_steps, draws.order("hilbert ties", len(codes)))
        run = run_of(self.runs, len(self.histogram.counts))[codes]
        return homogeneous(axes, self.classes(axes, codes, run, curve, draws), draws, progress)

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, run: IntArray, curve: IntArray, draws: Draws
    ) -> list[IntArray]:
        """The people of each class; `curve` are all of them along a Hilbert curve, `run` the run
        of everybody's value."""
        ceilings_held = Held(codes, self.ceilings)
        ways = (by_runs(run), together)
        return Halving(axes, ceilings_held, along_columns(axes, curve), ways).classes(curve)

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

    `marginals` says whether the manifest tells how many people have which quasi values: counts or
    none.

    >>> from sfumato.guarantees import BetaLikeness, LDiversity
    >>> Burel().keeps(BetaLikeness(3)), Burel().keeps(LDiversity(3)), str(Burel("none"))
    (True, True, 'burel(marginals=none)')
    """

    marginals: str = "counts"

    parameters: ClassVar[tuple[Parameter, ...]] = (MARGINALS,)
    name: ClassVar[str] = "burel"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    sentence: ClassVar[str] = "Shows ranges and sets for groups of like people."
    standing: ClassVar[Standing] = "baseline"
    narrows: ClassVar[str] = " That is for a reader who does not know the program."

    def beside(self, plan: Mapping[str, Any]) -> list[str]:
        return [
            "People in a group share what is published of their quasi-identifiers; the promise is "
            "about the shares of values in each group. Which people come together depends on "
            "their values: no promise against somebody who reruns the algorithm."
        ]

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BurelPlan:
        histogram = one_column(profile, self.name, guarantee)
        guarantee.require_feasible(histogram)
        ceilings = tuple(guarantee.ceilings(histogram))
        return BurelPlan(histogram, ceilings, self.marginals == "counts")
