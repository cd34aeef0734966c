"""Local buckets: people are mixed with people like them only (methods, section 7).

A tree of cuts on quasi columns makes blocks (`tree`); inside each, buckets are planned and mixed as
everywhere else, under the ceilings of the whole table. So the ceilings hold in every bucket, just
as without blocks. Two things change. A block wholly inside a condition is counted exactly, so
answers are sharper; and inside a block quasi columns say little about the value, so whoever knows
how they hang together learns less.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, Self, TypeVar

import numpy as np

from sfumato.columns import list_some
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.buckets.accuracy import error_of
from sfumato.mechanisms.buckets.exchange import fill
from sfumato.mechanisms.buckets.feasible import holdings_of, limits_of
from sfumato.mechanisms.buckets.filling import Filling, Listed
from sfumato.mechanisms.buckets.foresight import UsualConditions
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.buckets.rungs import foreseen_settings
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.tree import Node, Room, grow
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.buckets.ways import Choice, OptimalBuckets, mixed
from sfumato.mechanisms.mixed import BucketParts
from sfumato.mechanisms.protocol import Mechanism
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Holdings, Profile
from sfumato.textform import Parameter

USUAL_LEAST = 200
MOST_BLOCKS = 1000
PIECES = (128, 32)  # that a block is mixed in, and each of its parts at least
_DEVIATION = 0.025  # P = o + this·o²: a tenth of the people, whose counts are half off (τ² = 1/4)
_SIZES = 8  # of buckets, that are tried in a block
_TRIED = 4  # settings of a block, until one can be filled
Filled = TypeVar("Filled")


@dataclass(frozen=True)
class LocalBuckets(Mechanism):
    """Blocks of at least `min` people, or a thousandth of the table, cut by `columns` or by all.

    Of every value a block has at most `slack` times what its ceiling allows; buckets have at most
    `max_size` people. `columns` are divided by semicolons.

    >>> str(LocalBuckets(min="800", columns="age;sex"))
    'local(min=800, columns=age;sex)'
    """

    max_size: int | None = None
    min: int = USUAL_LEAST
    slack: Fraction = Fraction(1)
    columns: str = ""

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("max_size", least=1, whole=True),
        Parameter("min", least=1, whole=True),
        Parameter("slack", above=0, most=1),
    )
    name: ClassVar[str] = "local"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    sentence: ClassVar[str] = (
        "Shows records in buckets that mix people with people like them only: answers are sharper, "
        "and whoever knows how the columns are associated learns less."
    )
    needs_bins: ClassVar[bool] = True
    needs_holdings: ClassVar[bool] = True

    @classmethod
    def advised(cls) -> list[Self]:
        """None: advice looks at hundreds of plans, and prices this one for what it found."""
        return []

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketPlan:
        """Cut as far as it is worth it; where no cut is, all people are one block."""
        holdings = holdings_of(self.name, profile, guarantee)
        limits, binned = limits_of(holdings, guarantee), profile.binned
        if binned is None:
            raise UsageError(f"{self} looks at groups of people: count them first.")
        least = max(self.min, holdings.people // MOST_BLOCKS)
        root = grow(binned, Room(holdings, limits, self.slack, least), self._named(binned))
        several = len(holdings.views) > 1
        filled = self._listed if several else self._mixed
        node, filling = filled(root, holdings, limits, draws) if root.sides else (root, None)
        if filling is None or node.sides is None:
            return OptimalBuckets(self.max_size).plan(profile, guarantee, draws)
        counts = filling.parts.by_block
        slots = draws.permutation("slots", counts.reshape(-1))
        whole = partial(OptimalBuckets(self.max_size).plan, profile, guarantee, draws)
        compared = _Compared(node, binned, whole)
        return BucketPlan(holdings, limits, filling, slots, node.tree(), compared)

    def _named(self, binned: BinnedCounts) -> tuple[str, ...]:
        """The columns to cut."""
        named = tuple(name.strip() for name in self.columns.split(";") if name.strip())
        cuttable = [bins.column for bins in binned.columns]
        if strangers := [name for name in named if name not in cuttable]:
            raise UsageError(
                f"The 'columns' parameter of {self.name} names {list_some(strangers)}. Quasi-"
                f"identifiers that can be cut: {list_some(cuttable) or 'none'}."
            )
        return named

    def _mixed(
        self, root: Node, holdings: Holdings, limits: Limits, draws: Draws
    ) -> tuple[Node, Filling | None]:
        """Blocks of one sensitive column: a few sizes each, all mixed at once."""
        node, choices = _blocks(root, lambda node: self._choice(node.counts, limits))
        return node, mixed(choices, limits, draws, PIECES) if choices else None

    def _choice(self, counts: IntArray, limits: Limits) -> Choice | None:
        """The best foreseen setting of a block that can be filled; None where none can."""
        codes = np.flatnonzero(counts)
        own_limits, people = limits.of(codes), counts[codes]
        largest = min(self.max_size or int(people.sum()), int(people.sum()))
        found = foreseen_settings(people, own_limits, largest, _DEVIATION, _SIZES)
        settings = sorted(found, key=lambda each: (found[each].error, len(each)))[:_TRIED]
        for setting in (
            *settings,
            best_two_size(people, own_limits, largest) if not settings else None,
        ):
            shares = None if setting is None else spread_evenly(setting, people, own_limits)
            if setting is not None and shares is not None:
                every = np.zeros((len(setting), len(counts)), np.int64)
                every[:, codes] = shares
                return Choice(setting, every)
        return None

    def _listed(
        self, root: Node, holdings: Holdings, limits: Limits, draws: Draws
    ) -> tuple[Node, Filling | None]:
        """Blocks of several sensitive columns, which share buckets."""

        def filled(node: Node) -> Listed | None:
            chosen = np.flatnonzero(node.counts)
            of_node = dataclasses.replace(
                holdings, of=holdings.of[chosen], counts=node.counts[chosen]
            )
            path = draws.child(f"block {node.own[0] if len(node.own) else 0}")
            filling = fill(of_node, limits, self.max_size, path)
            if filling is None:
                return None
            counts = np.zeros((len(filling.parts.sizes), len(holdings.counts)), np.int64)
            counts[:, chosen] = filling.parts.counts
            parts = dataclasses.replace(filling.parts, counts=counts)
            return Listed(parts, chosen[filling.places])

        node, blocks = _blocks(root, filled)
        if not blocks:
            return node, None
        block_parts = [block.parts for block in blocks]
        numbers = np.repeat(
            np.arange(len(block_parts)), [len(parts.sizes) for parts in block_parts]
        )
        whole = BucketParts(
            numbers,
            np.concatenate([parts.sizes for parts in block_parts]),
            np.concatenate([parts.buckets for parts in block_parts]),
            np.concatenate([parts.counts for parts in block_parts]),
        )
        return node, Listed(whole, np.concatenate([block.places for block in blocks]))


def _blocks(node: Node, filled: Callable[[Node], Filled | None]) -> tuple[Node, list[Filled]]:
    """The blocks of a branch, filled; where one cannot be, the branch is one block."""
    if node.sides is not None:
        (one, before), (other, after) = (_blocks(side, filled) for side in node.sides)
        if before and after:
            return dataclasses.replace(node, sides=(one, other)), before + after
        node = node.uncut()
    blocks = filled(node)
    return node, [] if blocks is None else [blocks]


@dataclass(frozen=True, eq=False)
class _Compared:
    """A tree of one table, and buckets over all of it, planned when somebody asks."""

    root: Node
    binned: BinnedCounts
    whole: Callable[[], BucketPlan]

    def __getstate__(self) -> dict[str, object]:
        """Workers compare nothing."""
        return {}

    @cached_property
    def _block(self) -> IntArray:
        """Of every cell."""
        blocks = np.zeros(len(self.binned.counts), np.int64)
        for number, node in enumerate(self.root.blocks()):
            blocks[node.cells] = number
        return blocks

    def error(self, plan: BucketPlan) -> float:
        """That of the whole table's buckets, times what blocks save; of several columns the one
        which is told worst."""
        whole, worst = self.whole(), 0.0
        for index, column in enumerate(plan.holdings.columns):
            value = plan.holdings.of[self.binned.values, index]
            usual = UsualConditions.of(self.binned, self._block, value, len(column.values))
            saved = usual.saved(plan.told_apart(index), whole.told_apart(index))
            error = error_of(whole.nearly_told(index).variances, column.counts)
            worst = max(worst, error * saved)
        return worst

    @property
    def let_through(self) -> FloatArray:
        """By block: how much of its variance usual conditions let through, over what they let
        through of all people together."""
        blocks = sum(1 for _ in self.root.blocks())
        inside = UsualConditions.of(self.binned, self._block, 0 * self._block, 1).inside[:, :, 0]
        people = np.bincount(self._block, self.binned.counts, blocks)
        share = inside / np.maximum(people, 1)[:, None]
        whole = inside.sum(axis=0) / max(int(people.sum()), 1)
        some = (whole > 0) & (whole < 1)
        through = (share * (1 - share))[:, some] / (whole * (1 - whole))[some]
        return np.asarray(through.mean(axis=1)) if some.any() else np.ones(blocks)
