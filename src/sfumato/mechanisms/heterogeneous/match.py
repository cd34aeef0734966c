"""Matching rows to the records of a bucket: `hungarian`, `sort-greedy` and `greedy`.

`cost[v, r]` is what row r grows when it takes record v. No pair is ever forbidden: buckets hold
whole values, so that dead ends (errata H7) cannot come up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Floats

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

    Of equally cheap ones the record that costs the rows most in the mean: others want it least.

    >>> greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    wanted = np.argsort(-cost.mean(axis=1), kind="stable")
    by_row = np.ascontiguousarray(cost[wanted].T)
    matched = np.empty(len(cost), np.int64)
    taken = np.zeros(len(cost))
    for row, costs in enumerate(by_row):
        best = int(np.argmin(costs + taken))
        matched[row] = wanted[best]
        taken[best] = np.inf
    return matched


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
    return matched


MATCHERS: dict[str, Matcher] = {
    "hungarian": hungarian,
    "sort-greedy": sort_greedy,
    "greedy": greedy,
}
