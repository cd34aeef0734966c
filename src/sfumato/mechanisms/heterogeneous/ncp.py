"""The normalized certainty penalty (NCP) of a column, in integers, grown match by match.

A row covers what its matches show: a range (numeric) or a set (categorical).
Covers are joined, never searched: `single` starts one, `join` merges two, `growth` tells what
further records would cost. All costs are integers: NCP times the least common multiple of the
columns' denominators (H8), held in float64, which is exact below 2⁵³. Every method works on many
classes of rows at once: leading axes belong to classes and rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray

Floats = npt.NDArray[np.float64]
Cover = npt.NDArray[Any]  # last axes belong to the cover, the others to rows
WORDS = (np.uint8, np.uint16, np.uint32, np.uint64)
EXACT = 1 << 36  # a larger common multiple is replaced by this scale: costs are then rounded


class Axis(ABC):
    """One quasi column of the table: `codes[r]` is record r's value as a small integer."""

    def __init__(self, name: str, codes: IntArray, denominator: int) -> None:
        assert denominator >= 0
        self.name, self.codes, self.denominator = name, codes, denominator

    @property
    @abstractmethod
    def values(self) -> int:
        """How many codes there are."""

    def localize(self, codes: IntArray) -> tuple[Axis, IntArray]:
        """The axis for a few records only, and their codes on it: tables stay small."""
        return self, codes

    @abstractmethod
    def single(self, codes: IntArray) -> Cover:
        """The cover of one value, per row."""

    @abstractmethod
    def join(self, one: Cover, other: Cover) -> Cover:
        """The smallest cover of both, per row."""

    @abstractmethod
    def growth(self, cover: Cover, codes: IntArray) -> npt.NDArray[Any]:
        """`growth[k, v, r]`: how many units row r of class k grows by a record with `codes[k, v]`.

        `cover` belongs to classes and rows: (k, r).
        """

    @abstractmethod
    def size(self, cover: Cover) -> IntArray:
        """NCP of each cover, in units of 1/denominator."""

    @abstractmethod
    def spread(self, codes: IntArray) -> int:
        """NCP of the smallest cover of all these values, in units of 1/denominator."""


class NumericAxis(Axis):
    """A numeric column: code v stands at `positions[v]`, ascending; a cover is (low, high)."""

    def __init__(self, name: str, codes: IntArray, positions: IntArray, denominator: int) -> None:
        super().__init__(name, codes, denominator)
        self.positions = positions

    @property
    def values(self) -> int:
        return len(self.positions)

    def single(self, codes: IntArray) -> Cover:
        position = self.positions[codes].astype(np.int32)
        return np.stack([position, position], axis=-1)

    def join(self, one: Cover, other: Cover) -> Cover:
        low = np.minimum(one[..., 0], other[..., 0])
        return np.stack([low, np.maximum(one[..., 1], other[..., 1])], axis=-1)

    def growth(self, cover: Cover, codes: IntArray) -> npt.NDArray[Any]:
        position = self.positions[codes].astype(np.int32)[:, :, None]
        below, above = cover[:, None, :, 0], cover[:, None, :, 1]
        grown = np.maximum(below - position, position - above)
        return np.maximum(grown, 0, out=grown)

    def size(self, cover: Cover) -> IntArray:
        return np.asarray(cover[..., 1] - cover[..., 0], np.int64)

    def spread(self, codes: IntArray) -> int:
        return int(self.positions[codes.max()] - self.positions[codes.min()])


class SetAxis(Axis):
    """A categorical column: a cover is the set of values, one bit each, in words of one size."""

    def __init__(self, name: str, codes: IntArray, values: int, denominator: int) -> None:
        super().__init__(name, codes, denominator)
        self._values = values
        self._word = next((w for w in WORDS if values <= np.iinfo(w).bits), np.uint64)

    @property
    def values(self) -> int:
        return self._values

    def localize(self, codes: IntArray) -> tuple[Axis, IntArray]:
        used, local = np.unique(codes, return_inverse=True)
        return SetAxis(self.name, local, len(used), self.denominator), local.reshape(codes.shape)

    def single(self, codes: IntArray) -> Cover:
        word, bit = np.divmod(codes, 64)
        lit = np.left_shift(np.uint64(1), bit.astype(np.uint64)).astype(self._word)
        words = np.arange(-(-self._values // 64))
        return np.where(word[..., None] == words, lit[..., None], self._word(0))

    def join(self, one: Cover, other: Cover) -> Cover:
        return np.bitwise_or(one, other)

    def growth(self, cover: Cover, codes: IntArray) -> npt.NDArray[Any]:
        if cover.shape[-1] == 1:
            words = np.swapaxes(cover, 1, 2)
        else:
            words = np.take_along_axis(np.swapaxes(cover, 1, 2), codes[:, :, None] // 64, axis=1)
        bit = (codes % 64).astype(self._word)[:, :, None]
        return np.asarray(((words >> bit) & self._word(1)) ^ self._word(1))

    def size(self, cover: Cover) -> IntArray:
        return np.asarray(np.bitwise_count(cover).sum(axis=-1, dtype=np.int64) - 1)

    def spread(self, codes: IntArray) -> int:
        return int(np.count_nonzero(np.bincount(codes))) - 1


@dataclass(frozen=True)
class Scale:
    """What one unit of each column costs: integers in the ratio of 1/denominator.

    >>> Scale.of([78, 1, 16, 5, 8, 9, 82]).whole
    383760
    """

    whole: int
    units: tuple[int, ...]

    @staticmethod
    def of(denominators: Sequence[int]) -> Scale:
        used = [denominator for denominator in denominators if denominator]
        whole = math.lcm(*used)
        if whole > EXACT:
            whole = EXACT
        return Scale(whole, tuple(round(whole / d) if d else 0 for d in denominators))
