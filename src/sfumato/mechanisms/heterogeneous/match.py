"""Matching rows to the records of a bucket: `hungarian`, `sort-greedy` and `greedy`.

`cost[v, r]` is what row r grows when it takes record v. Forbidden pairs carry `FORBIDDEN`, more
than any whole matching can cost otherwise, so that the optimum avoids them wherever that is
possible; the greedy matchers are repaired by augmenting paths (H7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Floats

FORBIDDEN = float(1 << 50)  # a whole matching costs less: rows × columns × scale < 2⁵⁰
Matcher = Callable[[Floats], IntArray]


def hungarian(cost: Floats) -> IntArray:
    """The cheapest matching: `matched[r]` is the record of row r. O(p³).

    >>> hungarian(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    records, rows = linear_sum_assignment(cost)
    matched = np.empty(len(rows), np.int64)
    matched[rows] = records
    return matched


def greedy(cost: Floats) -> IntArray:
    """Row by row the cheapest record that is left ([16] of the paper). O(p²).

    >>> greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    by_row = np.ascontiguousarray(cost.T)
    matched = np.empty(len(cost), np.int64)
    taken = np.zeros(len(cost))
    for row, costs in enumerate(by_row):
        best = int(np.argmin(costs + taken))
        matched[row] = best
        taken[best] = np.inf
    return repair(cost, matched)


def sort_greedy(cost: Floats) -> IntArray:
    """The cheapest pair that is left, again and again ([16]); ties along diagonals.

    All pairs that are the cheapest of both their row and their record are taken at once, which
    gives the same matching as going through the sorted list: O(p²) for each of a few rounds.

    >>> sort_greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    size = len(cost)
    place = np.arange(size)
    tie = ((place[None, :] - place[:, None]) % size) * size + place[None, :]
    # ranks of (cost, tie): a total order without a large sort by pairs
    _, rank = np.unique(cost, return_inverse=True)
    order = rank.reshape(cost.shape).astype(np.int64) * (size * size) + tie
    matched = np.empty(size, np.int64)
    records, rows = place, place
    while len(rows):
        best_record = np.argmin(order, axis=0)
        best_row = np.argmin(order, axis=1)
        mutual = best_row[best_record] == np.arange(len(rows))
        chosen = np.flatnonzero(mutual)
        matched[rows[chosen]] = records[best_record[chosen]]
        keep_rows = ~mutual
        keep_records = np.ones(len(records), np.bool_)
        keep_records[best_record[chosen]] = False
        order = order[np.ix_(keep_records, keep_rows)]
        records, rows = records[keep_records], rows[keep_rows]
    return repair(cost, matched)


MATCHERS: dict[str, Matcher] = {
    "hungarian": hungarian,
    "sort-greedy": sort_greedy,
    "greedy": greedy,
}


def repair(cost: Floats, matched: IntArray) -> IntArray:
    """Take forbidden pairs out by augmenting paths over allowed ones; what no path resolves stays.

    >>> cost = np.array([[0.0, 0.0], [9.0, FORBIDDEN]])
    >>> repair(cost, np.array([0, 1])).tolist()
    [1, 0]
    """
    rows = np.arange(len(matched))
    for row in np.flatnonzero(cost[matched, rows] >= FORBIDDEN).tolist():
        if cost[matched[row], row] >= FORBIDDEN:
            matched = _augment(cost < FORBIDDEN, matched, row)
    return matched


def _augment(allowed: npt.NDArray[np.bool_], matched: IntArray, start: int) -> IntArray:
    """Breadth first from row `start` to the record that it holds unlawfully."""
    owner = np.empty_like(matched)
    owner[matched] = np.arange(len(matched))
    free = int(matched[start])
    came: dict[int, int] = {}  # record -> the row that would take it
    queue = deque([start])
    while queue:
        row = queue.popleft()
        for record in np.flatnonzero(allowed[:, row]).tolist():
            if record in came or (record == matched[row]):
                continue
            came[record] = row
            if record == free:
                result = matched.copy()
                while True:
                    taker = came[record]
                    before = int(matched[taker])
                    result[taker] = record
                    if taker == start:
                        return result
                    record = before
            queue.append(int(owner[record]))
    return matched
