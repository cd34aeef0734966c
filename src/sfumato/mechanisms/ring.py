"""Ring generalization (NH: Wong, Mamoulis and Cheung 2010, [56] of the heterogeneous paper).

Cut the records into small partitions that are near in quasi values, merge neighbours until each is
l-eligible, and arrange each on a ring so that any l consecutive records have different values. Row
i covers ring positions i … i+l−1. One shift per partition hands out the values: the rows of one
record then carry l consecutive values of the ring, so the promise holds per original as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.l_diversity import LDiversity
from sfumato.mechanisms.generalized import (
    MARGINALS,
    Generalized,
    Stage,
    TablePlan,
    covers_of,
)
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.protocol import Mechanism, Standing, one_column
from sfumato.profile import Histogram, Profile
from sfumato.textform import Parameter


def eligible_partitions(
    records: IntArray, axes: Sequence[Axis], codes: IntArray, number: int
) -> list[IntArray]:
    """k-d leaves of at most 2l records; neighbours are merged until no value has more than 1/l."""
    partitions: list[IntArray] = []
    open_: list[IntArray] = []
    for leaf in split(records[None, :], axes, 2 * number):
        open_.append(leaf[0])
        if is_eligible(codes[np.concatenate(open_)], number):
            partitions.append(np.concatenate(open_))
            open_ = []
    rest = open_
    while rest:  # the last leaves join their neighbours until they fit
        rest = [partitions.pop(), *rest] if partitions else rest
        joined = np.concatenate(rest)
        if is_eligible(codes[joined], number) or not partitions:
            partitions.append(joined)
            break
        rest = [joined]
    return partitions


def is_eligible(codes: IntArray, number: int) -> bool:
    """Whether the commonest value has at most ⌊n/l⌋ records."""
    return len(codes) >= number and int(np.bincount(codes).max()) <= len(codes) // number


def ring_of(codes: Sequence[int], number: int) -> list[int]:
    """An order of places 0 … n−1 in which any `number` cyclic neighbours have different codes.

    Goes along the given order as far as spacing allows; where that ends in a dead end, the grid
    arrangement takes over, which always works for eligible codes.

    >>> ring_of([0, 0, 1, 1, 2, 3], 3)
    [0, 2, 4, 1, 3, 5]
    """
    return _along(codes, number) or grid_ring(codes, number)


def _along(codes: Sequence[int], number: int) -> list[int] | None:
    size = len(codes)
    waiting: dict[int, list[int]] = {}
    for index in range(size - 1, -1, -1):
        waiting.setdefault(codes[index], []).append(index)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    ring: list[int] = []
    for step in range(size):
        best: tuple[bool, int, int] | None = None
        for code, places in waiting.items():
            earliest = max(step, last[code] + number) if code in last else step
            latest = min(size - 1, first[code] + size - number) if code in first else size - 1
            slack = latest - earliest - (len(places) - 1) * number
            if slack < 0:
                return None
            if earliest > step:
                continue
            urgent = slack < number
            choice = (not urgent, slack if urgent else places[-1], code)
            if best is None or choice < best:
                best = choice
        if best is None:
            return None
        code = best[2]
        ring.append(waiting[code].pop())
        if not waiting[code]:
            del waiting[code]
        first.setdefault(code, step)
        last[code] = step
    return ring


def grid_ring(codes: Sequence[int], number: int) -> list[int]:
    """Values by frequency, dealt over ⌊n/l⌋ rows of at least l places; the rows one after another.

    A value with as many records as rows starts in the first row, so equal values are at least a
    whole row apart, also around the end.
    """
    rows = len(codes) // number
    counts = np.bincount(np.asarray(codes))
    order = sorted(range(len(codes)), key=lambda place: (-counts[codes[place]], codes[place]))
    return [code for row in range(rows) for code in order[row::rows]]


@dataclass(frozen=True, eq=False)
class RingPlan(TablePlan):
    """Nothing is decided by counts but that the table is eligible."""

    histogram: Histogram
    number: int  # l
    marginals: bool = True

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        start = draws.order("ring start", len(codes))  # ties of the k-d split are random
        partitions = eligible_partitions(start, axes, codes, self.number)
        shifts = draws.below("ring shift", Positions(0, len(partitions)), self.number)
        matches, source = [], []
        window = np.arange(self.number)
        for index, (part, shift) in enumerate(zip(partitions, shifts.tolist(), strict=True)):
            ring = part[np.array(self.arranged(codes[part].tolist()))]
            turns = np.arange(len(ring))
            matches.append(ring[(turns[:, None] + window) % len(ring)])
            source.append(ring[(turns + shift) % len(ring)])
            progress("rings", index + 1, len(partitions))
        every = np.concatenate(matches)
        covers, units = covers_of(axes, [every])
        return Generalized(np.concatenate(source), covers, units, matches=[every])

    def arranged(self, codes: Sequence[int]) -> list[int]:
        """The places of a partition around its ring."""
        return ring_of(codes, self.number)

    def public(self) -> dict[str, Any]:
        return {"matches": self.number}

    def check(self) -> None:
        assert int(self.histogram.counts.max()) <= self.histogram.rows // self.number


@dataclass(frozen=True)
class Ring(Mechanism):
    """Rings of different values in merged k-d partitions.

    `marginals` is whether the manifest tells how many people have which quasi values: counts or
    none.

    >>> str(Ring())
    'ring'
    """

    marginals: str = "counts"

    parameters: ClassVar[tuple[Parameter, ...]] = (MARGINALS,)
    name: ClassVar[str] = "ring"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LDiversity,)
    sentence: ClassVar[str] = "Shows ranges and sets in rings of different values."
    standing: ClassVar[Standing] = "baseline"

    narrows: ClassVar[str] = " That is for a reader who does not know the program."

    def beside(self, plan: Mapping[str, Any]) -> list[str]:
        return [
            "Partitions were merged until their sensitive values were mixed enough, so their shape "
            "depends on sensitive values too: no promise against somebody who reruns the "
            "algorithm. Who knew who matches whom, which is not published, named the values of 84 "
            "to 89 % of the people so where l was 10, of 42 to 47 % where l was 5."
        ]

    def keeps(self, guarantee: Guarantee) -> bool:
        """Rings are of l different values, so none can be open."""
        return isinstance(guarantee, LDiversity) and guarantee.open is None

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> RingPlan:
        assert isinstance(guarantee, LDiversity)
        histogram = one_column(profile, self.name, guarantee)
        guarantee.require_feasible(histogram)
        return RingPlan(histogram, guarantee.l, self.marginals == "counts")
