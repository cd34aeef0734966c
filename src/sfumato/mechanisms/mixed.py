"""Well-mixed buckets: who shares a bucket with whom is close to proportional (methods, section 1).

A *part* has b buckets of S places each and is filled by values with counts h_x, Σ h_x = S·b, where
no bucket may hold value x more than u_x times. Buckets built greedily pair the same values again
and again, and the operator is then near singular or wrong (errata S5). So a part is cut into many
*pieces*; every value is dealt over the pieces as evenly as integers allow, and inside a piece the
values stand in line in random order and strides are cut: place k of the line goes to bucket
k mod (buckets of the piece). All parts of a plan are dealt at once.

Why it always works. Pieces have q or q+1 buckets. Let B be the buckets of the larger pieces.
*Two classes*: systematic rounding of h_x·B/b (differences of ⌊(h_1+…+h_x)·B/b + φ⌋, one φ) gives
each value its floor or ceiling and sums to S·B, because Σ h_x·B/b = S·B is an integer; what is left
for the other class is again a floor or ceiling. *Equal pieces*: K pieces with g_x records of value
x take ⌊g_x/K⌋ each; the rest e_x < K must become a table of zeros and ones with row sums e_x and
equal column sums. Halving K, systematic rounding of e_x·K'/K is at most K' and leaves at most
K − K', and both column sums are whole by the same argument, so the invariant e_x ≤ K holds down to
single pieces. Floors and ceilings nest (⌊⌊y⌋/K⌋ = ⌊y/K⌋), so piece k holds ⌊h_x·b_k/b⌋ or
⌈h_x·b_k/b⌉ records of x, at most u_x·b_k, because u_x·b_k ≥ h_x·b_k/b is whole. A value that fills
at most u·b_k places in a row meets itself at most u times in a stride. Every rounding has a fresh
random order and start, so expectations are exactly proportional and the surpluses of different
values fall together no more often than chance has it (the rarest values never, where there is room:
`_rare`).

*Gathered* parts go further where a bucket may hold a value more than once (`_gathered`): a piece
then holds a value as often as it may or not at all, which answers can tell better. All that the
ceilings need is h_x^k ≤ u_x·b_k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import BoolArray, Draws, IntArray, Positions

SmallArray = npt.NDArray[np.int32]

MOST_CELLS = 1 << 22  # pieces times values: many values in fewer pieces, to fit into memory
_AT_ONCE = 1 << 18  # places that are written out together
_ROUNDS = 8  # of gathering: what is neither absent nor at its limit is halved in each


@dataclass(frozen=True, eq=False)
class BucketParts:
    """`buckets` buckets of `sizes` places, filled by `counts` of each value, part by part.

    Parts of one block follow one another; buckets are numbered part by part.
    """

    blocks: IntArray
    sizes: IntArray
    buckets: IntArray
    counts: IntArray  # (part, value)

    @cached_property
    def first(self) -> IntArray:
        """The first bucket of every part, and how many there are in all."""
        return np.concatenate([[0], np.cumsum(self.buckets)])

    @property
    def values(self) -> int:
        return int(self.counts.shape[1])

    @cached_property
    def by_block(self) -> IntArray:
        """Counts by (block, value)."""
        totals = np.zeros((int(self.blocks.max(initial=-1)) + 1, self.values), np.int64)
        np.add.at(totals, self.blocks, self.counts)
        return totals

    def bucket_sizes(self) -> IntArray:
        return np.repeat(self.sizes, self.buckets)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Where every slot of every (block, value) goes.

    Dealing costs O(pieces · values) and is done when somebody looks: a plan that is only compared
    with others, or described, deals nothing.

    >>> one = np.array([1])
    >>> parts = BucketParts(0 * one, 2 * one, 3 * one, np.array([[2, 2, 1, 1]]))
    >>> mixed = Mixed(parts, np.ones((1, 4), np.int64), 3 * one, Draws.from_seed(1))
    >>> sorted(mixed.slot_buckets().tolist())
    [0, 0, 1, 1, 2, 2]
    """

    parts: BucketParts
    limits: IntArray  # u by (part, value)
    pieces: IntArray  # at most, by part
    draws: Draws = field(repr=False)
    gathered: bool = False

    def __post_init__(self) -> None:
        parts = self.parts
        filled = parts.sizes * parts.buckets
        if bool((parts.counts.sum(axis=1) != filled).any()) or bool((parts.counts < 0).any()):
            raise ValueError(f"{parts.counts.sum(axis=1)} records do not fill {filled} places")
        if bool((parts.counts > self.limits * parts.buckets[:, None]).any()):
            raise ValueError("a value has more records than its limit in each of the buckets")

    @classmethod
    def groups(cls, counts: IntArray, size: int, draws: Draws) -> Mixed:
        """One part of buckets of a size, each value at most once in a bucket."""
        one, h = np.ones(1, np.int64), np.asarray(counts, np.int64)[None, :]
        parts = BucketParts(0 * one, size * one, one * (int(h.sum()) // size), h)
        pieces = min(4096, max(1024, (1 << 18) // h.shape[1]))  # fits the second-level cache
        return cls(parts, np.ones_like(h), pieces * one, draws)

    # -- pieces --------------------------------------------------------------------------------

    @cached_property
    def _many(self) -> IntArray:
        """Pieces by part."""
        most = max(1, MOST_CELLS // max(self.parts.values * len(self.pieces), 1))
        return np.maximum(1, np.minimum(np.minimum(self.pieces, most), self.parts.buckets))

    @cached_property
    def part(self) -> IntArray:
        """The part of every piece."""
        return np.repeat(np.arange(len(self._many)), self._many)

    @cached_property
    def widths(self) -> IntArray:
        """Buckets of every piece: the first pieces of a part have q, the others q + 1."""
        least, larger = np.divmod(self.parts.buckets, self._many)
        within = np.arange(len(self.part)) - (np.cumsum(self._many) - self._many)[self.part]
        return np.asarray(least[self.part] + (within >= (self._many - larger)[self.part]))

    @cached_property
    def first(self) -> IntArray:
        """The first bucket of every piece, and how many there are in all."""
        return np.concatenate([[0], np.cumsum(self.widths)])

    @cached_property
    def lengths(self) -> IntArray:
        """Places in the line of every piece."""
        return np.asarray(self.widths * self.parts.sizes[self.part])

    @cached_property
    def held(self) -> SmallArray:
        """h_x^k by (piece, value)."""
        dealt = self._dealt()
        return (self._gathered(dealt) if self.gathered else dealt).astype(np.int32)

    @cached_property
    def lines(self) -> tuple[SmallArray, SmallArray]:
        """A random order of values per piece, rare ones first and absent ones last, and their
        edges: neighbours in the line go to different buckets, so rare values do not meet."""
        counts = self.held
        words = self.draws.words("lines", Positions(0, counts.size)).reshape(counts.shape).copy()
        words >>= np.uint64(2)
        words[~self._rare[self.part]] |= np.uint64(1 << 62)
        words[counts == 0] |= np.uint64(1 << 63)
        order = np.argsort(words, axis=1).astype(np.int32)
        edges = np.zeros((len(counts), counts.shape[1] + 1), np.int32)
        np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1, out=edges[:, 1:])
        return order, edges

    def __getstate__(self) -> dict[str, Any]:
        """Dealt before it travels: workers place records, and each of them would deal again."""
        return {**self.__dict__, "lines": self.lines}

    @cached_property
    def _rare(self) -> BoolArray:
        """By part, the rarest values, as many as fill a quarter of its buckets with one record.

        They are kept apart: two values with a few records each that met in a bucket could not be
        told apart again. A quarter, because a kind of value that every bucket holds once tells
        nothing.
        """
        counts = self.parts.counts
        order = np.argsort(counts, axis=1, kind="stable")
        few = np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1)
        rare = np.zeros(counts.shape, np.bool_)
        np.put_along_axis(rare, order, few <= self.parts.buckets[:, None] // 4, axis=1)
        return rare

    def _dealt(self) -> IntArray:
        """Every value over the pieces of its part in proportion to their buckets, rounded."""
        parts, draws = self.parts, self.draws.child("deal")
        least, larger = np.divmod(parts.buckets, self._many)
        second = np.zeros_like(parts.counts)
        mixed = np.flatnonzero(larger)
        if len(mixed):
            stream = draws.child("classes")
            order = np.argsort(_words(stream, (len(mixed), parts.values)), axis=1)
            start = stream.below("start", Positions(0, len(mixed)), parts.buckets[mixed])
            bound = int(parts.counts.sum(axis=1).max()) * int(parts.buckets.max())
            kind: type = np.int64 if bound < 1 << 62 else object  # Python integers beyond 64 bits
            share: npt.NDArray[Any] = ((least + 1) * larger)[mixed].astype(kind)[:, None]
            sorted_counts: npt.NDArray[Any] = np.take_along_axis(
                parts.counts[mixed], order, axis=1
            ).astype(kind)
            second[mixed] = _rounded(sorted_counts, order, share, start, parts.buckets[mixed])
        # of every part a class of smaller and one of larger pieces
        nodes = np.stack([parts.counts - second, second], axis=1).reshape(-1, parts.values)
        many = np.stack([self._many - larger, larger], axis=1).reshape(-1)
        rare = np.repeat(self._rare, 2, axis=0)[many > 0]
        nodes, many = nodes[many > 0], many[many > 0]
        evenly, rest = np.divmod(nodes, many[:, None])
        return np.repeat(evenly, many, axis=0) + _spread(rest, many, rare, draws.child("surplus"))

    def _gathered(self, held: IntArray) -> IntArray:
        """The same margins with values that stand in a piece at their limit or not at all.

        How well answers tell a value from others grows with how much its share differs between
        buckets (methods, section 1), and its limit allows shares from 0 to u_x/size. Pieces
        exchange in pairs, each time in a new random order of values: one takes all it may of the
        first values, the other of the last. Both stay within 0 … u_x·b_k and keep their sums, so
        this is exact. Values that may stand once in a bucket are left as they are: even dealing
        shows as much; and of more values than a part has pieces, the commonest are gathered.
        """
        parts, draws = self.parts, self.draws.child("gather")
        chosen = (self.limits > 1) & (parts.counts > 0)
        ranks = np.argsort(np.argsort(-np.where(chosen, parts.counts, -1), axis=1, kind="stable"))
        chosen &= ranks < self._many[:, None]
        chosen[chosen.sum(axis=1) < 2] = False
        columns = np.flatnonzero(chosen.any(axis=0))
        if not len(columns):
            return held
        held, chosen = held.copy(), chosen[:, columns]
        room = self.widths[:, None] * self.limits[self.part][:, columns]
        within = np.arange(len(self.part)) - (np.cumsum(self._many) - self._many)[self.part]
        for number in range(_ROUNDS):
            order = np.lexsort((_words(draws.child(f"pairs {number}"), len(within)), self.part))
            odd = (within % 2 == 1).nonzero()[0]  # sorted by part, so places within stay theirs
            one, other = order[odd - 1], order[odd]
            mine, theirs = held[one][:, columns], held[other][:, columns]
            free = chosen[self.part[one]]
            both = mine + theirs
            least = np.where(free, np.maximum(both - room[other], 0), mine)
            left = np.where(free, np.minimum(room[one], both), mine) - least
            turn = np.argsort(_words(draws.child(f"values {number}"), both.shape), axis=1)
            in_turn = np.take_along_axis(left, turn, axis=1)
            before = np.cumsum(in_turn, axis=1) - in_turn
            wanted = (mine.sum(axis=1) - least.sum(axis=1))[:, None]
            taken = np.empty_like(both)
            np.put_along_axis(taken, turn, np.clip(wanted - before, 0, in_turn), axis=1)
            held[np.ix_(one, columns)] = least + taken
            held[np.ix_(other, columns)] = both - least - taken
        return held

    # -- slots ---------------------------------------------------------------------------------

    def slot_buckets(self) -> SmallArray:
        """The bucket of every slot, by block, value and slot: four bytes a record."""
        order, edges = self.lines
        begins = np.empty(order.shape, np.int32)
        np.put_along_axis(begins, order.astype(np.int64), edges[:, :-1], axis=1)
        ends = np.searchsorted(self.parts.blocks[self.part], np.unique(self.parts.blocks), "right")
        bucket_of_slot, at, low = np.empty(int(self.parts.counts.sum()), np.int32), 0, 0
        for high in ends.tolist():
            counts = self.held[low:high].T
            value, piece = np.nonzero(counts)
            some, begin = counts[value, piece].astype(np.int64), begins[low + piece, value]
            upto = np.cumsum(some)
            cuts = np.searchsorted(upto, np.arange(0, int(upto[-1]) + _AT_ONCE, _AT_ONCE))
            for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
                run = slice(start, stop if stop < cuts[-1] else None)
                many, pieces = some[run], low + piece[run]
                position = np.arange(int(many.sum())) + np.repeat(
                    begin[run] - np.cumsum(many) + many, many
                )
                position %= np.repeat(self.widths[pieces], many)
                position += np.repeat(self.first[pieces], many)
                bucket_of_slot[at : at + len(position)] = position
                at += len(position)
            low = high
        return bucket_of_slot

    def numbers(self, values: IntArray, slots: IntArray) -> IntArray:
        """Of one block: the bucket of every (value, slot)."""
        first = np.cumsum(self.parts.by_block[0]) - self.parts.by_block[0]
        return np.asarray(self._slot_bucket.take(first.take(values) + slots), np.int64)

    @cached_property
    def _slot_bucket(self) -> SmallArray:
        return self.slot_buckets()

    def mates(self, values: IntArray, slots: IntArray, places: IntArray) -> IntArray:
        """Of buckets of one size: the value at a place (in [0, size)) of the record's own bucket.
        A uniform place is a uniform member, the record itself among them."""
        at = self.numbers(values, slots) * self.parts.sizes[0] + places
        return np.asarray(self._members.take(at), np.int64)

    @cached_property
    def _members(self) -> SmallArray:
        """The values of all buckets, one after the other."""
        kind = np.min_scalar_type(self.parts.values)
        runs = [np.repeat(value.astype(kind), count) for _, value, count in self.listed()]
        return np.concatenate(runs)

    # -- contents ------------------------------------------------------------------------------

    def listed(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """(bucket, value, count) of everything that buckets hold, bucket by bucket."""
        order, edges = self.lines
        upto = np.cumsum(self.lengths)
        cuts = np.unique(np.searchsorted(upto, np.arange(_AT_ONCE, int(upto[-1]), _AT_ONCE)) + 1)
        for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(upto)], strict=True):
            if low == high:
                continue
            values = np.repeat(
                order[low:high].reshape(-1), np.diff(edges[low:high], axis=1).reshape(-1)
            )
            lengths, widths = self.lengths[low:high], self.widths[low:high]
            start = np.repeat(np.cumsum(lengths) - lengths, lengths)
            position = np.arange(len(values)) - start
            width = np.repeat(widths, lengths)
            size = np.repeat(self.parts.sizes[self.part[low:high]], lengths)
            inside, row = position % width, position // width
            stands = np.empty(len(values), np.int64)
            stands[start + inside * size + row] = values
            bucket = np.repeat(
                np.arange(self.first[low], self.first[high]),
                np.repeat(self.parts.sizes[self.part[low:high]], widths),
            )
            # equal values stand next to each other in a line, so in a bucket too
            new = np.flatnonzero(
                (np.diff(stands, prepend=-1) != 0) | (np.diff(bucket, prepend=-1) != 0)
            )
            yield bucket[new], stands[new], np.diff(np.append(new, len(stands)))

    def check(self) -> None:
        """Verify every piece and every bucket exactly; O(pieces · values + records)."""
        counts, parts = self.held.astype(np.int64), self.parts
        dealt = np.zeros_like(parts.counts)
        np.add.at(dealt, self.part, counts)
        assert np.array_equal(dealt, parts.counts), "a value is not assigned whole"
        assert np.array_equal(counts.sum(axis=1), self.lengths), "a piece is not full"
        buckets = np.add.reduceat(self.widths, np.cumsum(self._many) - self._many)
        assert np.array_equal(buckets, parts.buckets), "a part is not cut whole"
        limits = self.limits[self.part]
        share = parts.counts[self.part].astype(object) * self.widths[:, None]
        free = (limits > 1) & self.gathered
        low = np.where(free, 0, share // parts.buckets[self.part][:, None])
        high = np.where(
            free, limits * self.widths[:, None], -(-share // parts.buckets[self.part][:, None])
        )
        assert bool((counts >= low).all()), "a piece is below its share"
        assert bool((counts <= high).all()), "a piece is above its share"
        for bucket, value, count in self.listed():
            owner = np.searchsorted(parts.first, bucket, side="right") - 1
            assert bool((count <= self.limits[owner, value]).all()), "a bucket is above its limit"


def _words(draws: Draws, shape: int | tuple[int, ...]) -> npt.NDArray[np.uint64]:
    return draws.words("words", Positions(0, int(np.prod(shape)))).reshape(shape)


def _rounded(
    counts: npt.NDArray[Any],
    order: IntArray,
    part: npt.NDArray[Any],
    start: IntArray,
    whole: IntArray,
) -> IntArray:
    """Systematic rounding of counts·part/whole by row, counts in a random `order`, from `start`."""
    upto = np.cumsum(counts, axis=1) * part + start[:, None]
    edges = np.concatenate([start[:, None].astype(upto.dtype), upto], axis=1) // whole[:, None]
    rounded = np.empty(order.shape, np.int64)
    np.put_along_axis(rounded, order, np.diff(edges, axis=1).astype(np.int64), axis=1)
    return rounded


def _spread(rest: IntArray, many: IntArray, rare: BoolArray, draws: Draws) -> IntArray:
    """Rows of zeros and ones, `many` for each row of `rest`, that sum to it: halved time and again.

    Rare values come first in the line of every rounding, so that they fall apart.
    """
    nodes, widths = rest, many
    for level in range(int(max(many.max(initial=1) - 1, 0)).bit_length()):
        left = widths // 2
        words = _words(draws.child(f"order {level}"), nodes.shape) >> np.uint64(1)
        words[~rare] |= np.uint64(1 << 63)
        order = np.argsort(words, axis=1)
        start = draws.below(f"start {level}", Positions(0, len(widths)), widths)
        taken = _rounded(
            np.take_along_axis(nodes, order, axis=1), order, left[:, None], start, widths
        )
        nodes = np.stack([taken, nodes - taken], axis=1).reshape(-1, nodes.shape[1])
        widths = np.stack([left, widths - left], axis=1).reshape(-1)
        rare = np.repeat(rare, 2, axis=0)[widths > 0]
        nodes, widths = nodes[widths > 0], widths[widths > 0]
    return nodes
