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
from typing import ClassVar, Self, TypeVar

import numpy as np

from sfumato.columns import list_some
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.buckets.exchange import fill
from sfumato.mechanisms.buckets.feasible import holdings_of, limits_of
from sfumato.mechanisms.buckets.filling import Filling, Listed
from sfumato.mechanisms.buckets.foresight import CountedBlocks
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.buckets.settings import Choice, Limits
from sfumato.mechanisms.buckets.spread import best_foreseen
from sfumato.mechanisms.buckets.tree import Node, Room, grow
from sfumato.mechanisms.buckets.ways import OptimalBuckets, mixed
from sfumato.mechanisms.mixed import BucketParts
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import BinnedCounts, Holdings, Profile
from sfumato.textform import Parameter

USUAL_LEAST = 200
MOST_BLOCKS = 1000
PIECES = (128, 32)  # that a block is mixed in, and each of its parts at least
_DEVIATION = 0.025  # P = o + this·o²: a tenth of the people, whose counts are half off (τ² = 1/4)
_SIZES = 8  # of buckets, that are tried in a block
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
        block = np.zeros(len(binned.counts), np.int64)
        for number, leaf in enumerate(node.blocks()):
            block[leaf.cells] = number
        counted = CountedBlocks(binned, block)
        return BucketPlan(holdings, limits, filling, slots, node.tree(), counted)

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
        largest = self.max_size or int(counts.sum())
        view = counts[codes], limits.of(codes)
        best = best_foreseen([view], largest, _SIZES, _DEVIATION)
        if best is None:
            return None
        setting, (of_block,) = best
        shares = np.zeros((len(setting), len(counts)), np.int64)
        shares[:, codes] = of_block
        return Choice(setting, shares)

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
