"""Well-mixed buckets: who shares a bucket with whom is close to proportional (methods, section 1).

A *part* has `buckets` buckets of `size` places each and is filled by values with counts h_x,
Σ h_x = size · buckets, where no bucket may hold value x more than u_x times. Buckets built
greedily pair the same values again and again, and the operator is then near singular or wrong
(errata S5). So the part is cut into many *blocks*; every value is dealt over the blocks as evenly
as integers allow, and inside a block the values stand in random order and strides are cut: place
k of the block's value-sorted line goes to bucket k mod (buckets of the block).

Why it always works. Blocks have q or q+1 buckets. Let B be the buckets of the larger blocks.
*Two classes*: systematic rounding of h_x·B/b (differences of ⌊(h_1+…+h_x)·B/b + φ⌋, one φ) gives
each value its floor or ceiling and sums to size·B, because Σ h_x·B/b = size·B is an integer; what
is left for the other class is again a floor or ceiling. *Equal blocks*: K blocks with g_x records
of value x take ⌊g_x/K⌋ each; the rest e_x < K must become a table of zeros and ones with row sums
e_x and equal column sums. Halving K, systematic rounding of e_x·K'/K is at most K' and leaves at
most K − K', and both column sums are whole by the same argument, so the invariant e_x ≤ K holds
down to single blocks. Floors and ceilings nest (⌊⌊y⌋/K⌋ = ⌊y/K⌋), so block k holds ⌊h_x·b_k/b⌋ or
⌈h_x·b_k/b⌉ records of x, at most u_x·b_k, because u_x·b_k ≥ h_x·b_k/b is whole. A value that
fills at most u·b_k places in a row meets itself at most u times in a stride. Every rounding has a
fresh random order and start, so expectations are exactly proportional and the surpluses of
different values fall together no more often than chance has it (the rarest values never, where
there is room: `dealing.rare_values`).

*Gathered* parts go further where a bucket may hold a value more than once (`dealing.gather`): a
block then holds a value as often as it may or not at all, which answers can tell better. All that
the ceilings need is h_x^k ≤ u_x·b_k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.dealing import SmallArray, deal_evenly, gather, lines, rare_values
from sfumato.mechanisms.steps import Pieces, SlotRuns
from sfumato.operators.buckets import BucketKinds

FloatArray = npt.NDArray[np.float64]

BLOCKS = 1024  # at least, where there are as many buckets: co-occurrence within about 10 %
MORE_BLOCKS = 4096  # with few values; the tables still fit the second-level cache
_CELLS = 1 << 18  # blocks times values that do
MOST_CELLS = 1 << 22  # blocks times values: many values in fewer blocks, to fit into memory
_CHUNK = 1 << 15  # records per inner step, for the same reason
_PRODUCTS = 1 << 22  # pairs of entries in the buckets that are listed at once


@dataclass(frozen=True, eq=False)
class MixedGroups:
    """Where every (value, slot) of a part goes. Buckets are numbered 0 … buckets−1.

    The first `blocks - larger` blocks have `least` buckets, the others one more. Dealing costs
    O(blocks · values) and is done when somebody looks: a plan that is only compared with others, or
    described, deals nothing. Placing a record costs O(1).

    >>> draws = Draws.from_seed(1)
    >>> mixed = MixedGroups.plan([2, 2, 1, 1], size=2, buckets=3, limits=1, draws=draws)
    >>> buckets, _ = mixed.place(np.array([0, 0, 1, 1, 2, 3]), np.array([0, 1, 0, 1, 0, 0]))
    >>> np.bincount(buckets).tolist(), bool(buckets[0] != buckets[1])
    ([2, 2, 2], True)
    """

    counts: IntArray  # h_x
    size: int  # S
    buckets: int  # b
    limits: IntArray  # u_x
    blocks: int
    draws: Draws = field(repr=False)
    gathered: bool = False

    # -- planning ------------------------------------------------------------------------------

    @classmethod
    def plan(
        cls,
        counts: npt.ArrayLike,
        *,
        size: int,
        buckets: int,
        limits: npt.ArrayLike,
        draws: Draws,
        blocks: int | None = None,
        gathered: bool = False,
    ) -> MixedGroups:
        """Mix a part. `limits` are the u_x, one number or one per value; `blocks` the most to cut.

        Raises ValueError where the counts do not fill the buckets or a value does not fit.
        """
        h = np.asarray(counts, np.int64)
        u = np.broadcast_to(np.asarray(limits, np.int64), h.shape)
        if size < 1 or buckets < 1 or int(h.sum()) != size * buckets or bool((h < 0).any()):
            raise ValueError(
                f"{int(h.sum())} records do not fill {buckets} buckets of {size} places"
            )
        if bool((h > u * buckets).any()):
            crowded = int(np.argmax(h > u * buckets))
            raise ValueError(
                f"value {crowded} has {h[crowded]} records, more than {u[crowded]} in each of "
                f"{buckets} buckets"
            )
        most = min(MORE_BLOCKS, max(BLOCKS, _CELLS // len(h))) if blocks is None else blocks
        number = max(1, min(most, MOST_CELLS // len(h), buckets))
        return cls(h, size, buckets, u, number, draws, gathered)

    @property
    def least(self) -> int:
        """q, the buckets of a smaller block."""
        return self.buckets // self.blocks

    @property
    def larger(self) -> int:
        """How many blocks have q+1 buckets."""
        return self.buckets % self.blocks

    @cached_property
    def block_counts(self) -> SmallArray:
        """h_x^k, shape (blocks, values)."""
        dealt = deal_evenly(self.counts, self.buckets, self.blocks, self.draws)
        if self.gathered:
            widths = np.diff(self._first(np.arange(self.blocks + 1)))
            dealt = gather(dealt, widths, self.limits, self.draws.child("gather"))
        return dealt.astype(np.int32)

    @cached_property
    def _lines(self) -> tuple[SmallArray, SmallArray, SmallArray]:
        order, edges = lines(
            self.block_counts.astype(np.int64), rare_values(self.counts, self.buckets), self.draws
        )
        begins = np.empty(order.shape, np.int32)
        np.put_along_axis(begins, order.astype(np.int64), edges[:, :-1], axis=1)
        return order, edges, begins.reshape(-1)

    def __getstate__(self) -> dict[str, Any]:
        """Dealt before it travels: workers place records, and each of them would deal again."""
        return {**self.__dict__, "_lines": self._lines}

    @property
    def order(self) -> SmallArray:
        """The values of a block as they stand in line, shape (blocks, values)."""
        return self._lines[0]

    @property
    def edges(self) -> SmallArray:
        """Where each of them begins, and the end; shape (blocks, values + 1)."""
        return self._lines[1]

    @property
    def _begins(self) -> SmallArray:
        """Where x begins in a block's line."""
        return self._lines[2]

    def first_bucket(self, block: int) -> int:
        """The number of a block's first bucket; `first_bucket(blocks)` is `buckets`."""
        return int(self._first(np.array([block]))[0])

    def _first(self, block: IntArray) -> IntArray:
        first = block * self.least
        if self.larger:
            first += np.maximum(block - (self.blocks - self.larger), 0)
        return first

    # -- records -------------------------------------------------------------------------------

    def place(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        """Bucket and place in the bucket of every (value, slot), slot in [0, h_x).

        A bijection onto buckets × places. About 0.04 µs a record.
        """
        value, slot = np.asarray(values, np.int64), np.asarray(slots, np.int64)
        bucket, place = np.empty(len(value), np.int64), np.empty(len(value), np.int64)
        for low in range(0, len(value), _CHUNK):
            part = slice(low, low + _CHUNK)
            block, position = self._locate(value[part], slot[part])
            width = self._width(block)
            place[part] = position // width
            bucket[part] = self._first(block) + position - place[part] * width
        return bucket, place

    def numbers(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> IntArray:
        """The bucket of every (value, slot)."""
        return self.place(values, slots)[0]

    def mates(self, values: npt.ArrayLike, slots: npt.ArrayLike, steps: npt.ArrayLike) -> IntArray:
        """The value `steps` (in [0, size)) places on in the record's own bucket, going round.

        0 is the record itself; a uniform step is a uniform member. About 0.05 µs a record.
        """
        value, slot = np.asarray(values, np.int64), np.asarray(slots, np.int64)
        step, mate = np.asarray(steps, np.int64), np.empty(len(value), np.int64)
        for low in range(0, len(value), _CHUNK):
            part = slice(low, low + _CHUNK)
            block, position = self._locate(value[part], slot[part])
            # the places of a bucket are `width` apart in the block's line
            width = self._width(block)
            position += step[part] * width
            span = self.size * width
            np.subtract(position, span, out=position, where=position >= span)
            mate[part] = self._value(block, position)
        return mate

    def values_at(self, buckets: npt.ArrayLike, places: npt.ArrayLike) -> IntArray:
        """The value at each place of each bucket."""
        bucket, place = np.asarray(buckets, np.int64), np.asarray(places, np.int64)
        small = (self.blocks - self.larger) * self.least  # buckets in the smaller blocks
        beyond = np.maximum(bucket - small, 0)
        in_larger = bucket >= small
        block = np.where(
            in_larger,
            self.blocks - self.larger + beyond // (self.least + 1),
            bucket // self.least,
        )
        width = self.least + in_larger
        column = np.where(in_larger, beyond % (self.least + 1), bucket % self.least)
        return self._value(block, place * width + column)

    def _locate(self, value: IntArray, slot: IntArray) -> tuple[IntArray, IntArray]:
        """Block of each record, and its position in the block's line."""
        if self.gathered:
            flat = self._piles.begins.take(value * self.blocks) + slot
            pile = self._piles.at(flat)
            block = pile - value * self.blocks
            nth = flat - self._piles.begins.take(pile)
        else:
            nth = slot // self.blocks
            block = slot - nth * self.blocks
            even, rest = self._dealt
            beyond = np.flatnonzero(slot >= even.take(value))
            if beyond.size:
                owner = value[beyond]
                entry = rest.starts[owner] + slot[beyond] - even[owner]
                block[beyond] = rest.blocks[entry]
                nth[beyond] = rest.nth[entry]
        nth += self._begins.take(block * len(self.counts) + value)
        return block, nth

    @cached_property
    def _dealt(self) -> tuple[IntArray, _Rest]:
        """Slots of each value that all blocks share evenly, and where the others are."""
        share = self.block_counts.min(axis=0)
        return share.astype(np.int64) * self.blocks, _Rest.of(self.block_counts, share)

    @cached_property
    def _piles(self) -> Pieces:
        """The slots of all values one after the other, cut into what each block holds."""
        held = self.block_counts.T.reshape(-1).astype(np.int64)
        return Pieces(np.cumsum(held) - held, int(self.counts.sum()))

    def _width(self, block: IntArray) -> IntArray | int:
        """How many buckets a block has."""
        return self.least + (block >= self.blocks - self.larger) if self.larger else self.least

    @cached_property
    def _index(self) -> tuple[SmallArray, int]:
        """A coarse index of the lines, and its shift: a cell has 2^shift places."""
        longest = self.size * (self.least + (self.larger > 0))
        # fine enough that the value at a place is mostly found at once
        shift = max(0, (longest // (8 * len(self.counts))).bit_length() - 1)
        cells = np.arange(0, longest, 1 << shift)
        found = [np.searchsorted(edge[1:-1], cells, side="right") for edge in self.edges]
        return np.stack(found).astype(np.int32), shift

    def _value(self, block: IntArray, position: IntArray) -> IntArray:
        index, shift = self._index
        values, cells = len(self.counts), index.shape[1]
        cell = position >> shift
        cell += block * cells
        nth = index.take(cell).astype(np.int64)
        following = block * (values + 1)
        following += nth
        following += 1
        late = np.flatnonzero(self.edges.take(following) <= position)
        while late.size:
            nth[late] += 1
            following[late] += 1
            late = late[self.edges.take(following[late]) <= position[late]]
        nth += block * values
        return self.order.take(nth).astype(np.int64)

    def slot_runs(self) -> SlotRuns:
        """Where the slots of every value stand, where blocks hold gathered runs of them."""
        if not self.gathered:
            raise ValueError("the slots of a value go round over the blocks")
        block = np.arange(self.blocks)
        first = self._first(block)
        begins = self._begins.reshape(self.blocks, -1).T.astype(np.int64)
        widths = np.diff(np.append(first, self.buckets))
        return SlotRuns(self.block_counts.T.astype(np.int64), begins, widths, first)

    # -- the whole part ------------------------------------------------------------------------

    def runs(self) -> Iterator[tuple[int, BucketKinds]]:
        """Runs of buckets with equal contents, in the order of buckets: (first bucket, kinds).

        A block has at most as many runs as values, so this is small for any number of records;
        blocks come several at once.
        """
        values, small = len(self.counts), self.blocks - self.larger
        for low, high, width in ((0, small, self.least), (small, self.blocks, self.least + 1)):
            runs = min(values + 1, width)
            many = max(1, _PRODUCTS // (runs * min(self.size, values) ** 2))
            for start in range(low, high, many):
                stop = min(start + many, high)
                yield self.first_bucket(start), self._kinds(start, stop, width)

    def _kinds(self, start: int, stop: int, width: int) -> BucketKinds:
        """The runs of blocks `start … stop − 1`, which have `width` buckets each."""
        edges = self.edges[start:stop].astype(np.int64)
        begins = np.sort(edges[:, :-1] % width, axis=1)
        lengths = np.diff(np.append(begins, np.full((len(begins), 1), width), axis=1), axis=1)
        block, nth = np.nonzero(lengths)
        begin, times = begins[block, nth], lengths[block, nth]
        if self.size <= len(self.counts):  # look at every place of a bucket, or at every value
            line = self.size * width
            ends = (edges[:, 1:] + np.arange(len(edges))[:, None] * line).reshape(-1)
            places = (begin + block * line)[:, None] + np.arange(self.size) * width
            found = (
                np.searchsorted(ends, places, side="right") - (block * len(self.counts))[:, None]
            )
            # equal values stand next to each other in a line, so in a bucket too
            new = np.diff(found, axis=1, prepend=-1) != 0
            run, at = np.nonzero(new)
            entry, place = found[run, at], np.flatnonzero(new)
            counts = np.diff(np.append(place, new.size))
        else:
            below = -((begin[:, None] - edges[block]) // width)
            held = np.diff(below, axis=1)
            run, entry = np.nonzero(held)
            counts = held[run, entry]
        values = self.order[start:stop][block[run], entry].astype(np.int64)
        return BucketKinds(times, run, values, counts)

    def co_occurrence(self) -> FloatArray:
        """Σ over buckets g of c_x(g)·c_x'(g)/size, shape (values, values); rows sum to h_x."""
        values = len(self.counts)
        total = np.zeros((values, values))
        for _, kinds in self.runs():
            total += kinds.together(values)
        return total

    def check(self) -> None:
        """Verify every block and every bucket exactly; O(blocks · values · size)."""
        held = self.block_counts.astype(np.int64)
        widths = np.diff(self._first(np.arange(self.blocks + 1)))
        assert int(widths.sum()) == self.buckets, (widths, self.buckets)
        assert np.array_equal(held.sum(axis=0), self.counts), "a value is not dealt out whole"
        assert np.array_equal(held.sum(axis=1), self.size * widths), "a block is not full"
        share = np.array([[int(h) * int(w) for h in self.counts] for w in widths], object)
        free = (self.limits > 1) & self.gathered
        low = np.where(free, 0, share // self.buckets)
        high = np.where(free, self.limits * widths[:, None], -(-share // self.buckets))
        assert bool((held >= low).all()), "a block is below its share"
        assert bool((held <= high).all()), "a block is above its share"
        for first, kinds in self.runs():
            assert bool((kinds.counts <= self.limits[kinds.values]).all()), first


@dataclass(frozen=True, eq=False)
class _Rest:
    """The slots of a value beyond the even share: which block, and which place in its run."""

    blocks: SmallArray
    nth: SmallArray
    starts: IntArray  # where those of each value begin

    @staticmethod
    def of(block_counts: SmallArray, share: SmallArray) -> _Rest:
        extra = (block_counts - share).T
        owners, blocks = np.nonzero(extra)
        many = extra[owners, blocks]
        within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        held = extra.sum(axis=1)
        return _Rest(
            np.repeat(blocks, many).astype(np.int32),
            (np.repeat(share[owners], many) + within).astype(np.int32),
            (np.cumsum(held) - held).astype(np.int64),
        )
