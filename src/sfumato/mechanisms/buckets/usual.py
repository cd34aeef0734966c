"""Usual conditions on quasi columns, and how much of a block's noise each lets through.

A block that lies wholly inside a condition, or wholly outside, is counted exactly; one of which the
share a satisfies it adds a(1 − a) times its variance (methods, section 7). Buckets over the whole
table add a(1 − a) times theirs. The ratio of the two, on average over conditions such as analysts
ask (one to three columns, a value or a range of each), is what a block counts for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, IntArray, Positions
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, ColumnBins

_CONDITIONS = 60  # one bit each
_CELLS = 1 << 17  # that are looked at
_WIDE = 6  # bins: columns with more are asked for ranges, half of the time
_COLUMNS = 3  # at most, in a condition


@dataclass(frozen=True, eq=False)
class UsualConditions:
    """Which cells satisfy which condition: bit c of `held` is condition c."""

    held: npt.NDArray[np.uint64]
    counts: IntArray
    step: int  # every so many cells are looked at

    @classmethod
    def of(cls, binned: BinnedCounts) -> UsualConditions:
        """Drawn the same each time: nothing about them is secret, and plans must repeat."""
        step = max(1, -(-len(binned.counts) // _CELLS))
        counts = binned.counts[::step]
        codes = [each[::step] for each in binned.codes]
        draws = Draws.from_seed(0).child("usual conditions")
        held = np.zeros(len(counts), np.uint64)
        for number in range(_CONDITIONS if codes else 0):
            own = draws.child(str(number))
            most = min(_COLUMNS, len(codes))
            many = 1 + int(own.below("columns", Positions(0, 1), most)[0])
            inside = np.ones(len(counts), np.bool_)
            for place in own.choose("which", len(codes), many).tolist():
                asked = _asked(binned.columns[place], codes[place], counts, own.child(str(place)))
                inside &= asked[codes[place]]
            held |= inside.astype(np.uint64) << np.uint64(number)
        return cls(held, counts, step)

    def shares(self, cells: IntArray) -> FloatArray:
        """How much of the people in some cells satisfies each condition."""
        looked = cells[cells % self.step == 0] // self.step
        counts = self.counts[looked].astype(np.float64)
        flags = np.unpackbits(self._bytes[looked], axis=1, count=_CONDITIONS, bitorder="little")
        return np.asarray((counts @ flags) / max(float(counts.sum()), 1.0))

    @cached_property
    def _bytes(self) -> npt.NDArray[np.uint8]:
        """The bits of every cell, eight conditions in a byte."""
        return self.held.astype("<u8").view(np.uint8).reshape(-1, 8)

    def weight(self, cells: IntArray, everybody: FloatArray) -> float:
        """What the block of these cells counts for, `everybody` being the shares of all cells."""
        whole = everybody * (1 - everybody)
        some = whole > 0
        if not some.any():
            return 1.0
        share = self.shares(cells)[some]
        return float(np.mean(share * (1 - share) / whole[some]))


def _asked(
    bins: ColumnBins, codes: npt.NDArray[np.uint8], counts: IntArray, draws: Draws
) -> npt.NDArray[np.bool_]:
    """The bins that a condition asks for: that of a random person, or a range that begins there."""
    people = np.cumsum(np.bincount(codes, counts, minlength=bins.number).astype(np.int64))
    word = draws.below("person", Positions(0, 1), int(people[-1]))[0]
    first = int(np.searchsorted(people, word, side="right"))
    last = first
    if bins.values is None and bins.number > _WIDE and draws.below("range", Positions(0, 1), 2)[0]:
        last += int(draws.below("length", Positions(0, 1), bins.number // 2)[0])
    found = np.zeros(bins.number, np.bool_)
    found[first : last + 1] = True
    return found
