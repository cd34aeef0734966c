"""The plan of local buckets: buckets block by block, numbered through the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.blocks import BlockTree
from sfumato.columns import list_some
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.foresight import Foresight
from sfumato.mechanisms.buckets.plan import BucketedPlan, Told
from sfumato.mechanisms.protocol import Batch, Published
from sfumato.operators.buckets import BucketKinds
from sfumato.operators.deviations import BlockTable
from sfumato.profile import Histogram, Profile
from sfumato.sorting import counted_order

_MOST_SLOTS = 1 << 26  # whose buckets are listed, four bytes each


@dataclass(frozen=True, eq=False)
class Block:
    """The people of a block: codes of the values they have, and their buckets."""

    codes: IntArray
    plan: BucketedPlan


@dataclass(frozen=True, eq=False)
class LocalPlan(BucketedPlan):
    """Buckets block by block; bucket numbers follow the blocks of the tree."""

    cuts: BlockTree = field(default_factory=BlockTree)
    blocks: tuple[Block, ...] = ()
    weights: tuple[float, ...] = ()  # by block: how much of its noise usual conditions let through
    foresight: Foresight | None = None

    def __post_init__(self) -> None:
        buckets = [block.plan.buckets for block in self.blocks]
        object.__setattr__(self, "_first", np.concatenate([[0], np.cumsum(buckets)]))

    @property
    def tree(self) -> BlockTree:
        return self.cuts

    @property
    def fake_values(self) -> int:
        return self.blocks[0].plan.fake_values

    @cached_property
    def block_counts(self) -> IntArray:
        """Records by (block, value)."""
        return by_block(self.blocks, len(self.histogram.values))

    @property
    def first_buckets(self) -> Sequence[int]:
        return tuple(self._first[:-1].tolist())

    def ranked(self, profile: Profile) -> Mapping[str, IntArray]:
        return {self.histogram.column: self.block_counts.reshape(-1)}

    # -- records -------------------------------------------------------------------------------

    def apply(self, batch: Batch, draws: Draws) -> Published:
        column = self.histogram.column
        blocks = batch.blocks if batch.blocks is not None else np.empty(0, np.int64)
        found = self.bucket_in(blocks, batch.codes[column], batch.ranks[column])
        return Published({}, {"bucket": found})

    def bucket_in(self, blocks: IntArray, codes: IntArray, ranks: IntArray) -> IntArray:
        """The bucket of every (block, value, rank)."""
        row = blocks * len(self.histogram.values) + codes
        slots = self.slots(row, ranks)
        if self.histogram.rows <= _MOST_SLOTS:
            slots += self._first_slot.take(row)
            return self._slot_table.take(slots).astype(np.int64)
        return self._bucket_at(blocks, codes, slots)

    @cached_property
    def _first_slot(self) -> IntArray:
        """By block and value, where its slots begin in the table."""
        held = self.block_counts.reshape(-1)
        return np.asarray(np.cumsum(held) - held)

    @cached_property
    def _slot_table(self) -> npt.NDArray[np.int32]:
        """The buckets of all slots, by block and value: to look there is faster than to find out.

        Small blocks have more runs than people, so this is no larger than what it follows from.
        """
        found, begin = np.empty(self.histogram.rows, np.int32), 0
        for first, block in zip(self._first.tolist(), self.blocks, strict=False):
            own = block.plan.every_slot()
            found[begin : begin + len(own)] = own + first
            begin += len(own)
        return found

    def _bucket_at(self, blocks: IntArray, codes: IntArray, slots: IntArray) -> IntArray:
        """The bucket of every (block, value, slot), block by block."""
        bucket = np.empty(len(codes), np.int64)
        order = counted_order(blocks, len(self.blocks))
        cuts = np.searchsorted(blocks[order], np.arange(len(self.blocks) + 1))
        place = np.zeros(len(self.histogram.values), np.int64)
        for number, block in enumerate(self.blocks):
            chosen = order[cuts[number] : cuts[number + 1]]
            if len(chosen):
                place[block.codes] = np.arange(len(block.codes))
                inside = block.plan.bucket_at(place[codes[chosen]], slots[chosen])
                bucket[chosen] = inside + self._first[number]
        return bucket

    # -- what is published besides -------------------------------------------------------------

    def contents(self) -> Iterator[tuple[int, BucketKinds]]:
        return self._lifted(block.plan.contents() for block in self.blocks)

    def listed(self, barred: BoolArray | None = None) -> Iterator[tuple[int, BucketKinds]]:
        return self._lifted(block.plan.listed() for block in self.blocks)

    def _lifted(
        self, runs: Iterator[Iterator[tuple[int, BucketKinds]]]
    ) -> Iterator[tuple[int, BucketKinds]]:
        """Runs of buckets of the blocks, with the table's numbers and codes."""
        for first, block, own in zip(self._first, self.blocks, runs, strict=False):
            for begin, kinds in own:
                values = block.codes[kinds.values]
                yield int(first) + begin, dataclasses.replace(kinds, values=values)

    def public(self) -> dict[str, Any]:
        described = super().public()
        told = []
        for block, counts in zip(self.blocks, self.block_counts, strict=True):
            told.append({"buckets": block.plan.buckets})
            if self.fake_values:
                told[-1]["histogram"] = counts.tolist()
        if self.fake_values:
            described["histogram"] = self.histogram.counts.tolist()
        return {**described, "blocks": self.cuts.to_json(told)}

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        # the sensitive table shows the histogram, so the manifest may
        said = f"{guarantee.left_out_text(histogram)} {guarantee.statement(histogram)}".lstrip()
        return (
            f"{said} People are mixed inside {len(self.blocks)} blocks "
            f"only, which are cut by {list_some(self.cuts.columns)}: the ceiling holds for whoever "
            "knows links that do not go beyond the blocks, too."
        )

    # -- what it is worth ----------------------------------------------------------------------

    @cached_property
    def _told(self) -> Told:
        """Variances add up; values count as confused where they are for most who have them.

        As mixing comes close to it: to look at the buckets of all blocks takes as long as to plan
        them, and says the same of all blocks together.
        """
        variances, worst = np.zeros(len(self.histogram.values)), 1.0
        confused = np.zeros(len(variances), np.int64)
        for block in self.blocks:
            own, condition, lost = block.plan.nearly_told
            variances[block.codes] += own
            confused[block.codes[lost]] += block.plan.histogram.counts[lost]
            worst = max(worst, condition)
        return variances, worst, np.flatnonzero(2 * confused > self.histogram.counts)

    @cached_property
    def table(self) -> BlockTable:
        """What an estimator knows of the blocks, fakes left out."""
        from scipy.sparse import coo_array

        values = len(self.histogram.values)
        together = []
        for block in self.blocks:
            at = np.repeat(block.codes, len(block.codes)), np.tile(block.codes, len(block.codes))
            met = coo_array((block.plan.together.reshape(-1), at), shape=(values, values))
            together.append(met.tocsr())
        return BlockTable.met(self._first[:-1], self.block_counts, together)

    def predicted_error(self) -> float:
        """As predicted for buckets over the whole table, times what usual conditions save."""
        assert self.foresight is not None  # every plan is made with it
        return self.foresight.error(lambda: self.table, self.histogram)

    def _gap(self) -> float | None:
        return None

    def check(self) -> None:
        assert bool((self.block_counts.sum(axis=0) == self.histogram.counts).all())
        for block in self.blocks:
            block.plan.check()
            held = [self.limits.ceilings[code] for code in block.codes]
            assert list(block.plan.limits.ceilings) == held, "a block has ceilings of its own"


def by_block(blocks: Sequence[Block], values: int) -> IntArray:
    """Records by (block, value)."""
    found = np.zeros((len(blocks), values), np.int64)
    for row, block in zip(found, blocks, strict=True):
        row[block.codes] = block.plan.histogram.counts
    return found
