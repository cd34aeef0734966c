"""Keyed permutations of ranks: how a record finds its slot without memory of the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_AT_ONCE = 1 << 21  # words that are drawn together, or those of one value


class Permutation:
    """One keyed permutation of `[0, sizes[x])` per value x, evaluated for many (x, rank) at once.

    Uniformly random, as explicit tables that are drawn when the first rank asks: 30 ns and four
    bytes an entry. `words(start, count)` gives the random words whose order they are.

    >>> from sfumato.draws import Draws
    >>> slots = Draws.from_seed(3).permutation("demo", [4, 3])
    >>> sorted(slots(np.array([0, 0, 0, 0]), np.array([0, 1, 2, 3])).tolist())
    [0, 1, 2, 3]
    """

    def __init__(self, words: Callable[[int, int], Words], sizes: IntArray) -> None:
        if len(sizes) and int(sizes.min()) < 0:
            raise ValueError("sizes must not be negative")
        self.sizes, self._words = sizes, words

    def __getstate__(self) -> dict[str, Any]:
        """For workers elsewhere: with the tables, without what draws them."""
        tables = {"_table": self._table}
        return {name: var for name, var in vars(self).items() if name != "_words"} | tables

    def __call__(self, values: npt.ArrayLike, ranks: npt.ArrayLike) -> IntArray:
        """The slot of every (value, rank)."""
        value, rank = np.asarray(values, np.int64), np.asarray(ranks, np.int64)
        if rank.size and (int(rank.min()) < 0 or bool((rank >= self.sizes[value]).any())):
            raise ValueError("a rank lies outside its value's count")
        return self._table.take(self._edges.take(value) + rank).astype(np.int64)

    @cached_property
    def _edges(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def _table(self) -> npt.NDArray[np.int32]:
        """The tables one after the other; a plan that is only compared draws none."""
        edges = self._edges.tolist()
        table = np.zeros(edges[-1], np.int32)
        steps = np.arange(_AT_ONCE, edges[-1], _AT_ONCE)
        cuts = np.unique([0, *np.searchsorted(self._edges, steps).tolist(), len(edges) - 1])
        for first, last in itertools.pairwise(cuts.tolist()):
            start = edges[first]
            words = self._words(start, edges[last] - start)
            for low, high in itertools.pairwise(edges[first : last + 1]):
                if high > low + 1:
                    table[low:high] = np.argsort(words[low - start : high - start])
        return table
