"""Regions of quasi space, each of which is published by itself.

Matches should be near, and the buckets of a large table are not: one holds more men, another more
of the young. So the table is cut in two, again and again, between two values of a quasi column,
wherever the people of each half by themselves allow the promise. *Where* to cut is decided on
quasi values alone, *whether* on how often each sensitive value occurs in the halves, with a little
room at random. A region's buckets follow from its own counts; whoever exchanges the values of its
people as the shift does leaves those counts as they are (H2 in `docs/papers.md`). That a region was
not cut is public, too, and follows from how often values occur in halves that were not made: a
reader who reruns the program may learn from it, so the promise is not for such a one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.heterogeneous.blocks import halves
from sfumato.mechanisms.heterogeneous.buckets import Layers
from sfumato.mechanisms.heterogeneous.layers import diversity_layers, likeness_layers
from sfumato.mechanisms.heterogeneous.ncp import Axis

ROOM = 20  # up to one in so many of the records that a half could have at most stay unused
MORE = Fraction(5, 4)  # matches that people of a half may have for one that they would have


@dataclass(frozen=True)
class Promise(ABC):
    """What the people of a region have to allow by themselves: the ceilings of the whole table."""

    ceilings: tuple[Fraction, ...]
    places: ClassVar[int]  # of a bucket in a region, at least: fewer leave too little choice

    @property
    def matches(self) -> int:
        """That people have, about: what the rarest value of the table needs in one bucket."""
        return math.ceil(1 / min(ceiling for ceiling in self.ceilings if ceiling))

    def allowed(self, counts: IntArray, use: Fraction) -> bool:
        """Whether people with these values allow it, if no ceiling may be used up further."""
        rows = int(counts.sum())
        pairs = zip(counts.tolist(), self.ceilings, strict=True)
        return all(count <= use * ceiling * rows for count, ceiling in pairs)

    @abstractmethod
    def layers(self, counts: IntArray) -> Layers:
        """The layers of buckets for people with these values."""

    def apart(self, counts: IntArray, halves: Sequence[IntArray]) -> bool:
        """Whether two halves that allow the promise are better published each by itself."""
        return True


class Diversity(Promise):
    """ℓ-diversity of a region: no value has more than ⌊n/ℓ⌋ of its n people."""

    places: ClassVar[int] = 64

    def allowed(self, counts: IntArray, use: Fraction) -> bool:
        return int(counts.max()) <= use * (int(counts.sum()) // self.matches)

    def layers(self, counts: IntArray) -> Layers:
        return diversity_layers(counts, self.matches)


class Likeness(Promise):
    """β-likeness of a region, or any other ceilings."""

    places: ClassVar[int] = 4

    def layers(self, counts: IntArray) -> Layers:
        return likeness_layers(counts, self.ceilings)

    def apart(self, counts: IntArray, halves: Sequence[IntArray]) -> bool:
        """A half whose values fill buckets badly needs many matches: then it is not worth it."""
        whole = max(layer.number for layer in self.layers(counts))
        return all(
            max(layer.number for layer in self.layers(half)) <= MORE * whole for half in halves
        )


@dataclass(frozen=True, eq=False)
class Region:
    """Some people and the layers of their buckets."""

    records: IntArray
    layers: Layers


def regions(
    axes: Sequence[Axis], codes: IntArray, values: int, promise: Promise, draws: Draws
) -> list[Region]:
    """Cut the table as long as both halves allow the promise. O(N log N) for each column."""
    cutting = _Cutting(axes, codes, values, promise)
    waiting, finished = [(draws.order("region start", len(codes)), "0")], list[Region]()
    while waiting:
        records, name = waiting.pop()
        parts = cutting.parts(records, draws.child(f"region {name}"))
        waiting += [(part, f"{name}.{index}") for index, part in enumerate(parts)]
        if not parts:
            finished.append(cutting.region(records))
    return finished


@dataclass(frozen=True, eq=False)
class _Cutting:
    axes: Sequence[Axis]
    codes: IntArray
    values: int
    promise: Promise

    def parts(self, records: IntArray, draws: Draws) -> Sequence[IntArray]:
        """The halves of a region that is to be cut further; none of one that is not."""
        sides = halves(records, self.axes, self.promise.places * self.promise.matches)
        if sides is None:
            return []
        counts = [self._counts(side) for side in sides]
        (room,) = draws.below("room", Positions(0, 1), 1 << 20)
        use = 1 - Fraction(int(room), ROOM << 20)
        allowed = all(self.promise.allowed(count, use) for count in counts)
        return sides if allowed and self.promise.apart(counts[0] + counts[1], counts) else []

    def _counts(self, records: IntArray) -> IntArray:
        return np.bincount(self.codes[records], minlength=self.values)

    def region(self, records: IntArray) -> Region:
        return Region(records, self.promise.layers(self._counts(records)))
