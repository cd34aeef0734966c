"""Which records satisfy a condition, a bit per record; conjunctions are ANDs of words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.draws import BoolArray, IntArray

Bits = npt.NDArray[np.uint8]
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

    def get(self, key: Hashable, made: Callable[[], BoolArray]) -> Bits:
        """The bitmap of `key`, from `made()` (a truth value per record) where it is new."""
        if key not in self._kept:
            bitmap = np.packbits(made())
            if (len(self._kept) + 1) * len(bitmap) > MOST_BYTES:
                self._kept.clear()
            self._kept[key] = bitmap
        return self._kept[key]

    def count(self, bitmaps: Sequence[Bits]) -> int:
        """How many records satisfy all."""
        if not bitmaps:
            return self.rows
        return int(np.bitwise_count(np.bitwise_and.reduce(bitmaps)).sum(dtype=np.int64))

    def rows_of(self, bitmaps: Sequence[Bits]) -> IntArray:
        """The records that satisfy all, ascending."""
        if not bitmaps:
            return np.arange(self.rows)
        truth = np.unpackbits(np.bitwise_and.reduce(bitmaps), count=self.rows)
        return np.flatnonzero(truth)
