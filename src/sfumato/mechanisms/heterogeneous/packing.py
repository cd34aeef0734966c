"""Whole values into ℓ buckets of nearly equal size, alike along the domain order.

If every value lies in one bucket only, a match set holds a value at most once, whatever is handed
out. Such packings differ in how alike the buckets are: a bucket of builders and a bucket of nurses
force both sexes into most match sets. Neighbours in the domain order are often alike (codes of
occupations, salary classes, ages of diagnosis), so every bucket should hold its share of every
stretch of the domain. The rule looks at the histogram and the domain order only, never at quasi
values: what a bucket holds betrays nothing about anybody's quasi values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray

MOST_MOVED = 12  # values of two buckets that are packed anew at once: 2¹² ways
UNEVEN = 100.0  # a record too many in a bucket weighs as ten records out of place in the domain
ROUNDS = 20


def whole_groups(counts: IntArray, number: int) -> list[list[int]]:
    """Codes per bucket: values in domain order into the emptiest bucket, then the values of two
    buckets packed anew as long as that makes them more even or more alike. O(ℓ² 2¹²) a round.

    >>> whole_groups(np.array([5, 4, 3, 3, 3]), 2)
    [[0, 1], [2, 3, 4]]
    """
    groups: list[list[int]] = [[] for _ in range(number)]
    for code in np.flatnonzero(counts).tolist():
        min(groups, key=lambda group: int(counts[group].sum())).append(code)
    for _ in range(ROUNDS):
        changed = False
        order = sorted(range(number), key=lambda bucket: int(counts[groups[bucket]].sum()))
        for low in order:
            for high in reversed(order):
                if low != high:
                    changed |= _repack(counts, groups, low, high)
        if not changed:
            break
    return groups


def _repack(counts: IntArray, groups: list[list[int]], low: int, high: int) -> bool:
    """Pack the values of two buckets anew in the best of 2¹² ways; whether anything changed."""
    codes = np.array(sorted(groups[low] + groups[high]), np.int64)
    inside = np.isin(codes, groups[low])
    step = max(1, -(-len(codes) // MOST_MOVED))
    moving = np.flatnonzero(np.arange(len(codes)) % step == step - 1)  # many values: some of them
    ways = np.arange(1 << len(moving))
    chosen = np.repeat(inside[None, :], len(ways), axis=0)
    chosen[:, moving] = (ways[:, None] >> np.arange(len(moving))) & 1
    cost = _cost(counts, codes, chosen, len(groups))
    current = int((inside[moving].astype(np.int64) << np.arange(len(moving))).sum())
    best = int(np.argmin(cost))
    if cost[best] >= cost[current] - 1e-9:
        return False
    groups[low] = codes[chosen[best]].tolist()
    groups[high] = codes[~chosen[best]].tolist()
    return True


def _cost(
    counts: IntArray, codes: IntArray, chosen: npt.NDArray[np.bool_], number: int
) -> npt.NDArray[np.float64]:
    """Squared distance of both buckets from an even share, of every prefix and of the whole."""
    even = (np.cumsum(counts) - counts / 2)[codes] / number
    weight = counts[codes].astype(np.float64)
    middle = np.cumsum(weight) - weight / 2
    one = np.cumsum(chosen * weight, axis=1) - chosen * weight / 2
    size = counts.sum() / number
    first = chosen @ weight
    second = weight.sum() - first
    alike = ((one - even) ** 2 + (middle - one - even) ** 2).mean(axis=1)
    return np.asarray(alike + UNEVEN * ((first - size) ** 2 + (second - size) ** 2))
