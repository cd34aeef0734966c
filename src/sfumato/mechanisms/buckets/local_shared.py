"""Local buckets for several sensitive columns, or several rows of people: blocks of people alike.

Inside a block all columns and rows share buckets (`shared`), under the ceilings of the whole table.
All rows of a person must lie in one block. So people with several rows are cut by quasi columns
that are alike in all rows of everybody, and by no others; where there are none, there are no cuts.

A cut leaves room where every column has it (`tree.Room`), for people of every number of rows. Those
of a kind in a block are a kind of their own, so everything else is as in shared buckets. Where cuts
are not foreseen to make counts better, or no block can be filled, all people are one block.
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
    """Room in every view, for people of every number of `rows`: counts are by kind."""

    views: tuple[View, ...] = ()
    rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))  # of every kind

    @cached_property
    def _rooms(self) -> list[tuple[Room, IntArray, IntArray]]:
        """By view and number of rows: its room, which kinds have so many rows, and which of these
        have each of its values in some row, by (kind, value)."""
        found = []
        for rows in np.unique(self.rows):
            there = (self.rows == rows).astype(np.int64)
            for view in self.views:
                own = np.zeros((len(view.of), len(view.values)), np.int64)
                kind, row = np.nonzero((view.of >= 0) & (there > 0)[:, None])
                own[kind, view.of[kind, row]] = 1
                found.append((Room(view.limits, self.slack, self.least), there, own))
        return found

    @cached_property
    def _held(self) -> IntArray:
        """How many rows of a kind have each value of each view, by (kind, value)."""
        found = []
        for view in self.views:
            own = np.zeros((len(view.of), len(view.values)), np.int64)
            kind, row = np.nonzero(view.of >= 0)
            np.add.at(own, (kind, view.of[kind, row]), 1)
            found.append(own)
        return np.concatenate(found, axis=1)

    def looked_at(self, counts: IntArray) -> IntArray:
        """Rows by value where people have several: of all that they hold together there are so many
        kinds that any cut would seem to tell much of them."""
        if int(self.rows.max(initial=1)) == 1:
            return counts
        return np.asarray(counts @ self._held, np.int64)

    def left(self, counts: IntArray) -> BoolArray:
        found = [room.fits(counts @ own, counts @ there) for room, there, own in self._rooms]
        enough = counts.sum(axis=1) >= self.least
        return np.asarray(np.logical_and.reduce([enough, *found]), np.bool_)

    def taken(self, counts: IntArray) -> FloatArray:
        found = [room.taken_of(counts @ own, counts @ there) for room, there, own in self._rooms]
        return np.asarray(np.sum(found, axis=0), np.float64)


@dataclass(frozen=True, eq=False)
class LocalSharedPlan(SharedPlan):
    """`kinds` are by block; `of_block` says which, `inside` the block of every stratum, `cuts` are
    the tree, and `weights` how much of each block's noise usual conditions let through."""

    cuts: BlockTree = field(default_factory=BlockTree)
    of_block: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    inside: tuple[int, ...] = ()
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
            held = self.kinds.held[:, :, place]
            kind, row = np.nonzero(held >= 0)
            at = self.of_block[kind] * values + held[kind, row]
            counts = np.bincount(at, self.kinds.counts[kind], minlength=self.cuts.blocks * values)
            found[histogram.column] = counts.astype(np.int64)
        return found

    @cached_property
    def _many(self) -> IntArray:
        """How many buckets every block has."""
        buckets = [len(stratum.sizes) for stratum in self.strata]
        return np.bincount(self.inside, buckets, minlength=self.cuts.blocks).astype(np.int64)

    def public(self) -> dict[str, Any]:
        told = [{"buckets": number} for number in self._many.tolist()]
        return {**super().public(), "blocks": self.cuts.to_json(told)}

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        cut = list_some(self.cuts.columns)
        told = (
            f"{super().statement(guarantee, histogram)} People are mixed inside "
            f"{self.cuts.blocks} blocks only, which are cut by {cut}: the ceiling holds for "
            "whoever knows links that do not go beyond the blocks, too."
        )
        if self.several_rows:
            told += f" All rows of a person lie in one block: they are alike in {cut}."
        return told

    def variances(self, histogram: Histogram) -> FloatArray:
        """As far as usual conditions let the blocks through, with one deviation for all blocks (see
        `operators.local`): what differs between blocks is no noise."""
        held, values = self.held(histogram.column), len(histogram.values)
        counts, together, ends = np.zeros(values), np.zeros((values, values)), np.cumsum(self._many)
        for first, end, weight in zip(ends - self._many, ends, self.weights, strict=True):
            own, sizes = held[first:end], self.row_sizes[first:end]
            whole = own.sum(axis=0)
            counts += weight * whole
            together += weight * ((own / sizes[:, None]).T @ own)
            together -= weight * np.outer(whole, whole) / sizes.sum()
        together += np.outer(counts, counts) / max(float(counts.sum()), 1.0)
        return told_variances(BucketOperator(counts, together, None))

    def check(self) -> None:
        """As shared buckets; and every block's buckets hold its own people."""
        super().check()
        assert list(self.inside) == sorted(self.inside), "buckets are numbered block by block"
        for number, stratum in zip(self.inside, self.strata, strict=True):
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
        inside=tuple(number for number, own in enumerate(strata) for _ in own),
        weights=tuple(let_through(cut.inside(), cut.counts()).tolist()),
    )


def _filled(
    node: Node, shared: SharedPlan, max_size: int | None, draws: Draws, path: str
) -> tuple[Node, list[list[FilledBuckets]]]:
    """The blocks of a branch, filled; where one cannot be, the branch is one block."""
    if node.sides is not None:
        first, before = _filled(node.sides[0], shared, max_size, draws, path + "0")
        second, after = _filled(node.sides[1], shared, max_size, draws, path + "1")
        if before and after:
            return replace(node, sides=(first, second)), before + after
        node = node.uncut()
        if not path:  # buckets of the whole table are planned elsewhere
            return node, []
    found = _strata(node, shared, max_size, draws.child(f"block {path}"))
    return node, [found] if found else []


def _strata(
    node: Node, shared: SharedPlan, max_size: int | None, draws: Draws
) -> list[FilledBuckets]:
    """The people of a block in buckets, those of each number of rows apart; empty where they
    cannot be."""
    limits = Limits(tuple(c for view in shared.views for c in view.limits.ceilings))
    rows, found = shared.kinds.rows, []
    for number in np.unique(rows[node.counts > 0]):
        chosen = np.flatnonzero((node.counts > 0) & (rows == number))
        marks = marks_of(shared.views, node.counts[chosen], chosen)
        if bool((marks.people > limits.table([int(marks.counts.sum())])[0]).any()):
            return []
        filled = fill_shared(marks, limits, max_size, draws.child(f"people with {number} rows"))
        if filled is None:
            return []
        found.append(FilledBuckets(filled.sizes, chosen[filled.kinds]))
    return found


def _numbered(
    strata: Sequence[Sequence[FilledBuckets]], blocks: Sequence[Node]
) -> Iterator[FilledBuckets]:
    """The kinds of every block, numbered one block after the other."""
    first = 0
    for own, block in zip(strata, blocks, strict=True):
        place = first + np.cumsum(block.counts > 0) - 1
        for stratum in own:
            yield FilledBuckets(stratum.sizes, place[stratum.kinds])
        first += int((block.counts > 0).sum())
