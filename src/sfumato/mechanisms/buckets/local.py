"""Local buckets: people are mixed with people like them only (methods, section 7).

A tree of cuts on quasi-identifiers makes blocks (`tree`); inside each, buckets are planned and
mixed as everywhere else. A block wholly inside a condition is counted exactly, so answers are
sharper; and inside a block quasi-identifiers say little about the value, so whoever knows how they
are associated learns less.

What is public tells nothing beside the buckets, but for one thing: that a cut was refused may raise
the odds of a value by `tree.ODDS`. So where a cut was refused buckets keep ceilings f'' whose odds
are lower by as much (`tree.inside_blocks`), and f' is what a reader can conclude at most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from sfumato.columns import list_some
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.buckets.exchange import fill
from sfumato.mechanisms.buckets.feasible import holdings_of, limits_of
from sfumato.mechanisms.buckets.filling import Filling, Listed
from sfumato.mechanisms.buckets.foresight import BinnedBlocks
from sfumato.mechanisms.buckets.foretold import width_in_block
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.buckets.settings import Choice, Limits, setting_of
from sfumato.mechanisms.buckets.spread import best_foreseen
from sfumato.mechanisms.buckets.tree import Node, fewest_people, grow, inside_blocks
from sfumato.mechanisms.buckets.ways import PIECES, OptimalBuckets, mixed
from sfumato.mechanisms.mixed import BucketParts
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import Holdings, Profile, QuasiCells
from sfumato.textform import Parameter

IN_BLOCKS = (128, 32)  # pieces that a block is mixed in, and each of its parts at least
_FULL, _SOME_BLOCKS = Fraction(3, 4), 8  # of f'', and blocks: where `publish` takes this mechanism
_SIZES = 8  # of buckets, that are tried in a block


@dataclass(frozen=True)
class LocalBuckets(Mechanism):
    """Blocks cut by `columns`, divided by semicolons, or by all quasi-identifiers.

    Both sides of a cut have `min` people, or without it as many as `tree.fewest_people` says.

    >>> str(LocalBuckets(min="800", columns="age;sex"))
    'local(min=800, columns=age;sex)'
    """

    min: int | None = None
    columns: str = ""

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("min", least=1, whole=True),)
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
        """Blocks where cuts are made; where none can be, the plan of `optimal`."""
        holdings = holdings_of(self.name, profile, guarantee)
        limits, binned = limits_of(holdings, guarantee), profile.binned
        if binned is None:
            raise UsageError(f"{self} looks at groups of people: count them first.")
        root, block = self.unrefused(binned.cells, holdings, limits)
        combinations = len(holdings.counts)
        keys = block[binned.cell] * combinations + binned.values
        flat = np.bincount(keys, binned.counts, root.after * combinations)
        counts = flat.astype(np.int64).reshape(root.after, combinations)
        tight = inside_blocks(limits)
        root = root.tested(holdings.by_mark(counts), counts.sum(axis=1), tight, draws)
        blocks = root.blocks()
        if not (blocks[0].refused or blocks[1:]):
            return OptimalBuckets().plan(profile, guarantee, draws)
        counts = np.add.reduceat(counts, [node.first for node in blocks], axis=0)
        block_limits = tuple(tight if node.refused else limits for node in blocks)
        filled = _listed if len(holdings.views) > 1 else _mixed
        filling = filled(blocks, counts, holdings, block_limits, draws)
        slots = draws.permutation("slots", counts.reshape(-1))
        number = np.repeat(np.arange(len(blocks)), [node.after - node.first for node in blocks])
        binned_blocks = BinnedBlocks(binned, number[block])
        return BucketPlan(
            holdings, limits, filling, slots, root.tree(), block_limits, binned_blocks
        )

    def serves(self, profile: Profile, guarantee: Guarantee) -> bool:
        """Whether blocks are worth more than they cost, from quasi-identifiers and the whole
        table's histogram: values leave room under f'', and there are some blocks if none is
        refused."""
        if profile.binned is None:
            return False
        holdings = holdings_of(self.name, profile, guarantee)
        limits = limits_of(holdings, guarantee)
        roomy = Limits(tuple(_FULL * top for top in inside_blocks(limits).ceilings))
        marks = holdings.by_mark(holdings.counts)
        if bool((marks > roomy.table([holdings.people])[0]).any()):
            return False
        root, _ = self.unrefused(profile.binned.cells, holdings, limits)
        return root.after >= _SOME_BLOCKS

    def unrefused(
        self, cells: QuasiCells, holdings: Holdings, limits: Limits
    ) -> tuple[Node, IntArray]:
        """The tree if no cut is refused, which sees no value beside the whole table's histogram,
        and the block of every cell; everybody is one block where f'' is below some share."""
        named = self._named(cells)
        marks, people = holdings.by_mark(holdings.counts), holdings.people
        if bool((marks > inside_blocks(limits).table([people])[0]).any()):
            return Node("", 0, 1), np.zeros(len(cells.people), np.int64)
        return grow(cells, self.min or fewest_people(holdings, limits), named)

    def _named(self, cells: QuasiCells) -> tuple[str, ...]:
        """The columns to cut."""
        named = tuple(name.strip() for name in self.columns.split(";") if name.strip())
        cuttable = [bins.column for bins in cells.columns]
        if strangers := [name for name in named if name not in cuttable]:
            raise UsageError(
                f"The 'columns' parameter of {self.name} names {list_some(strangers)}. Quasi-"
                f"identifiers that can be cut: {list_some(cuttable) or 'none'}."
            )
        return named


def _mixed(
    blocks: Sequence[Node],
    counts: IntArray,
    holdings: Holdings,
    limits: Sequence[Limits],
    draws: Draws,
) -> Filling:
    """Blocks of one sensitive column: a few sizes each, all mixed at once."""
    choices = [_choice(inside, of_block) for inside, of_block in zip(counts, limits, strict=True)]
    return mixed(choices, limits, draws, IN_BLOCKS if len(blocks) > 1 else PIECES)


def _choice(counts: IntArray, limits: Limits) -> Choice:
    """The best foreseen setting of a block; the last resort is one bucket of everybody."""
    codes, people = np.flatnonzero(counts), int(counts.sum())
    best = best_foreseen([(counts[codes], limits.of(codes))], people, _SIZES, width_in_block)
    if best is None:
        return Choice(setting_of([people], [1]), counts[None])
    setting, (of_block,) = best
    shares = np.zeros((len(setting), len(counts)), np.int64)
    shares[:, codes] = of_block
    return Choice(setting, shares)


def _listed(
    blocks: Sequence[Node],
    counts: IntArray,
    holdings: Holdings,
    limits: Sequence[Limits],
    draws: Draws,
) -> Filling:
    """Blocks of several sensitive columns, which share buckets."""
    parts, places = list[BucketParts](), list[IntArray]()
    for number, (node, inside) in enumerate(zip(blocks, counts, strict=True)):
        chosen = np.flatnonzero(inside)
        of_block = dataclasses.replace(holdings, of=holdings.of[chosen], counts=inside[chosen])
        filling = fill(
            of_block, limits[number], None, draws.child(f"block {node.path}"), width_in_block
        )
        assert filling is not None, "everybody in one bucket keeps the limits of a tested block"
        shares = np.zeros((len(filling.parts.sizes), counts.shape[1]), np.int64)
        shares[:, chosen] = filling.parts.counts
        at = np.full(len(shares), number)
        parts.append(dataclasses.replace(filling.parts, blocks=at, counts=shares))
        places.append(chosen[filling.places])
    fields = ("blocks", "sizes", "buckets", "counts")
    joined = (np.concatenate([getattr(part, name) for part in parts]) for name in fields)
    return Listed(BucketParts(*joined), np.concatenate(places))
