"""Algorithms 1 and 2 for ℓ-diversity as the paper has them: values split over buckets.

For the worked tables. A row never meets a value twice; the rows of one person can (errata H1),
which is why sfumato's own layers hold whole values.
"""

from __future__ import annotations

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.sweeps import hungarian

FORBIDDEN = float(1 << 50)  # more than a whole matching can cost otherwise


def diversity_fill(counts: IntArray, number: int) -> IntArray:
    """Algorithm 1: the ℓ commonest values one bucket each, the rest into the emptiest (H6).

    Table 4 of the paper:

    >>> diversity_fill(np.array([3, 3, 3, 2, 2, 2]), 5)[3:].tolist()
    [[0, 0, 0, 2, 0, 1], [0, 0, 0, 0, 2, 1]]
    """
    size = int(counts.sum()) // number
    table = np.zeros((number, len(counts)), np.int64)
    order = np.argsort(-counts, kind="stable")
    for bucket, code in enumerate(order[:number]):
        table[bucket, code] = counts[code]
    room = size - table.sum(axis=1)
    for code in order[number:]:
        left = int(counts[code])
        while left:
            bucket = int(np.argmax(room))
            placed = min(left, int(room[bucket]))
            table[bucket, code] += placed
            room[bucket] -= placed
            left -= placed
    return table


def rounds(records: IntArray, position: IntArray, codes: IntArray) -> IntArray:
    """Algorithm 2 along one numeric column: `members[b, r, k]` from `records[k, j]`.

    A pair of a row and a record whose value the row has already is forbidden; for whole buckets a
    matching without such pairs exists (Theorem 2, H7), and the cheapest avoids them.
    """
    number, size = records.shape
    members = np.empty((number, size, number), np.int64)
    for start in range(number):
        members[start, :, start] = records[start]
        met = [start]
        for step in range(1, number):
            bucket = (start + step) % number
            rows = members[start][:, met]
            low, high = position[rows].min(axis=1), position[rows].max(axis=1)
            place = position[records[bucket]][:, None]
            cost = (np.maximum(low - place, 0) + np.maximum(place - high, 0)).astype(np.float64)
            repeated = (codes[records[bucket]][:, None, None] == codes[rows][None]).any(axis=2)
            cost[repeated] = FORBIDDEN
            members[start, :, bucket] = records[bucket][hungarian(cost)]
            met.append(bucket)
    return members
