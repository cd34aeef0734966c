"""Local buckets for several sensitive columns: blocks of people alike.

Inside a block all columns share buckets (`shared`), under the ceilings of the whole table. A cut
leaves room where every column has it (`tree.Room`). Those of a kind in a block are a kind of their
own, so everything else is as in shared buckets. Where cuts are not foreseen to make counts better,
or no block can be filled, all people are one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.blocks import BlockTree
from sfumato.columns import list_some
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.accuracy import told_variances
from sfumato.mechanisms.buckets.foresight import CutTable
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.shared import SharedPlan, View, marks_of
from sfumato.mechanisms.buckets.shared_setting import FilledBuckets, fill_shared
from sfumato.mechanisms.buckets.tree import Node, Room
from sfumato.mechanisms.buckets.usual import UsualConditions, let_through
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.profile import BinnedCounts, Histogram, Kinds, Profile


@dataclass(frozen=True, eq=False)
class SharedRoom(Room):
    """Room in every view: counts are by kind."""

    views: tuple[View, ...] = ()

    @cached_property
    def _rooms(self) -> list[tuple[Room, IntArray]]:
        """By view: its room, and which kinds have each of its values, by (kind, value)."""
        return [
            (
                Room(view.limits, self.slack, self.least),
                np.eye(len(view.values), dtype=np.int64)[view.of],
            )
            for view in self.views
        ]

    def left(self, counts: IntArray) -> BoolArray:
        people = counts.sum(axis=1)
        found = [room.fits(counts @ own, people) for room, own in self._rooms]
        return np.asarray(np.logical_and.reduce([people >= self.least, *found]), np.bool_)

    def taken(self, counts: IntArray) -> FloatArray:
        people = counts.sum(axis=1)
        found = [room.taken_of(counts @ own, people) for room, own in self._rooms]
        return np.asarray(np.sum(found, axis=0), np.float64)


@dataclass(frozen=True, eq=False)
class LocalSharedPlan(SharedPlan):
    """`kinds` are by block, and so are `strata`; `of_block` says which, `cuts` are the tree, and
    `weights` how much of each block's noise usual conditions let through."""

    cuts: BlockTree = field(default_factory=BlockTree)
    of_block: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    weights: tuple[float, ...] = ()

    @property
    def tree(self) -> BlockTree:
        return self.cuts

    @property
    def placed(self) -> tuple[Kinds, IntArray]:
        return self.kinds, self.of_block

    @property
    def first_buckets(self) -> Sequence[int]:
        return tuple((np.cumsum(self._many) - self._many).tolist())

    def ranked(self, profile: Profile) -> Mapping[str, IntArray]:
        found = {}
        for place, histogram in enumerate(self.histograms):
            values = len(histogram.values)
            at = self.of_block * values + self.kinds.held[:, place]
            counts = np.bincount(at, self.kinds.counts, minlength=self.cuts.blocks * values)
            found[histogram.column] = counts.astype(np.int64)
        return found

    @cached_property
    def _many(self) -> IntArray:
        """How many buckets every block has."""
        return np.array([len(stratum.sizes) for stratum in self.strata], np.int64)

    def public(self) -> dict[str, Any]:
        told = [{"buckets": number} for number in self._many.tolist()]
        return {**super().public(), "blocks": self.cuts.to_json(told)}

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        return (
            f"{super().statement(guarantee, histogram)} People are mixed inside "
            f"{self.cuts.blocks} blocks only, which are cut by {list_some(self.cuts.columns)}: "
            "the ceiling holds for whoever knows links that do not go beyond the blocks, too."
        )

    def variances(self, histogram: Histogram) -> FloatArray:
        """As far as usual conditions let the blocks through, with one deviation for all blocks (see
        `operators.listed`): what differs between blocks is no noise."""
        held, values = self.held(histogram.column), len(histogram.values)
        counts, together, ends = np.zeros(values), np.zeros((values, values)), np.cumsum(self._many)
        for first, end, weight in zip(ends - self._many, ends, self.weights, strict=True):
            own, sizes = held[first:end], self.sizes[first:end]
            whole = own.sum(axis=0)
            counts += weight * whole
            together += weight * ((own / sizes[:, None]).T @ own)
            together -= weight * np.outer(whole, whole) / sizes.sum()
        together += np.outer(counts, counts) / max(float(counts.sum()), 1.0)
        return told_variances(BucketOperator(counts, together, None))

    def check(self) -> None:
        """As shared buckets; and every block's buckets hold its own people."""
        super().check()
        for number, stratum in enumerate(self.strata):
            assert bool((self.of_block[stratum.kinds] == number).all()), number


def plan_local_shared(
    shared: SharedPlan,
    roots: Sequence[Node],
    binned: BinnedCounts,
    max_size: int | None,
    draws: Draws,
) -> SharedPlan:
    """Buckets inside the blocks of the tree that is foreseen to make counts best; `shared`, of the
    whole table, where none does."""
    different = {root.tree(): root for root in roots if root.sides is not None}
    if not different:
        return shared
    usual = UsualConditions.of(binned)
    plans = [_plan_tree(shared, root, usual, max_size, draws) for root in different.values()]
    return min([shared, *plans], key=lambda plan: plan.predicted_error())


def _plan_tree(
    shared: SharedPlan, root: Node, usual: UsualConditions, max_size: int | None, draws: Draws
) -> SharedPlan:
    """Buckets inside the blocks of a tree; `shared`, of the whole table, where none is filled."""
    node, strata = _filled(root, shared, max_size, draws, "")
    if node.sides is None:
        return shared
    blocks = list(node.blocks())
    of_block = np.concatenate([np.full(int((b.counts > 0).sum()), n) for n, b in enumerate(blocks)])
    kind = np.concatenate([np.flatnonzero(block.counts) for block in blocks])
    counts = np.concatenate([block.counts[block.counts > 0] for block in blocks])
    kinds = Kinds(shared.kinds.columns, shared.kinds.held[kind], counts)
    views = tuple(
        View(view.names, view.of[kind], view.values, view.limits) for view in shared.views
    )
    cut = CutTable(node, usual)
    return LocalSharedPlan(
        shared.histograms,
        kinds,
        views,
        tuple(_numbered(strata, blocks)),
        draws.permutation("slots", counts),
        shared.joint,
        cuts=node.tree(),
        of_block=of_block,
        weights=tuple(let_through(cut.inside(), cut.counts()).tolist()),
    )


def _filled(
    node: Node, shared: SharedPlan, max_size: int | None, draws: Draws, path: str
) -> tuple[Node, list[FilledBuckets]]:
    """The blocks of a branch, filled; where one cannot be, the branch is one block."""
    if node.sides is not None:
        first, before = _filled(node.sides[0], shared, max_size, draws, path + "0")
        second, after = _filled(node.sides[1], shared, max_size, draws, path + "1")
        if before and after:
            return replace(node, sides=(first, second)), before + after
        node = node.uncut()
        if not path:  # buckets of the whole table are planned elsewhere
            return node, []
    limits = Limits(tuple(c for view in shared.views for c in view.limits.ceilings))
    chosen = np.flatnonzero(node.counts)
    marks = marks_of(shared.views, node.counts[chosen], chosen)
    if bool((marks.people > limits.table([int(marks.counts.sum())])[0]).any()):
        return node, []
    filled = fill_shared(marks, limits, max_size, draws.child(f"block {path}"))
    return node, [] if filled is None else [FilledBuckets(filled.sizes, chosen[filled.kinds])]


def _numbered(strata: Sequence[FilledBuckets], blocks: Sequence[Node]) -> Iterator[FilledBuckets]:
    """The kinds of every block, numbered one block after the other."""
    first = 0
    for own, block in zip(strata, blocks, strict=True):
        place = first + np.cumsum(block.counts > 0) - 1
        yield FilledBuckets(own.sizes, place[own.kinds])
        first += int((block.counts > 0).sum())
