"""What usual conditions have of planned blocks: predictions for the steward follow from it.

Conditions on one quasi-identifier, every bin of every column. A cut makes less of a block's
variance come through, and less of its people deviate. Nothing public is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts

if TYPE_CHECKING:
    from sfumato.mechanisms.buckets.plan import BucketPlan

_NUMBERS = 1 << 24  # counts by (block, condition, value) that are held


@dataclass(frozen=True, eq=False)
class BinnedBlocks:
    """The cells that a tree was grown on, and the block of each."""

    binned: BinnedCounts
    block: IntArray

    def __getstate__(self) -> dict[str, object]:
        """Workers predict nothing."""
        return {}

    def inside(self, plan: BucketPlan, view: int) -> FloatArray:
        """Of usual conditions, people by (block, condition, value of a column)."""
        binned, values = self.binned, len(plan.holdings.columns[view].values)
        value = plan.holdings.of[binned.values, view]
        return self._inside(binned.cell, value, binned.counts, values)

    @cached_property
    def through(self) -> FloatArray:
        """By block: how much of a count's variance usual conditions let through, over what they let
        through of all people together."""
        people_of_cell, every = self.binned.cells.people, np.arange(len(self.block))
        inside = self._inside(every, 0 * self.block, people_of_cell, 1)[:, :, 0]
        people = np.bincount(self.block, people_of_cell)
        share, whole = inside / np.maximum(people, 1)[:, None], inside.sum(axis=0) / people.sum()
        some = (whole > 0) & (whole < 1)
        through = (share * (1 - share))[:, some] / (whole * (1 - whole))[some]
        return np.asarray(through.mean(axis=1)) if some.any() else np.ones(len(people))

    def _inside(self, cell: IntArray, value: IntArray, n: IntArray, values: int) -> FloatArray:
        """Of usual conditions, bins of quasi columns, people by (block, condition, value); of many
        numbers, every so manieth bin."""
        blocks, cells = int(self.block.max(initial=0)) + 1, self.binned.cells
        many = sum(bins.number for bins in cells.columns) * blocks * values
        step, conditions = max(1, -(-many // _NUMBERS)), [np.zeros((blocks, 0, values))]
        for bins, codes in zip(cells.columns, cells.codes, strict=True):
            of_cell = self.block * bins.number + codes
            table = np.bincount(of_cell[cell] * values + value, n, blocks * bins.number * values)
            whole = table.astype(np.float64).reshape(blocks, bins.number, values)
            conditions.append(whole[:, ::step])
        return np.concatenate(conditions, axis=1)
