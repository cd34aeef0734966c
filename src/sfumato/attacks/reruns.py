"""Who matches whom, as a reader who knows the program holds it: match sets, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.operators.base import FloatArray


@dataclass(frozen=True, eq=False)
class Block:
    """Rows and people that hang together. Pair e is of `rows[row[e]]` and `records[record[e]]`."""

    rows: IntArray
    records: IntArray
    row: IntArray
    record: IntArray
    edges: IntArray  # which pairs of all match sets these are
    granted: IntArray  # by person: the place at which rows list them, which is their bucket's

    @cached_property
    def matrix(self) -> Any:
        """Sparse: 1 where a row matches a person."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.row))
        shape = (len(self.rows), len(self.records))
        return csr_array((ones, (self.row, self.record)), shape=shape)


@dataclass(frozen=True, eq=False)
class Read:
    """What a reader makes of a block: a weight for every pair; whether it saw how it was made."""

    weights: FloatArray
    recovered: bool


Reading = Callable[[Block, IntArray, Sequence[Axis], Draws], Read]


@dataclass(frozen=True, eq=False)
class MatchSets:
    """The people behind row r are `records[starts[r]:starts[r + 1]]`.

    `axes` are everybody's quasi columns as the program sees them, `mechanism` is its name.
    """

    starts: IntArray
    records: IntArray
    axes: Sequence[Axis]
    mechanism: str

    @cached_property
    def rows(self) -> IntArray:
        """The row of every pair."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def degrees(self) -> IntArray:
        """How many rows everybody matches."""
        return np.bincount(self.records)

    def blocks(self) -> Iterator[Block]:
        """What hangs together."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        rows, people = len(self.starts) - 1, len(self.degrees)
        pairs = (np.ones(len(self.rows)), (self.rows, rows + self.records))
        _, block = connected_components(
            coo_array(pairs, shape=(rows + people,) * 2), directed=False
        )
        order = np.argsort(block[self.rows], kind="stable")
        for edges in np.split(order, np.flatnonzero(np.diff(block[self.rows[order]])) + 1):
            own_rows, row = np.unique(self.rows[edges], return_inverse=True)
            own, record = np.unique(self.records[edges], return_inverse=True)
            granted = np.empty(len(own), np.int64)
            granted[record] = edges - self.starts[self.rows[edges]]
            yield Block(own_rows, own, row, record, edges, granted)
