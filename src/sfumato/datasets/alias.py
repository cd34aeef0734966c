"""Walker's alias method on exact integers: one table look-up per draw, whatever the shares.

Shares are rounded to multiples of 1 / (slots · 2³²) once, when the table is made; the draws then
follow the rounded shares exactly, because slot and threshold use different bits of one word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.draws import Words

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.intp]

MOST_VALUES = 1 << 16
_CAPACITY = 1 << 32  # weight that fills one slot: the low half of a word is compared with it


@dataclass(frozen=True)
class AliasTable:
    """Alias tables of several distributions over the same values, one after the other."""

    bits: int  # 2**bits slots in each distribution
    threshold: npt.NDArray[np.uint32]
    other: Codes

    @property
    def slots(self) -> int:
        return 1 << self.bits

    @classmethod
    def from_shares(cls, shares: FloatArray) -> AliasTable:
        """One distribution per row of `shares`; O(rows · slots) once.

        >>> table = AliasTable.from_shares(np.array([[0.5, 0.25, 0.25]]))
        >>> words = np.arange(4, dtype=np.uint64) << np.uint64(62)
        >>> table.pick(words, np.zeros(4, np.intp)).tolist()
        [0, 1, 2, 0]
        """
        rows, values = shares.shape
        bits = max(1, (values - 1).bit_length())  # at least 1: a shift by 64 means nothing
        slots = 1 << bits
        threshold = np.zeros((rows, slots), np.uint32)
        other = np.tile(np.arange(slots, dtype=np.int32), (rows, 1))
        for row in range(rows):
            _pair(_integer_weights(shares[row], slots), threshold[row], other[row])
        return cls(bits, threshold.reshape(-1), other.reshape(-1))

    def pick(self, words: Words, offsets: Offsets) -> npt.NDArray[np.int64]:
        """The value that each word draws; `offsets` is the distribution's number times `slots`."""
        slot = (words >> np.uint64(64 - self.bits)).view(np.int64)
        index = slot + offsets
        stays = words.astype(np.uint32) < self.threshold.take(index)
        return np.where(stays, slot, self.other.take(index))


def _integer_weights(shares: FloatArray, slots: int) -> list[int]:
    """Shares as integers that add up to slots · 2³² exactly; a share of 0 stays 0."""
    total = slots * _CAPACITY
    weights = np.rint(shares * (total / shares.sum())).astype(np.int64)
    weights[np.argmax(weights)] += total - int(weights.sum())
    return [*weights.tolist(), *[0] * (slots - len(weights))]


def _pair(weights: list[int], threshold: npt.NDArray[np.uint32], other: Codes) -> None:
    """Fill every slot with what is left of its own value and one other value (Vose's order)."""
    small = [slot for slot, weight in enumerate(weights) if weight < _CAPACITY]
    large = [slot for slot, weight in enumerate(weights) if weight > _CAPACITY]
    while small:
        slot, donor = small.pop(), large[-1]
        threshold[slot] = weights[slot]
        other[slot] = donor
        weights[donor] -= _CAPACITY - weights[slot]
        if weights[donor] <= _CAPACITY:
            large.pop()
            if weights[donor] < _CAPACITY:
                small.append(donor)
    # whoever is left holds exactly one slot and points at itself, so its threshold does not matter
