"""The people of a branch of the tree: their values, the ceilings of these, and ladders for them.

Planning asks the same of a branch several times, when it weighs a cut, and when it fills the block
that is left: what was found is kept, by the counts of the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.rungs import foreseen_settings
from sfumato.mechanisms.buckets.settings import Limits, Setting
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram

DEVIATION = 0.025  # P = o + this·o²: a tenth of the people, whose counts are half off (τ² = 1/4)
FEW_SIZES = 8  # of buckets, that are tried while cuts are weighed
SOME_SIZES = 14  # where a block is filled
MORE_SIZES = 40  # as many as `optimal` tries, where there is time for it


@dataclass(frozen=True, eq=False)
class Branch:
    """Codes of the values that people of a branch have, their histogram and their ceilings."""

    codes: IntArray
    histogram: Histogram
    limits: Limits
    foreseen: Mapping[Setting, float]  # the error of each ladder
    told: FloatArray  # how far the best one tells values apart; empty where there is none

    def best(self, most: int) -> list[Setting]:
        """The most promising ladders; of equally good ones that with fewer sizes."""
        return sorted(self.foreseen, key=lambda each: (self.foreseen[each], len(each)))[:most]


@dataclass(frozen=True, eq=False)
class Branches:
    """Branches of one table, by their counts; `largest` is the largest bucket that is allowed."""

    histogram: Histogram
    limits: Limits
    largest: Callable[[Histogram, Limits], int]
    sizes: int = SOME_SIZES
    _found: dict[bytes, Branch] = field(default_factory=dict)

    def of(self, counts: IntArray) -> Branch:
        """The people with these counts by value."""
        key = counts.tobytes()
        if key not in self._found:
            self._found[key] = self._branch(counts)
        return self._found[key]

    def _branch(self, counts: IntArray) -> Branch:
        codes = np.flatnonzero(counts)
        values = tuple(self.histogram.values[code] for code in codes)
        part = Histogram(self.histogram.column, values, counts[codes])
        own = self.limits.of(codes)
        largest, found = self.largest(part, own), {}
        if largest > 0:
            found = foreseen_settings(part.counts, own, largest, DEVIATION, self.sizes)
        errors = {setting: each.error for setting, each in found.items()}
        best = min(found.values(), key=lambda each: each.error, default=None)
        return Branch(codes, part, own, errors, np.empty(0) if best is None else best.told)
