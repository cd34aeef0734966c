"""Local buckets for several sensitive columns: people who are alike share a block.

Inside a block all columns share buckets (`shared`), under the ceilings of the whole table.

A cut leaves room where every column has it (`tree.Room`). People of a combination in a block are a
kind of their own, so everything else is as in shared buckets. Where cuts are not foreseen to make
counts better, or no block can be filled, all people are one block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from sfumato.profile import Histogram, Kinds, Profile


@dataclass(frozen=True, eq=False)
class SharedRoom(Room):
    """Room in every view: counts are by kind, and each of them is looked at by its values."""

    views: tuple[View, ...] = ()

    @cached_property
    def _rooms(self) -> list[tuple[Room, IntArray]]:
        """By view its room, and which kinds have each of its values, by (kind, value)."""
        found = []
        for view in self.views:
            own = np.zeros((len(view.of), len(view.values)), np.int64)
            own[np.arange(len(own)), view.of[:, 0]] = 1
            found.append((Room(view.limits, self.slack, self.least), own))
        return found

    def left(self, counts: IntArray) -> BoolArray:
        found = [room.left(counts @ own) for room, own in self._rooms]
        return np.asarray(np.logical_and.reduce(found), np.bool_)

    def taken(self, counts: IntArray) -> FloatArray:
        found = [room.taken(counts @ own) for room, own in self._rooms]
        return np.asarray(np.sum(found, axis=0), np.float64)


@dataclass(frozen=True, eq=False)
class LocalSharedPlan(SharedPlan):
    """`kinds` are by block; `of_block` says which, `cuts` are the tree, and `weights` how much of
    each block's noise usual conditions let through."""

    cuts: BlockTree = field(default_factory=BlockTree)
    of_block: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    weights: tuple[float, ...] = ()

    @property
    def tree(self) -> BlockTree:
        return self.cuts

    @property
    def placed(self) -> tuple[Kinds, IntArray]:
        return self.kinds, self.of_block

    def ranked(self, profile: Profile) -> Mapping[str, IntArray]:
        found = {}
        for place, histogram in enumerate(self.histograms):
            values = len(histogram.values)
            at = self.of_block * values + self.kinds.held[:, 0, place]
            counts = np.bincount(at, self.kinds.counts, minlength=self.cuts.blocks * values)
            found[histogram.column] = counts.astype(np.int64)
        return found

    def public(self) -> dict[str, Any]:
        told = [{"buckets": len(stratum.sizes)} for stratum in self.strata]
        return {**super().public(), "blocks": self.cuts.to_json(told)}

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        return (
            f"{super().statement(guarantee, histogram)} People are mixed inside "
            f"{self.cuts.blocks} blocks only, which are cut by {list_some(self.cuts.columns)}: the "
            "ceiling holds for whoever knows links that do not go beyond the blocks, too."
        )

    def variances(self, histogram: Histogram) -> FloatArray:
        """Those of the blocks, as far as usual conditions let them through."""
        held, found = self.held(histogram.column), np.zeros(len(histogram.values))
        first = 0
        for stratum, weight in zip(self.strata, self.weights, strict=True):
            own = held[first : first + len(stratum.sizes)]
            first += len(stratum.sizes)
            together = np.asarray((own / stratum.sizes[:, None]).T @ own)
            operator = BucketOperator(own.sum(axis=0).astype(np.float64), together, None)
            each = told_variances(operator)
            there = own.sum(axis=0) > 0
            found[there] += weight * each[there]
        return found

    def check(self) -> None:
        """As shared buckets; and every block's buckets hold its own people."""
        super().check()
        for number, stratum in enumerate(self.strata):
            assert bool((self.of_block[stratum.kinds] == number).all()), number


def plan_local_shared(
    shared: SharedPlan, root: Node, usual: UsualConditions, max_size: int | None, draws: Draws
) -> SharedPlan:
    """Buckets inside the blocks of a tree; `shared`, of the whole table, where these are better."""
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
    made = LocalSharedPlan(
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
    return made if made.predicted_error() < shared.predicted_error() else shared


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
    chosen = np.flatnonzero(node.counts)
    marks = marks_of(shared.views, node.counts[chosen], chosen)
    limits = Limits(tuple(c for view in shared.views for c in view.limits.ceilings))
    if bool((marks.people > limits.table([int(marks.counts.sum())])[0]).any()):
        return node, []
    found = fill_shared(marks, limits, max_size, draws.child(f"block {path}"))
    return node, [] if found is None else [found]


def _numbered(strata: Sequence[FilledBuckets], blocks: Sequence[Node]) -> list[FilledBuckets]:
    """The kinds of every block, numbered one block after the other."""
    first, found = 0, []
    for stratum, block in zip(strata, blocks, strict=True):
        found.append(FilledBuckets(stratum.sizes, first + stratum.kinds))
        first += int((block.counts > 0).sum())
    return found
