"""Rings made again: the right one of the l tables mostly gives the same ring.

Rows next to each other on a ring share all matches but one, so match sets tell the ring. The values
stand on it as the rows show them, shifted by one of l steps. Under each the program would arrange
the people of the partition anew: the reader keeps to the shift whose ring has the most neighbours
in common with the one that was published.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.attacks.reruns import Block, Read
from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.ring import is_eligible, ring_of


def ring_weights(block: Block, shown: IntArray, axes: Sequence[Axis], draws: Draws) -> Read:
    """1 for the pairs of the best shifts of a block, 0 for the others."""
    number = len(block.row) // max(len(block.rows), 1)
    order = ring_order(block, number)
    if order is None:
        return Read(np.ones(len(block.row)), recovered=False)
    rows, people = order
    values = shown[block.rows[rows]]
    looks = _looks(block.records[people], axes)
    # the program goes along the leaves of its k-d split; what looks the same it takes at random
    start = block.records[people][draws.order("ties", len(people))]
    leaves = split(start[None, :], axes, 2 * number)
    place = {record: n for n, record in enumerate(np.concatenate([leaf[0] for leaf in leaves]))}
    along = np.argsort([place[record] for record in block.records[people].tolist()])
    scores = [_in_common(np.roll(values, step), along, looks, number) for step in range(number)]
    weights = np.zeros(len(block.row))
    turn_of_row, turn_of_person = np.argsort(rows), np.argsort(people)
    steps = (turn_of_person[block.record] - turn_of_row[block.row]) % len(rows)
    for step, score in enumerate(scores):
        weights[steps == step] = float(score == max(scores))
    return Read(weights, recovered=True)


def ring_order(block: Block, number: int) -> tuple[IntArray, IntArray] | None:
    """Rows around the ring and the people at its places: row i spans places i to i + l − 1.

    None where too few rows make too many rings possible.
    """
    size = len(block.rows)
    if size < number + 2 or size != len(block.records) or number < 2:
        return None
    shared = np.asarray((block.matrix @ block.matrix.T).todense())
    np.fill_diagonal(shared, 0)
    rows = [0]
    seen = {0}
    while len(rows) < size:
        near = [r for r in np.flatnonzero(shared[rows[-1]] == number - 1) if int(r) not in seen]
        if not near:
            return None
        rows.append(int(near[0]))
        seen.add(rows[-1])
    spans = np.asarray(block.matrix.todense())[rows] > 0
    # a person's place is the last row that spans it, going round
    ends = spans & ~np.roll(spans, -1, axis=0)
    if (ends.sum(axis=0) != 1).any():
        return None
    people = np.argsort(ends.argmax(axis=0), kind="stable")
    last = np.sort(ends.argmax(axis=0))
    if not np.array_equal(last, np.arange(size)):
        return None
    # `people[i]` is the first place that row i spans
    return np.array(rows), people


def _looks(records: IntArray, axes: Sequence[Axis]) -> IntArray:
    """Equal numbers for people whom nothing tells apart."""
    codes = np.stack([axis.codes[records] for axis in axes], axis=1)
    return np.asarray(np.unique(codes, axis=0, return_inverse=True)[1]).reshape(-1)


def _in_common(values: IntArray, along: IntArray, looks: IntArray, number: int) -> int:
    """How many neighbours the ring made from these values has in common with places 0, 1, 2, …"""
    codes = np.unique(values, return_inverse=True)[1].reshape(-1)
    if not is_eligible(codes, number):
        return -1
    made = along[np.array(ring_of(codes[along].tolist(), number))]
    return len(_pairs(looks[made]) & _pairs(looks))


def _pairs(ring: IntArray) -> set[tuple[int, int]]:
    both = zip(ring.tolist(), np.roll(ring, -1).tolist(), strict=True)
    return {(min(pair), max(pair)) for pair in both}
