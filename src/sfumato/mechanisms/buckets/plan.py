"""The plan of every bucket mechanism: which slot of which combination stands in which bucket.

People stand in blocks, which a public tree of cuts on quasi columns makes; the whole table is one
block. What a person has in all sensitive columns is a combination, with one column its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.blocks import BlockTree
from sfumato.draws import BoolArray, Draws, IntArray, Permutation
from sfumato.mechanisms.buckets.association import Records, barred_values
from sfumato.mechanisms.buckets.fakes import Fakes, odds_weights
from sfumato.mechanisms.buckets.filling import Entries, Filling
from sfumato.mechanisms.buckets.foresight import BinnedBlocks
from sfumato.mechanisms.buckets.foretold import SizedLaw, identified_by_parts
from sfumato.mechanisms.buckets.settings import (
    Limits,
    Setting,
    mean_squared_error,
    setting_of,
)
from sfumato.mechanisms.mixed import BucketParts, SmallArray
from sfumato.mechanisms.protocol import Batch, Published, RecordPlan
from sfumato.profile import Holdings, Profile
from sfumato.public import Public, PublicPlan, from_draws, from_shown, from_stated

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array

_CELLS = 1 << 22  # buckets times values that fakes are drawn for at once


@dataclass(frozen=True, eq=False)
class BucketPlan(RecordPlan):
    """Buckets for all sensitive columns at once.

    A record's slot is a keyed permutation of its rank among the records of its block with its
    combination. Buckets are numbered block by block; the numbers follow from the sizes and from
    which combination stands where, both of which the sensitive table shows: they tell nothing about
    who holds which slot. Fakes are for one column and one block.
    """

    holdings: Holdings
    limits: Limits  # by mark
    filling: Filling
    slots: Permutation  # by (block, combination)
    cuts: BlockTree = field(default_factory=BlockTree)
    block_limits: tuple[Limits, ...] = ()  # of every block, where they are not `limits`
    blocks: BinnedBlocks | None = None  # what predictions for the steward look at
    fakes: Fakes | None = None
    association: Fraction | None = None  # fakes are ruled out as reals are, at this threshold

    kind: ClassVar[str] = "bucketed"
    needs_rank: ClassVar[bool] = True

    @property
    def buckets(self) -> int:
        return int(self.filling.parts.first[-1])

    @property
    def tree(self) -> BlockTree | None:
        return self.cuts if self.cuts.blocks > 1 else None

    @property
    def first_buckets(self) -> Sequence[int]:
        parts = self.filling.parts
        first = parts.first[np.searchsorted(parts.blocks, np.arange(self.cuts.blocks))]
        return [int(number) for number in first]

    @property
    def fake_values(self) -> int:
        return self.fakes.number if self.fakes else 0

    @cached_property
    def setting(self) -> Setting:
        """How many buckets of which size."""
        parts = self.filling.parts
        sizes, inverse = np.unique(parts.sizes, return_inverse=True)
        return setting_of(sizes, np.bincount(inverse, parts.buckets).astype(np.int64))

    # -- records -------------------------------------------------------------------------------

    @property
    def _ranked(self) -> str:
        """What ranks count: the values of a column, or combinations."""
        columns = self.holdings.columns
        return columns[0].column if len(columns) == 1 else "combination"

    def ranked(self, profile: Profile) -> Mapping[str, IntArray]:
        return {self._ranked: self.filling.parts.by_block.reshape(-1)}

    def keys(
        self, codes: Mapping[str, IntArray], blocks: IntArray | None
    ) -> Mapping[str, IntArray]:
        numbers = self.holdings.numbers(codes)
        if blocks is None:
            return {self._ranked: numbers}
        inside = blocks * len(self.holdings.counts) + numbers
        return {self._ranked: np.where(numbers < 0, -1, inside)}

    def apply(self, batch: Batch, draws: Draws) -> Published:
        (keys,), (ranks,) = batch.keys.values(), batch.ranks.values()
        return Published({}, {"bucket": self.bucket_of(keys, ranks)})

    def bucket_of(self, keys: IntArray, ranks: IntArray) -> IntArray:
        """The bucket of every (block and combination, rank)."""
        slots = self.slots(keys, ranks)
        slots += self._first_slot.take(keys)
        return self._slot_buckets.take(slots).astype(np.int64)

    @cached_property
    def _first_slot(self) -> IntArray:
        """Where the slots of each block and combination begin."""
        counts = self.filling.parts.by_block.reshape(-1)
        return np.asarray(np.cumsum(counts) - counts)

    @cached_property
    def _slot_buckets(self) -> SmallArray:
        """Dealt when the first record asks: to look there is faster than to find out."""
        return self.filling.slot_buckets()

    # -- what is published besides -------------------------------------------------------------

    def side_tables(self, records: Records) -> Mapping[str, Iterator[pa.Table]]:
        return {"sensitive": self._sensitive(records)}

    def _sensitive(self, records: Records) -> Iterator[pa.Table]:
        """Rows (bucket, values, count), in the order of buckets."""
        import pyarrow as pa

        for bucket, combination, count in self.listed(self._barred(records)):
            order = np.lexsort((combination, bucket))
            codes = self.holdings.of[combination[order]]
            names = [view.column for view in self.holdings.columns]
            table = {"bucket": bucket[order], **dict(zip(names, codes.T, strict=False))}
            arrays = {**table, "count": count[order]}
            yield pa.table(
                {name: pa.array(array.astype(np.int32)) for name, array in arrays.items()}
            )

    def listed(self, barred: BoolArray | None = None) -> Iterator[Entries]:
        """What the sensitive table lists, fakes among the values.

        `barred` marks what some record of a bucket rules out (buckets by values). Fakes are then
        ruled out as often as real values are: in proportion to the odds that a bucket holds the
        value among those where it is ruled out, or among those where it is not. If fakes avoided
        what is ruled out, a listed value that is ruled out would be a real one.
        """
        if self.fakes is None:
            yield from self.filling.listed()
            return
        odds = None if barred is None else self._odds(barred)
        for first, held in self._contents():
            here = None
            if odds is not None and barred is not None:
                here = np.where(barred[first : first + len(held)], *odds)
            bucket, value = np.nonzero(self.fakes.add(first, held, here))
            yield bucket + first, value, np.ones(len(bucket), np.int64)

    def _contents(self) -> Iterator[tuple[int, BoolArray]]:
        """Which values stand in which buckets, some at a time: the first, and buckets by values."""
        values = len(self.holdings.counts)
        many = max(1, _CELLS // max(values, 1))
        for bucket, value, _ in self.filling.listed():
            for first in range(int(bucket[0]), int(bucket[-1]) + 1, many):
                run = slice(*np.searchsorted(bucket, [first, first + many]))
                held = np.zeros((int(bucket[run][-1]) + 1 - first, values), np.bool_)
                held[bucket[run] - first, value[run]] = True
                yield first, held

    def _odds(self, barred: BoolArray) -> tuple[IntArray, IntArray]:
        """The odds that a bucket holds each value: where it is ruled out, and where it is not."""
        met = np.zeros((4, barred.shape[1]), np.int64)
        for first, held in self._contents():
            ruled_out = barred[first : first + len(held)]
            kinds = held & ruled_out, ~held & ruled_out, held & ~ruled_out, ~(held | ruled_out)
            met += [kind.sum(axis=0) for kind in kinds]
        return odds_weights(met[0], met[1]), odds_weights(met[2], met[3])

    def _barred(self, records: Records) -> BoolArray | None:
        if self.association is None or self.fakes is None:
            return None
        return barred_values(records, *self.contents(), self.association)

    def contents(self) -> tuple[csr_array, IntArray]:
        """The shares of combinations in every bucket, fakes left out, and how many it holds."""
        from scipy.sparse import csr_array

        listed = zip(*self.filling.listed(), strict=True)
        bucket, value, count = (np.concatenate(entries) for entries in listed)
        sizes = self.filling.parts.bucket_sizes()
        shape = self.buckets, len(self.holdings.counts)
        return csr_array((count / sizes[bucket], (bucket, value)), shape), sizes

    def public(self) -> PublicPlan:
        sizes = [{"size": part.size, "buckets": part.buckets} for part in self.setting]
        described: dict[str, Public[Any]] = {
            "buckets": from_shown(self.buckets),
            "sizes": from_shown(sizes),
            "mean_squared_error": from_shown(round(float(mean_squared_error(self.setting)), 6)),
            "fakes": from_stated(self.fake_values),
        }
        if self.fakes:
            # the certainty below is stated for an adversary who has it, so the analyst may too
            described["histogram"] = from_shown(self.holdings.counts.tolist())
        if self.association is not None:
            described["association"] = from_stated(str(self.association))
        if self.tree is not None:
            parts = self.filling.parts
            many = np.bincount(parts.blocks, parts.buckets).astype(np.int64)
            blocks = self.tree.to_json([{"buckets": n} for n in many.tolist()])
            described["blocks"] = from_draws(blocks)
        return described

    # -- what it is worth ----------------------------------------------------------------------

    @property
    def _allowed(self) -> IntArray:
        """How many of every mark a bucket of each part may hold."""
        return allowed_by_part(self.filling.parts, self.block_limits or (self.limits,))

    def foretold(self, view: int = 0) -> SizedLaw:
        """What answers will be off by for the values of a view, told from sizes."""
        parts, holdings = self.filling.parts, self.holdings
        low, high = int(holdings.starts[view]), int(holdings.starts[view + 1])
        allowed = self._allowed[:, low:high]
        shares = np.zeros((len(allowed), high - low), np.int64)
        np.add.at(shares.T, holdings.of[:, view], parts.counts.T)
        people = np.zeros((self.cuts.blocks, shares.shape[1]), np.int64)
        np.add.at(people, parts.blocks, shares)
        # parts one by one, each beside the people of its block
        by_part = identified_by_parts(
            parts.sizes,
            parts.buckets,
            shares,
            allowed,
            people[parts.blocks],
        )
        identified = np.zeros(people.shape)
        np.add.at(identified, parts.blocks, by_part)
        return SizedLaw.of(people, identified, self.blocks.through if self.blocks else np.ones(1))

    def predicted_error(self) -> float:
        """√(m·Σ Var(n̂_x))/N, for as many records as the table has, drawn anew; of several columns
        that of the one which is told worst."""
        return max(self.foretold(view).error() for view in range(len(self.holdings.columns)))

    def check(self) -> None:
        """Every bucket within all limits, exactly; every slot used once."""
        parts = self.filling.parts
        assert np.array_equal(parts.by_block.sum(axis=0), self.holdings.counts), (
            "people are missing"
        )
        assert self.cuts.blocks == len(parts.by_block), self.cuts
        self.filling.check()
        sizes, marks = parts.bucket_sizes(), int(self.holdings.starts[-1])
        allowed, filled = self._allowed, np.zeros_like(sizes)
        part_of_bucket = np.repeat(np.arange(len(parts.sizes)), parts.buckets)
        for bucket, combination, count in self.filling.listed():
            np.add.at(filled, bucket, count)
            keys = (bucket[:, None] * marks + self.holdings.mark[combination]).reshape(-1)
            met, inverse = np.unique(keys, return_inverse=True)
            many = np.bincount(inverse.reshape(-1), np.repeat(count, self.holdings.of.shape[1]))
            broken = many > allowed[part_of_bucket[met // marks], met % marks]
            assert not broken.any(), (sizes[met[broken] // marks][:1], met[broken][:1] % marks)
        assert np.array_equal(filled, sizes), "a bucket has another size than was planned"


def allowed_by_part(parts: BucketParts, limits: Sequence[Limits]) -> IntArray:
    """How many of every mark a bucket of each part may hold, under the limits of its block."""
    allowed = np.zeros((len(parts.sizes), len(limits[0].ceilings)), np.int64)
    for distinct in {id(of_block): of_block for of_block in limits}.values():
        blocks = np.array([of_block is distinct for of_block in limits])
        allowed[blocks[parts.blocks]] = distinct.table(parts.sizes[blocks[parts.blocks]])
    return allowed
