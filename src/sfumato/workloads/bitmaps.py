"""Which records satisfy a condition, a bit per record; conjunctions are ANDs of words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.draws import BoolArray, IntArray

Bits = npt.NDArray[np.uint64]
MOST_BYTES = 1 << 28  # of bitmaps that are kept: beyond it they are made anew


class Bitmaps:
    """Bitmaps over `rows` records by key, made on first use and kept while they fit.

    >>> bitmaps = Bitmaps(3)
    >>> even = bitmaps.get("even", lambda: np.array([True, False, True]))
    >>> last = bitmaps.get("last", lambda: np.array([False, False, True]))
    >>> bitmaps.rows_of([even, last]).tolist(), bitmaps.count([even, last])
    ([2], 1)
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._kept: dict[Hashable, Bits] = {}
        self._words = (rows + 63) // 64

    def get(self, key: Hashable, made: Callable[[], BoolArray]) -> Bits:
        """The bitmap of `key`, from `made()` (a truth value per record) where it is new."""
        bitmap = self._kept.get(key)
        if bitmap is None:
            bitmap = self._packed(made())
            if (len(self._kept) + 1) * self._words * 8 > MOST_BYTES:
                self._kept.clear()
            self._kept[key] = bitmap
        return bitmap

    def _packed(self, holds: BoolArray) -> Bits:
        packed = np.zeros(self._words * 8, np.uint8)
        short = np.packbits(holds)
        packed[: len(short)] = short
        return packed.view(np.uint64)

    def _all(self, bitmaps: Sequence[Bits]) -> Bits:
        whole = bitmaps[0]
        for bits in bitmaps[1:]:
            whole = whole & bits
        return whole

    def count(self, bitmaps: Sequence[Bits]) -> int:
        """How many records satisfy all."""
        if not bitmaps:
            return self.rows
        return int(np.bitwise_count(self._all(bitmaps)).sum(dtype=np.int64))

    def rows_of(self, bitmaps: Sequence[Bits]) -> IntArray:
        """The records that satisfy all, ascending."""
        if not bitmaps:
            return np.arange(self.rows)
        truth = np.unpackbits(self._all(bitmaps).view(np.uint8), count=self.rows)
        return np.flatnonzero(truth.view(np.bool_))
