"""What a model foresees for cells of quasi codes, computed once and kept for later questions.

A *cell* is one combination of codes. Questions ask for the same cells again and again, so each has
a number that stays its own, and rows in tables that only grow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.model import Model

_KEPT = 1 << 24  # numbers of one table that are kept between questions
_AT_ONCE = 1 << 22  # numbers of one table that are held for lines that are not kept
_STAGE = 1 << 31  # combinations of codes that are numbered together


class CellNumbers:
    """Equal codes get equal numbers, from 0 on, in this call and in every later one.

    >>> numbers = CellNumbers([10, 10])
    >>> numbers.of([np.array([3, 4, 3]), np.array([0, 0, 0])]).tolist()
    [0, 1, 0]
    >>> numbers.of([np.array([5, 4]), np.array([9, 0])]).tolist()
    [2, 1]
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._stages: list[list[tuple[int, int]]] = [[]]
        room = _STAGE
        for column, size in enumerate(sizes):
            if room // size < 1:
                self._stages.append([])
                room = _STAGE
            room //= size
            self._stages[-1].append((column, size))
        self._known = [pa.array([], pa.int64()) for _ in self._stages]

    def of(self, codes: Sequence[IntArray]) -> IntArray:
        found = np.zeros(len(codes[0]), np.int64)
        for stage, columns in enumerate(self._stages):
            for column, size in columns:
                found = found * size + codes[column]
            found = self._numbered(stage, found)
        return found

    def _numbered(self, stage: int, key: IntArray) -> IntArray:
        found = self._places(stage, key)
        new = found < 0
        if new.any():
            fresh = pa.array(np.unique(key[new]))
            self._known[stage] = pa.concat_arrays([self._known[stage], fresh])
            found = self._places(stage, key)
        return found

    def _places(self, stage: int, key: IntArray) -> IntArray:
        found = pc.index_in(pa.array(key), value_set=self._known[stage])
        return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some lines, and the row that each of them has in a table.

    The table has by (cell, value): the mean of the two rules, its square, and their difference.
    """

    lines: slice
    cells: IntArray
    table: FloatArray  # (cells, 3, values)

    def summed(self, of: IntArray, classes: int, sums: FloatArray) -> FloatArray:
        """Σ sums·table by class: (classes, 3, values)."""
        from scipy.sparse import csr_array

        order = np.argsort(of, kind="stable") if classes > 1 else slice(None)
        starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=classes))])
        lined = csr_array(
            (sums[order], self.cells[order], starts), shape=(classes, len(self.table))
        )
        found = lined @ self.table.reshape(len(self.table), -1)
        return np.asarray(found).reshape(classes, *self.table.shape[1:])

    def means(self, lines: IntArray) -> FloatArray:
        return np.asarray(self.table[self.cells[lines], 0])


class Foreseen:
    """The predictions of a model for the cells that were asked for."""

    def __init__(self, model: Model) -> None:
        self.model, self.values = model, len(model.variances)
        columns = len(model.coarse)
        sizes = [len(table) for table in model.rules[0].tables[:columns]]
        if model.parts is not None:
            sizes.append(len(model.parts[0]))
        self._numbers = CellNumbers(sizes)
        self._kept = np.empty((0, 3, self.values))
        self._rows = 0
        self._lock = threading.Lock()

    def pieces(self, codes: Sequence[IntArray]) -> list[Piece] | Iterator[Piece]:
        """All lines at once from what is kept; where that would be too much, some at a time."""
        with self._lock:
            cells = self._numbers.of(codes)
            if (int(cells.max(initial=-1)) + 1) * self.values <= _KEPT:
                self._grow(codes, cells)
                return [Piece(slice(None), cells, self._kept[: self._rows])]
        return self._passing(codes, cells)

    def _passing(self, codes: Sequence[IntArray], cells: IntArray) -> Iterator[Piece]:
        step = max(_AT_ONCE // self.values, 1)
        for low in range(0, len(cells), step):
            lines = slice(low, low + step)
            _, line, place = np.unique(cells[lines], return_index=True, return_inverse=True)
            yield Piece(lines, place, self._foresee([each[lines][line] for each in codes]))

    def _grow(self, codes: Sequence[IntArray], cells: IntArray) -> None:
        """Foresee what is new. Cells are numbered in the order in which they come."""
        wanted = int(cells.max(initial=-1)) + 1
        if wanted <= self._rows:
            return
        new = np.flatnonzero(cells >= self._rows)
        _, first = np.unique(cells[new], return_index=True)
        if wanted > len(self._kept):
            grown = np.empty((max(wanted, 2 * self._rows), 3, self.values))
            grown[: self._rows] = self._kept[: self._rows]
            self._kept = grown
        self._kept[self._rows : wanted] = self._foresee([each[new[first]] for each in codes])
        self._rows = wanted

    def _foresee(self, codes: Sequence[IntArray]) -> FloatArray:
        own = list(codes)
        part = own.pop() if self.model.parts is not None else None
        one, other = self.model.chances(own, part)
        mean = (one + other) / 2
        return np.stack([mean, mean**2, one - other], axis=1)
