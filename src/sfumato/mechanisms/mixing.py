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
different values fall together no more often than chance has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, IntArray, Positions

FloatArray = npt.NDArray[np.float64]
SmallArray = npt.NDArray[np.int32]

BLOCKS = 1024  # at least, where there are as many buckets: co-occurrence within about 10 %
MORE_BLOCKS = 4096  # with few values; the tables still fit the second-level cache
_CELLS = 1 << 18  # blocks times values that do
_CHUNK = 1 << 15  # records per inner step, for the same reason


@dataclass(frozen=True, eq=False)
class MixedGroups:
    """Where every (value, slot) of a part goes. Buckets are numbered 0 … buckets−1.

    The first `block_counts.shape[0] - larger` blocks have `least` buckets, the others one more.
    Planning costs O(blocks · values), placing a record O(1).

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
    least: int  # q, buckets of a smaller block
    larger: int  # how many blocks have q+1 buckets
    block_counts: SmallArray  # h_x^k, shape (blocks, values)
    order: SmallArray  # values of a block as they stand in line, shape (blocks, values)
    edges: SmallArray  # where each of them begins, and the end; shape (blocks, values + 1)
    _begins: SmallArray = field(init=False, repr=False)  # where x begins in a block's line
    _even: IntArray = field(init=False, repr=False)  # slots of x that all blocks share evenly
    _rest: _Rest = field(init=False, repr=False)  # where the other slots are
    _guess: npt.NDArray[np.uint16] = field(init=False, repr=False)  # coarse index of the lines
    _shift: int = field(init=False, repr=False)  # a cell of that index has 2^shift places

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
        number = min(most, buckets)
        least, larger = divmod(buckets, number)
        second = _rounded(h, (least + 1) * larger, buckets, draws.child("classes"))
        tables = []
        for index, (inside, many) in enumerate(((h - second, number - larger), (second, larger))):
            if many:
                share, rest = np.divmod(inside, many)
                tables.append(share + _spread(rest, many, draws.child(f"surplus {index}")))
        block_counts = np.concatenate(tables).astype(np.int32)
        order, edges = _lines(block_counts, draws)
        return cls(
            counts=h,
            size=size,
            buckets=buckets,
            limits=u,
            least=least,
            larger=larger,
            block_counts=block_counts,
            order=order,
            edges=edges,
        )

    def __post_init__(self) -> None:
        blocks, values = self.block_counts.shape
        begins = np.empty((blocks, values), np.int32)
        np.put_along_axis(begins, self.order.astype(np.int64), self.edges[:, :-1], axis=1)
        longest = self.size * (self.least + (self.larger > 0))
        # fine enough that the value at a place is mostly found at once
        shift = max(0, (longest // (8 * values)).bit_length() - 1)
        cells = np.arange(0, longest, 1 << shift)
        guess = [np.searchsorted(edge[1:-1], cells, side="right") for edge in self.edges]
        share = self.block_counts.min(axis=0)
        object.__setattr__(self, "_begins", begins.reshape(-1))
        object.__setattr__(self, "_even", share.astype(np.int64) * blocks)
        object.__setattr__(self, "_rest", _Rest.of(self.block_counts, share))
        object.__setattr__(self, "_guess", np.stack(guess).astype(np.uint16))
        object.__setattr__(self, "_shift", shift)

    @property
    def blocks(self) -> int:
        return len(self.block_counts)

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
        nth = slot // self.blocks
        block = slot - nth * self.blocks
        beyond = np.flatnonzero(slot >= self._even.take(value))
        if beyond.size:
            owner = value[beyond]
            entry = self._rest.starts[owner] + slot[beyond] - self._even[owner]
            block[beyond] = self._rest.blocks[entry]
            nth[beyond] = self._rest.nth[entry]
        nth += self._begins.take(block * len(self.counts) + value)
        return block, nth

    def _width(self, block: IntArray) -> IntArray | int:
        """How many buckets a block has."""
        return self.least + (block >= self.blocks - self.larger) if self.larger else self.least

    def _value(self, block: IntArray, position: IntArray) -> IntArray:
        values, cells = len(self.counts), self._guess.shape[1]
        cell = position >> self._shift
        cell += block * cells
        nth = self._guess.take(cell).astype(np.int64)
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

    # -- the whole part ------------------------------------------------------------------------

    def runs(self) -> Iterator[tuple[int, IntArray, SmallArray]]:
        """Blocks as runs of buckets with equal contents: (first bucket, run lengths, contents).

        `contents[i]` are the `size` values of each of the `lengths[i]` buckets of run i, in place
        order. A block has at most as many runs as values, so this is small for any number of
        records.
        """
        for block in range(self.blocks):
            first, last = self.first_bucket(block), self.first_bucket(block + 1)
            width = last - first
            begins = np.unique(self.edges[block] % width)
            lengths = np.diff(np.append(begins, width)).astype(np.int64)
            places = np.arange(self.size)[None, :] * width + begins[:, None]
            nth = np.searchsorted(self.edges[block][1:], places, side="right")
            yield first, lengths, self.order[block][nth]

    def co_occurrence(self) -> FloatArray:
        """Σ over buckets g of c_x(g)·c_x'(g)/size, shape (values, values); rows sum to h_x."""
        values = len(self.counts)
        total = np.zeros(values * values)
        for _, lengths, contents in self.runs():
            pairs = contents[:, :, None].astype(np.int64) * values + contents[:, None, :]
            weight = np.broadcast_to(lengths[:, None, None], pairs.shape)
            total += np.bincount(pairs.ravel(), weight.ravel(), minlength=values * values)
        return total.reshape(values, values) / self.size

    def check(self) -> None:
        """Verify every block and every bucket exactly; O(blocks · values · size)."""
        held = self.block_counts.astype(np.int64)
        widths = np.diff(self._first(np.arange(self.blocks + 1)))
        assert int(widths.sum()) == self.buckets, (widths, self.buckets)
        assert np.array_equal(held.sum(axis=0), self.counts), "a value is not dealt out whole"
        assert np.array_equal(held.sum(axis=1), self.size * widths), "a block is not full"
        share = np.array([[int(h) * int(w) for h in self.counts] for w in widths], object)
        assert bool((held >= share // self.buckets).all()), "a block is below its share"
        assert bool((held <= -(-share // self.buckets)).all()), "a block is above its share"
        for first, _, contents in self.runs():
            line = np.sort(contents, axis=1)
            run = np.arange(len(line))[:, None] * len(self.counts) + line
            most = np.bincount(run.ravel(), minlength=run.shape[0] * len(self.counts))
            held_most = most.reshape(len(line), -1).max(axis=0)
            assert bool((held_most <= self.limits).all()), (first, held_most, self.limits)


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


def _rounded(counts: IntArray, part: int, whole: int, draws: Draws) -> IntArray:
    """Systematic rounding of counts·part/whole in a random order from a random start."""
    order = draws.order("order", len(counts))
    start = int(draws.below("start", Positions(0, 1), whole)[0])
    # Python integers: records times buckets may pass 2⁶³
    upto = np.cumsum(counts[order].astype(object)) * part + start
    rounded = np.empty(len(counts), np.int64)
    rounded[order] = np.diff(np.concatenate([[start], upto]) // whole).astype(np.int64)
    return rounded


def _spread(rest: IntArray, blocks: int, draws: Draws) -> IntArray:
    """A table of zeros and ones, shape (blocks, values): column x sums to rest[x] < blocks, all
    rows to the same. Halves the blocks with fresh systematic rounding, all halves of a level at
    once. O(blocks · values · log values)."""
    nodes, widths = rest[None, :], np.array([blocks])
    for level in range(max(blocks - 1, 0).bit_length()):
        left = widths // 2
        words = draws.words(f"order {level}", Positions(0, nodes.size)).reshape(nodes.shape)
        order = np.argsort(words, axis=1)
        start = draws.below(f"start {level}", Positions(0, len(widths)), widths)[:, None]
        upto = np.cumsum(np.take_along_axis(nodes, order, axis=1), axis=1) * left[:, None] + start
        edges = np.concatenate([start, upto], axis=1) // widths[:, None]
        taken = np.empty_like(nodes)
        np.put_along_axis(taken, order, np.diff(edges, axis=1), axis=1)
        nodes = np.stack([taken, nodes - taken], axis=1).reshape(-1, nodes.shape[1])
        widths = np.stack([left, widths - left], axis=1).reshape(-1)
        nodes, widths = nodes[widths > 0], widths[widths > 0]
    return nodes


def _lines(block_counts: SmallArray, draws: Draws) -> tuple[SmallArray, SmallArray]:
    """A random order of values per block, absent ones last, and the edges of their runs."""
    blocks, values = block_counts.shape
    words = draws.words("lines", Positions(0, blocks * values)).reshape(blocks, values).copy()
    words >>= np.uint64(1)
    words[block_counts == 0] |= np.uint64(1 << 63)
    order = np.argsort(words, axis=1).astype(np.int32)
    edges = np.zeros((blocks, values + 1), np.int32)
    np.cumsum(np.take_along_axis(block_counts, order, axis=1), axis=1, out=edges[:, 1:])
    return order, edges
