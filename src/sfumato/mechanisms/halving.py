"""Classes of people who share what they show, halved as long as both halves keep the promise.

A class is halved along the quasi column that leaves the smallest ranges and sets, in one of two
ways. *Run by run*: each half gets half of every run of values, so that shares stay nearly as they
are, and classes get small. *Together*: the lower half of the column against the upper, so that
neighbours stay together. Both halves have to keep the promise with the values that they really
have, in whole numbers; where no way does, the class stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, Scale

Halves = tuple[IntArray, IntArray]
Way = Callable[[IntArray, IntArray], Iterator[Halves]]  # of records and their places


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


@dataclass(frozen=True, eq=False)
class Held:
    """What people have: codes by record, ceilings by code."""

    codes: IntArray
    ceilings: Sequence[Fraction]

    @cached_property
    def _limits(self) -> ClassLimits:
        return ClassLimits(self.ceilings)

    def kept(self, records: IntArray) -> bool:
        """Whether a class of these records keeps the ceilings, and has anybody."""
        return self._limits.kept(np.bincount(self.codes[records], minlength=len(self.ceilings)))


class Halving:
    """Halves classes of people, within the ceilings of `held`.

    `places` are orders along which to halve: `places[k][record]` is a record's place in one.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        held: Held,
        places: Sequence[IntArray],
        ways: Sequence[Way],
    ) -> None:
        self._axes = [axis for axis in axes if axis.denominator]
        self._units = Scale.of([axis.denominator for axis in self._axes]).units
        self._held, self._places, self._ways = held, places, ways

    def classes(self, records: IntArray) -> list[IntArray]:
        """The records in classes that cannot be halved further. O(N log N) for each order."""
        waiting, found = [records], []
        while waiting:
            whole = waiting.pop()
            halves = self._best(whole)
            if halves is None:
                found.append(whole)
            else:
                waiting += halves
        return found

    def _best(self, records: IntArray) -> Halves | None:
        best: tuple[int, Halves] | None = None
        for places in self._places:
            for way in self._ways:
                tried = way(records, places[records])
                halves = next((split for split in tried if all(map(self._held.kept, split))), None)
                if halves is None:
                    continue
                cost = sum(len(half) * self._cost(half) for half in halves)
                if best is None or cost < best[0]:
                    best = cost, halves
        return None if best is None else best[1]

    def _cost(self, records: IntArray) -> int:
        """What one row of the class costs."""
        return sum(
            unit * axis.spread(axis.codes[records])
            for axis, unit in zip(self._axes, self._units, strict=True)
        )


def by_runs(run: IntArray) -> Way:
    """Run by run, where `run[record]` is the run of every record's value."""
    return lambda records, place: run_by_run(records, run[records], place)


def run_by_run(records: IntArray, run: IntArray, place: IntArray) -> Iterator[Halves]:
    """Odd records go to the one half and the other in turn, beginning with either.

    >>> people, run, place = np.arange(5), np.array([0, 0, 0, 1, 1]), np.array([4, 0, 2, 1, 3])
    >>> [(low.tolist(), high.tolist()) for low, high in run_by_run(people, run, place)]
    [([1, 2, 3], [0, 4]), ([1, 3], [2, 0, 4])]
    """
    ordered = records[np.lexsort((place, run))]
    sizes = np.bincount(run)
    odd = sizes % 2
    within = np.arange(len(records)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    for first in (1, 0):
        half = sizes // 2 + odd * (np.cumsum(odd) % 2 == first)
        lower = within < np.repeat(half, sizes)
        yield ordered[lower], ordered[~lower]


def together(records: IntArray, place: IntArray) -> Iterator[Halves]:
    """The lower half of the order and the upper."""
    lower = place < np.median(place)
    yield records[lower], records[~lower]


def along_columns(axes: Sequence[Axis], curve: IntArray) -> list[IntArray]:
    """Places along every column; among equal values along `curve`, an order of all records."""
    used = [axis for axis in axes if axis.denominator]
    return [ranked(curve[np.argsort(axis.codes[curve], kind="stable")]) for axis in used]


def ranked(order: IntArray) -> IntArray:
    """The place of every record in an order of all."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return position
