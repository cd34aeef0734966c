"""Dealing values over the blocks of a part: evenly, or gathered (see `mixing` for why it works)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.draws import BoolArray, Draws, IntArray, Positions

SmallArray = npt.NDArray[np.int32]

_ROUNDS = 8  # of exchange: what is neither absent nor at its limit is halved in each


def deal_evenly(counts: IntArray, buckets: int, blocks: int, draws: Draws) -> IntArray:
    """h_x^k: every value over the blocks in proportion to their buckets, rounded up or down.

    The first blocks have ⌊buckets/blocks⌋ buckets, the others one more.
    """
    least, larger = divmod(buckets, blocks)
    rare = rare_values(counts, buckets)
    second = _rounded(counts, (least + 1) * larger, buckets, draws.child("classes"))
    tables = []
    for index, (inside, many) in enumerate(((counts - second, blocks - larger), (second, larger))):
        if many:
            share, rest = np.divmod(inside, many)
            tables.append(share + _spread(rest, many, rare, draws.child(f"surplus {index}")))
    return np.concatenate(tables)


def rare_values(counts: IntArray, buckets: int) -> BoolArray:
    """The rarest values, as many as fill a quarter of the buckets with one record each.

    They are kept apart: two values with a few records each that met in a bucket could not be told
    apart again. A quarter, because a kind of value that every bucket holds once tells nothing.
    """
    order = np.argsort(counts, kind="stable")
    few = np.cumsum(counts[order]) <= buckets // 4
    rare = np.zeros(len(counts), np.bool_)
    rare[order[few]] = True
    return rare


def gather(block_counts: IntArray, widths: IntArray, limits: IntArray, draws: Draws) -> IntArray:
    """The same margins with values that stand in a block at their limit or not at all.

    How well answers tell a value from others grows with how much its share differs between
    buckets (methods, section 1), and its limit allows shares from 0 to u_x/size. Blocks exchange
    in pairs, each time in a new random order of values: one takes all it may of the first values,
    the other of the last. Both stay within 0 … u_x·b_k and keep their sums, so this is exact.
    Values that may stand once in a bucket are left as they are: even dealing shows as much.
    """
    blocks = len(block_counts)
    columns = np.flatnonzero((limits > 1) & (block_counts.any(axis=0)))
    if len(columns) > blocks:  # so few blocks could not tell more values apart
        totals = block_counts[:, columns].sum(axis=0)
        columns = np.sort(columns[np.argsort(-totals, kind="stable")[:blocks]])
    if len(columns) < 2 or blocks < 2:
        return block_counts
    held, room = block_counts[:, columns], widths[:, None] * limits[columns]
    for number in range(_ROUNDS):
        order = draws.order(f"pairs {number}", blocks)
        one, other = order[: blocks // 2], order[blocks // 2 : blocks // 2 * 2]
        both = held[one] + held[other]
        least = np.maximum(both - room[other], 0)
        free = np.minimum(room[one], both) - least
        wanted = held[one].sum(axis=1) - least.sum(axis=1)
        words = draws.words(f"values {number}", Positions(0, both.size)).reshape(both.shape)
        turn = np.argsort(words, axis=1)
        in_turn = np.take_along_axis(free, turn, axis=1)
        before = np.cumsum(in_turn, axis=1) - in_turn
        taken = np.empty_like(both)
        np.put_along_axis(taken, turn, np.clip(wanted[:, None] - before, 0, in_turn), axis=1)
        held[one] = least + taken
        held[other] = both - held[one]
    table = block_counts.copy()
    table[:, columns] = held
    return table


def lines(block_counts: IntArray, rare: BoolArray, draws: Draws) -> tuple[SmallArray, SmallArray]:
    """A random order of values per block, rare ones first and absent ones last, and their edges.

    Neighbours in the line go to different buckets, so rare values do not meet.
    """
    blocks, values = block_counts.shape
    words = draws.words("lines", Positions(0, blocks * values)).reshape(blocks, values).copy()
    words >>= np.uint64(2)
    words[:, ~rare] |= np.uint64(1 << 62)
    words[block_counts == 0] |= np.uint64(1 << 63)
    order = np.argsort(words, axis=1).astype(np.int32)
    edges = np.zeros((blocks, values + 1), np.int32)
    np.cumsum(np.take_along_axis(block_counts, order, axis=1), axis=1, out=edges[:, 1:])
    return order, edges


def _rounded(counts: IntArray, part: int, whole: int, draws: Draws) -> IntArray:
    """Systematic rounding of counts·part/whole in a random order from a random start."""
    order = draws.order("order", len(counts))
    start = int(draws.below("start", Positions(0, 1), whole)[0])
    # Python integers: records times buckets may pass 2⁶³
    upto = np.cumsum(counts[order].astype(object)) * part + start
    rounded = np.empty(len(counts), np.int64)
    rounded[order] = np.diff(np.concatenate([[start], upto]) // whole).astype(np.int64)
    return rounded


def _spread(rest: IntArray, blocks: int, rare: BoolArray, draws: Draws) -> IntArray:
    """A table of zeros and ones, shape (blocks, values): column x sums to rest[x] < blocks, all
    rows to the same. Halves the blocks with fresh systematic rounding, all halves of a level at
    once; rare values are neighbours in every rounding, so each half gets half of them. O(blocks ·
    values · log values)."""
    nodes, widths = rest[None, :], np.array([blocks])
    for level in range(max(blocks - 1, 0).bit_length()):
        left = widths // 2
        words = draws.words(f"order {level}", Positions(0, nodes.size)).reshape(nodes.shape)
        words = words >> np.uint64(1)
        words[:, ~rare] |= np.uint64(1 << 63)
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
