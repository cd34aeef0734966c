"""The paper's greedy groups (SPLU, Section 6.1: the group creation step of Anatomy), on counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, IntArray, Positions

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GreedyGroups:
    """Groups of `size` different values: time and again one record of the commonest values.

    For comparison: the same values meet again and again, and the operator that takes them for
    mixed is wrong (errata S5; ties by draw, not by code, which would be worse still). O(N·m/c)
    time and N places of memory. With N a multiple of c and no value above N/c nothing is left
    over (errata S11).

    >>> groups = GreedyGroups.plan([2, 2, 1, 1], size=2, draws=Draws.from_seed(1))
    >>> all(len(set(row)) == 2 for row in groups.rows.tolist())
    True
    """

    counts: IntArray
    size: int
    rows: IntArray  # the values of every group, shape (groups, size)
    seats: IntArray  # group · size + place of every (value, slot), values one after the other
    starts: IntArray  # where each value's slots begin in `seats`

    @classmethod
    def plan(cls, counts: npt.ArrayLike, *, size: int, draws: Draws) -> GreedyGroups:
        left = np.asarray(counts, np.int64).copy()
        total = int(left.sum())
        if total % size or bool((left * size > total).any()):
            raise ValueError("some value has more than 1/size of the records, or some are left")
        rows = np.empty((total // size, size), np.int64)
        values = len(left)
        for number in range(len(rows)):
            ties = draws.words("ties", Positions(number * values, values))
            rows[number] = np.lexsort((ties, -left))[:size]
            left[rows[number]] -= 1
        flat = rows.reshape(-1)
        seats = np.argsort(flat, kind="stable")
        held_counts = np.bincount(flat, minlength=values)
        return cls(
            np.asarray(counts, np.int64), size, rows, seats, np.cumsum(held_counts) - held_counts
        )

    def mates(self, values: npt.ArrayLike, slots: npt.ArrayLike, steps: npt.ArrayLike) -> IntArray:
        """The value `steps` places on in the record's own group, going round."""
        group, place = np.divmod(self._seats(values, slots), self.size)
        return np.asarray(self.rows[group, (place + np.asarray(steps)) % self.size])

    def numbers(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> IntArray:
        """The group of every (value, slot)."""
        return self._seats(values, slots) // self.size

    def _seats(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> IntArray:
        return np.asarray(self.seats[self.starts[np.asarray(values)] + np.asarray(slots)])

    def check(self) -> None:
        """Every group has different values, and every record a group."""
        ordered = np.sort(self.rows, axis=1)
        assert bool((ordered[:, 1:] != ordered[:, :-1]).all()), "a group repeats a value"
        counts = np.bincount(self.rows.reshape(-1), minlength=len(self.counts))
        assert np.array_equal(counts, self.counts), (counts, self.counts)
