"""Which tree makes counts best, and how much better than buckets over the whole table they are.

Trees are compared by the sums of `worth`, before anything is filled. How the filled plan compares
with `optimal` is told by `operators.block_law` from both as they are, and only if it is asked for:
whoever names a mechanism need not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.branches import Branches
from sfumato.mechanisms.buckets.tree import Node
from sfumato.mechanisms.buckets.usual import UsualConditions, stretch
from sfumato.mechanisms.buckets.ways import OptimalBuckets
from sfumato.mechanisms.buckets.worth import Worth, over_whole, pruned
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.block_law import BlockLaw
from sfumato.operators.deviations import BlockTable
from sfumato.profile import Histogram, Profile

_MOST_EXACT = 200  # values: with more, what `worth` saved is taken


@dataclass(frozen=True, eq=False)
class CutTable:
    """A tree of one table, the table's usual conditions, and its error over that without cuts."""

    root: Node
    usual: UsualConditions
    saved: float = 1.0

    def counts(self) -> IntArray:
        """People by (block, value)."""
        return np.stack([node.counts for node in self.root.blocks()])

    def inside(self) -> FloatArray:
        """Those who satisfy usual conditions, by (block, condition, value)."""
        block = np.zeros(len(self.usual.binned.counts), np.int64)
        for number, node in enumerate(self.root.blocks()):
            block[node.cells] = number
        return self.usual.inside(block, self.counts())


def best_of(grown: Sequence[Node], usual: UsualConditions, branches: Branches) -> int:
    """Which tree makes counts best, before cuts are taken back."""
    if not usual.met:
        return 0
    errors = []
    for root in grown:
        cut = CutTable(root, usual)
        inside = cut.inside()
        errors.append(Worth(branches, inside.sum(axis=0)).of_blocks(cut.counts(), inside)[0])
    return int(np.argmin(errors))


def best_cut(root: Node, usual: UsualConditions, branches: Branches) -> CutTable:
    """The tree without the cuts that do not help; one block where none does."""
    cut, whole = CutTable(root, usual), CutTable(root.uncut(), usual)
    if root.sides is None or not usual.met:
        return whole
    inside = cut.inside()
    left, error = pruned(root, inside, Worth(branches, inside.sum(axis=0)))
    return CutTable(left, usual, error) if error < 1 else whole


@dataclass(frozen=True, eq=False)
class Foresight:
    """What a plan in blocks is compared with: buckets over the whole table.

    `inside` are the people of usual conditions by (block, condition, value).
    """

    whole: OptimalBuckets
    guarantee: Guarantee
    draws: Draws
    inside: FloatArray
    saved: float  # as the tree was worth

    def error(self, table: Callable[[], BlockTable], histogram: Histogram) -> float:
        """The predicted error of the whole table's buckets, times what the blocks save.

        How values meet in the blocks is looked at where it is needed only: of many values it is
        large.
        """
        from scipy.sparse import csr_array

        profile = Profile(histogram.rows, {histogram.column: histogram})
        plan = self.whole.plan_column(profile, self.guarantee, self.draws)
        if len(histogram.values) > _MOST_EXACT:
            return plan.predicted_error() * self.saved
        counts = histogram.counts[None, :]
        alone = BlockTable.met(np.zeros(1, np.int64), counts, [csr_array(plan.together)])
        before, asked = _errors(alone, self.inside.sum(axis=0)[None, :, :])
        now, _ = _errors(table(), self.inside)
        return plan.predicted_error() * over_whole(now, before, asked)


def _errors(table: BlockTable, inside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of usual questions, and how many they count: single values, or ranges of them."""
    law, values = BlockLaw(table), inside.shape[2]
    length = stretch(values, 3)
    starts = np.arange(values - length + 1)[:, None]
    ranges = ((np.arange(values) >= starts) & (np.arange(values) < starts + length)).astype(float)
    errors, counts = [], []
    for number in range(inside.shape[1]):
        people = np.minimum(inside[:, number], table.counts)
        bias, covariance = law.moments(people)
        asked = ranges if number % 2 else np.eye(values)
        variances = ((asked @ covariance) * asked).sum(axis=1)
        errors.append(expected_absolute(asked @ bias, variances))
        counts.append(asked @ people.sum(axis=0))
    return np.concatenate(errors), np.concatenate(counts)
