"""Keyed permutations of ranks: how a record finds its slot without memory of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.keystream import IntArray, Words, encrypt_blocks
from sfumato.sorting import sorted_places

_CHUNK = 1 << 15  # elements per inner step: temporaries stay in the second-level cache


class Permutation:
    """One keyed permutation of `[0, sizes[x])` per value x, evaluated for many (x, rank) at once.

    Small sizes hold an explicit, uniformly random table (2²¹ entries in all at most). Larger ones
    run a generalized Feistel network with AES round functions on Z_a × Z_b, a·b ≥ size, walking
    out-of-range points on: a bijection for every key, in O(1) per rank. The round functions are
    looked up in tables of O(√size) entries where 2²⁴ of them are enough. `words(n)` gives the n
    random words that the explicit tables are sorted by.

    >>> from sfumato.draws import Draws
    >>> slots = Draws.from_seed(3).permutation("demo", [4, 3])
    >>> sorted(slots(np.array([0, 0, 0, 0]), np.array([0, 1, 2, 3])).tolist())
    [0, 1, 2, 3]
    """

    ROUNDS = 6
    TABLE_ENTRIES = 1 << 21
    ROUND_ENTRIES = 1 << 24

    def __init__(self, key: bytes, words: Callable[[int], Words], sizes: IntArray) -> None:
        if len(sizes) and int(sizes.min()) < 0:
            raise ValueError("sizes must not be negative")
        self.sizes = sizes
        self._key = key
        ascending = np.argsort(sizes, kind="stable")
        fits = np.cumsum(sizes[ascending]) <= self.TABLE_ENTRIES
        tabled = np.sort(ascending[fits])
        self._offset = np.full(len(sizes), -1, np.int64)
        self._offset[tabled] = np.concatenate([[0], np.cumsum(sizes[tabled])])[: len(tabled)]
        self._words, self._tabled = words, sizes[tabled]
        self._all_tabled = len(tabled) == len(sizes)
        root = np.ceil(np.sqrt(np.maximum(sizes, 1).astype(np.float64))).astype(np.int64)
        self._left = np.maximum(root, 1)
        self._right = np.maximum(-(-sizes // np.maximum(root, 1)), 1)

    @cached_property
    def _table(self) -> IntArray:
        """The explicit tables one after the other; a plan that is only compared draws none."""
        return _shuffled_runs(self._words(int(self._tabled.sum())), self._tabled)

    def __getstate__(self) -> dict[str, Any]:
        """For workers elsewhere: with the tables, without what draws them."""
        tables = {"_table": self._table}
        return {name: var for name, var in vars(self).items() if name != "_words"} | tables

    def __call__(self, values: npt.ArrayLike, ranks: npt.ArrayLike) -> IntArray:
        """The slot of every (value, rank). Cost: about 0.1 µs a record where a network runs."""
        value, rank = np.asarray(values, np.int64), np.asarray(ranks, np.int64)
        if rank.size and (int(rank.min()) < 0 or bool((rank >= self.sizes[value]).any())):
            raise ValueError("a rank lies outside its value's count")
        slots = np.empty(len(rank), np.int64)
        for low in range(0, len(rank), _CHUNK):
            part = slice(low, low + _CHUNK)
            slots[part] = self._chunk(value[part], rank[part])
        return slots

    def _chunk(self, value: IntArray, rank: IntArray) -> IntArray:
        if self._all_tabled:
            return np.asarray(self._table[self._offset[value] + rank])
        slots = np.empty(len(rank), np.int64)
        offset = self._offset[value]
        tabled = np.flatnonzero(offset >= 0)
        slots[tabled] = self._table[offset[tabled] + rank[tabled]]
        pending = np.flatnonzero(offset < 0)
        values, point = value[pending], rank[pending]
        while pending.size:  # cycle walking: fewer than size**-0.5 of the points go round again
            point = self._network(values, point)
            slots[pending] = point
            outside = np.flatnonzero(point >= self.sizes[values])
            pending, values, point = pending[outside], values[outside], point[outside]
        return slots

    def _network(self, value: IntArray, point: IntArray) -> IntArray:
        a, b = self._left[value], self._right[value]
        # exact for sizes below 2⁵³: a quotient lies at least 1/b below the next whole number
        left = (point / b).astype(np.int64)
        right = point - left * b
        rounds = self._rounds
        starts = None if rounds is None else (rounds.starts[0][value], rounds.starts[1][value])
        for number in range(self.ROUNDS):
            into_left = number % 2 == 0
            half, modulus = (left, a) if into_left else (right, b)
            other = right if into_left else left
            if rounds is None or starts is None:
                half += self._mixed(value, number, other, modulus)
            else:
                half += rounds.tables[number][starts[number % 2] + other]
            # modulo: of the two candidates the negative one is huge as an unsigned number
            reduced = (half - modulus).view(np.uint64)
            np.minimum(half.view(np.uint64), reduced, out=half.view(np.uint64))
        left *= b
        left += right
        return left

    def _mixed(self, value: IntArray, number: int, other: IntArray, modulus: IntArray) -> IntArray:
        """The round function: what a half moves by, given the other half."""
        blocks = np.empty((len(other), 2), np.uint64)
        blocks[:, 0] = (value.astype(np.uint64) << np.uint64(8)) + np.uint64(number)
        blocks[:, 1] = other
        mixed = encrypt_blocks(self._key, blocks)[:, 0]
        scaled = (mixed >> np.uint64(32)) * modulus.astype(np.uint64)
        return (scaled >> np.uint64(32)).view(np.int64)

    @cached_property
    def _rounds(self) -> _Rounds | None:
        """The round functions as tables, where they are small: a half has √size points only."""
        networked = np.flatnonzero(self._offset < 0)
        a, b = self._left[networked], self._right[networked]
        if self.ROUNDS * int(np.maximum(a, b).sum()) > self.ROUND_ENTRIES:
            return None
        starts, tables = [], []
        for inputs in (b, a):  # even rounds read the right half, odd rounds the left one
            start = np.zeros(len(self.sizes), np.int64)
            start[networked] = np.cumsum(inputs) - inputs
            starts.append(start)
        for number in range(self.ROUNDS):
            inputs, modulus = (b, a) if number % 2 == 0 else (a, b)
            owner = np.repeat(np.arange(len(networked)), inputs)
            other = np.arange(len(owner)) - starts[number % 2][networked][owner]
            mixed = self._mixed(networked[owner], number, other, modulus[owner])
            tables.append(mixed.astype(np.int32))
        return _Rounds((starts[0], starts[1]), tables)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """Where each value's inputs start in the tables of even and odd rounds, and the tables."""

    starts: tuple[IntArray, IntArray]
    tables: list[npt.NDArray[np.int32]]


def _shuffled_runs(words: Words, sizes: IntArray) -> IntArray:
    """The order of the words within each run of the given sizes."""
    if len(sizes) > 1 << 15:  # many small runs: one sort of everything
        owners = np.repeat(np.arange(len(sizes)), sizes)
        return np.lexsort((words, owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ends = np.cumsum(sizes).tolist()
    orders = [sorted_places(words[low:high]) for low, high in zip([0, *ends], ends, strict=False)]
    return np.concatenate(orders) if orders else np.empty(0, np.int64)
