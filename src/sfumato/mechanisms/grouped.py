"""The baselines of heterogeneous generalization: classes of like people, and rings inside them.

BuReL (Cao and Karras 2012, [11] of the heterogeneous paper) publishes classes of people who share
what they show. NH (Wong, Mamoulis and Cheung 2010, [56]) arranges a class on a ring on which any l
consecutive records have different values; row i covers the ring positions i … i+l−1, and one shift
per ring hands out the values: the rows of one record then carry l consecutive values of the ring,
so the promise holds per original as well.

Both take their classes from one filling (`classes`): everybody is halved again and again along the
quasi column that leaves the smallest ranges and sets, *value by value*, so that shares stay nearly
as they are, or *together*, so that neighbours stay together. Both halves keep the promise with the
values that they really have. BuReL's own classes, along a Hilbert curve, are in
`papers/heterogeneous/curve.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee, LDiversity
from sfumato.mechanisms.generalized import (
    Generalized,
    Stage,
    TablePlan,
    covers_of,
)
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.ncp import Axis, Scale
from sfumato.mechanisms.protocol import Mechanism, Standing, one_column
from sfumato.profile import Histogram, Profile
from sfumato.public import PublicPlan, from_shown

NEAR = 16  # people who are near in all columns, side by side before the first cut


class ClassLimits:
    """How many records of each value a class of some size may have, exactly.

    >>> limits = ClassLimits([Fraction(1, 3), Fraction(1)])
    >>> limits.kept(np.array([2, 4])), limits.kept(np.array([2, 3]))
    (True, False)
    """

    def __init__(self, ceilings: Sequence[Fraction]) -> None:
        self._whole = math.lcm(*(ceiling.denominator for ceiling in ceilings))
        limits = [ceiling.numerator * (self._whole // ceiling.denominator) for ceiling in ceilings]
        # numbers that could leave 64 bits with 2³¹ people are kept as Python's own
        kind: Any = np.int64 if max(limits, default=0) < 1 << 31 > self._whole else object
        self._limits = np.array(limits, kind)

    def kept(self, counts: IntArray) -> bool:
        """Whether a class with these counts keeps them, and has anybody."""
        size = int(counts.sum())
        typed: npt.NDArray[Any] = counts.astype(self._limits.dtype)
        return size > 0 and bool((typed * self._whole <= self._limits * size).all())


def classes(
    axes: Sequence[Axis], codes: IntArray, ceilings: Sequence[Fraction], records: IntArray
) -> list[IntArray]:
    """The records in classes within the ceilings that cannot be halved further.

    O(N log N) for each column. Records with equal values of a column stay in the order that earlier
    cuts gave them, or else in the order that they come in.
    """
    used = [axis for axis in axes if axis.denominator]
    units, limits = Scale.of([axis.denominator for axis in used]).units, ClassLimits(ceilings)

    def kept(half: IntArray) -> bool:
        return limits.kept(np.bincount(codes[half], minlength=len(ceilings)))

    def cost(half: IntArray) -> int:
        spread = (unit * a.spread(a.codes[half]) for a, unit in zip(used, units, strict=True))
        return len(half) * sum(spread)

    near = [block[0] for block in split(records[None], used, NEAR)] if used else [records]
    waiting, finished = [np.concatenate(near)], list[IntArray]()
    while waiting:
        whole = waiting.pop()
        cuts = list[tuple[int, IntArray, IntArray]]()
        for axis in used:
            ordered = whole[np.argsort(axis.codes[whole], kind="stable")]
            middle = np.arange(len(whole)) < len(whole) // 2
            for ways in (value_by_value(codes[ordered]), iter([middle])):
                halves = ((ordered[lower], ordered[~lower]) for lower in ways)
                for low, high in halves:
                    if kept(low) and kept(high):
                        cuts.append((cost(low) + cost(high), low, high))
                        break
        if cuts:
            waiting += min(cuts, key=lambda cut: cut[0])[1:]
        else:
            finished.append(whole)
    return finished


def value_by_value(codes: IntArray) -> Iterator[BoolArray]:
    """Which records make the lower half, half of every value; odd ones go to the one half and the
    other in turn, beginning with either.

    >>> [lower.tolist() for lower in value_by_value(np.array([0, 0, 1, 0, 1]))]
    [[True, True, True, False, False], [True, False, True, False, False]]
    """
    sizes = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    odd = sizes % 2
    for first in (1, 0):
        half = sizes // 2 + odd * (np.cumsum(odd) % 2 == first)
        yield rank < half[codes]


def grid_ring(codes: Sequence[int], number: int) -> list[int]:
    """An order of places 0 … n−1 in which any `number` cyclic neighbours have different codes:
    values by frequency, dealt over ⌊n/l⌋ rows of at least l places, the rows one after another.

    A value with as many records as rows starts in the first row, so equal values are at least a
    whole row apart, also around the end. No value may have more than ⌊n/l⌋ records.

    >>> grid_ring([0, 0, 1, 1, 2, 3], 3)
    [0, 2, 4, 1, 3, 5]
    """
    rows = len(codes) // number
    counts = np.bincount(np.asarray(codes))
    order = sorted(range(len(codes)), key=lambda place: (-counts[codes[place]], codes[place]))
    return [code for row in range(rows) for code in order[row::rows]]


@dataclass(frozen=True, eq=False)
class GroupedPlan(TablePlan):
    """What a class may have of each value; the rows of a class show `window` neighbours on its ring
    or, where that is None, the whole class."""

    histogram: Histogram
    ceilings: tuple[Fraction, ...]
    window: int | None = None

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        # ties between quasi values are broken at random, not by the order of the table
        groups = self.classes(axes, codes, draws.order("classes", len(codes)), draws)
        progress("grouping", len(groups), len(groups))
        if self.window is not None:
            return self._rings(axes, codes, groups, draws)
        sizes = np.array([len(members) for members in groups])
        covers = covers_of(axes, [members[None] for members in groups], sizes)
        source = [
            members[draws.order(f"class {number}", len(members))]
            for number, members in enumerate(groups)
        ]
        group = np.repeat(np.arange(len(groups)), sizes)
        return Generalized(np.concatenate(source), covers, group=group)

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, records: IntArray, draws: Draws
    ) -> list[IntArray]:
        """The people of each class; `records` are all, in random order."""
        return classes(axes, codes, self.ceilings, records)

    def _rings(
        self, axes: Sequence[Axis], codes: IntArray, groups: Sequence[IntArray], draws: Draws
    ) -> Generalized:
        assert self.window is not None
        shifts = draws.below("ring shift", Positions(0, len(groups)), self.window).tolist()
        matches, source = [], []
        for members, shift in zip(groups, shifts, strict=True):
            ring = members[np.array(grid_ring(codes[members].tolist(), self.window))]
            turns = np.arange(len(ring))
            matches.append(ring[(turns[:, None] + np.arange(self.window)) % len(ring)])
            source.append(ring[(turns + shift) % len(ring)])
        every = np.concatenate(matches)
        return Generalized(np.concatenate(source), covers_of(axes, [every]), matches=[every])

    def public(self) -> PublicPlan:
        return {"matches": from_shown(self.window or ceil(1 / max(self.ceilings)))}

    def check(self) -> None:
        assert ClassLimits(self.ceilings).kept(self.histogram.counts), self.histogram.counts


class GroupingMechanism(Mechanism):
    """A mechanism that publishes classes of like people."""

    standing: ClassVar[Standing] = "baseline"
    narrows: ClassVar[str] = " That is for a reader who does not know the program."

    def window(self, guarantee: Guarantee) -> int | None:
        """How many neighbours a row shows; None: its class."""
        return None

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> GroupedPlan:
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        ceilings = tuple(guarantee.ceilings(histogram))
        return GroupedPlan(histogram, ceilings, self.window(guarantee))


@dataclass(frozen=True)
class Ring(GroupingMechanism):
    """Rings of different values in classes of like people.

    >>> str(Ring())
    'ring'
    """

    name: ClassVar[str] = "ring"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LDiversity,)
    sentence: ClassVar[str] = "Shows ranges and sets in rings of different values."

    def beside(self, plan: Mapping[str, Any]) -> list[str]:
        return [
            "Classes were halved as long as their sensitive values were mixed enough, so their "
            "shape depends on sensitive values too: no promise against somebody who reruns the "
            "algorithm. Who knew who matches whom, which is not published, could name the values "
            "of many people."
        ]

    def keeps(self, guarantee: Guarantee) -> bool:
        """Rings are of l different values, so none can be open."""
        return isinstance(guarantee, LDiversity) and guarantee.open is None

    def window(self, guarantee: Guarantee) -> int | None:
        return guarantee.l if isinstance(guarantee, LDiversity) else None


@dataclass(frozen=True)
class Burel(GroupingMechanism):
    """Homogeneous groups that keep beta-likeness or other ceilings.

    Nothing in it is particular to beta-likeness: it keeps any ceilings. The authors' program also
    limits common values further, to 1 + min(beta, -ln f) times their share f; here a promise is
    what it says.

    >>> from sfumato.guarantees import BetaLikeness
    >>> Burel().keeps(BetaLikeness(3)), Burel().keeps(LDiversity(3))
    (True, True)
    """

    name: ClassVar[str] = "burel"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    sentence: ClassVar[str] = "Shows ranges and sets for groups of like people."

    def beside(self, plan: Mapping[str, Any]) -> list[str]:
        return [
            "People in a group share what is published of their quasi-identifiers; the promise is "
            "about the shares of values in each group. Which people come together depends on "
            "their values: no promise against somebody who reruns the algorithm."
        ]
