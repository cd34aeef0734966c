"""Values into ℓ groups of nearly equal size, in every column of counts at once.

Counts are exact integers; the imbalance of a grouping is Σ |ℓ·(count of a group) − (count of all)|
over groups and columns. Largest values first, each into the emptiest group, then down by the best
exchange of two values or the best move of one: a search, not an optimum.
"""

from __future__ import annotations

import numpy as np

from sfumato.draws import IntArray

AT_ONCE = 96  # values whose exchanges are looked at: of more, as many of all sizes


def even_groups(counts: IntArray, number: int) -> list[list[int]]:
    """Codes of the values that occur, grouped: `counts[x]`, or `counts[x, c]` for several columns.

    O(m²) for each step down, m being at most `AT_ONCE`.

    >>> groups = even_groups(np.array([5, 4, 3, 3, 3]), 2)
    >>> sorted(sorted(group) for group in groups)
    [[0, 1], [2, 3, 4]]
    """
    table = counts[:, None] if counts.ndim == 1 else counts
    present = np.flatnonzero(table.any(axis=1))
    weights = number * table[present]
    by_size = np.argsort(-weights.sum(axis=1), kind="stable")
    group = np.empty(len(present), np.int64)
    filled = np.zeros(number, np.int64)
    for value in by_size.tolist():
        group[value] = np.argmin(filled)
        filled[group[value]] += weights[value].sum()
    over = np.full((number, weights.shape[1]), -(weights.sum(axis=0) // number))
    np.add.at(over, group, weights)
    places = np.linspace(0, len(present) - 1, min(AT_ONCE, len(present))).astype(np.int64)
    some = np.sort(by_size[places])
    while (better := _best_step(weights[some], group[some], over)) is not None:
        for place, to in better:
            value = some[place]
            over[group[value]] -= weights[value]
            over[to] += weights[value]
            group[value] = to
    return [present[group == number_].tolist() for number_ in range(number)]


def _best_step(weights: IntArray, group: IntArray, over: IntArray) -> list[tuple[int, int]] | None:
    """The best exchange or move: places of values and the groups that they go to; None where no
    step makes the groups more even."""
    mine, now = over[group], np.abs(over).sum(axis=1)
    shift = weights[None, :, :] - weights[:, None, :]  # x becomes y
    exchange = np.abs(mine[:, None, :] + shift).sum(axis=2)
    exchange += exchange.T - (now[group][:, None] + now[group][None, :])
    exchange[group[:, None] == group[None, :]] = 0
    leave = np.abs(mine - weights).sum(axis=1) - now[group]
    enter = np.abs(over[None, :, :] + weights[:, None, :]).sum(axis=2) - now[None, :]
    move = leave[:, None] + enter
    move[np.arange(len(weights)), group] = 0
    x, y = divmod(int(np.argmin(exchange)), len(weights))
    value, to = divmod(int(np.argmin(move)), len(over))
    if min(exchange[x, y], move[value, to]) >= 0:
        return None
    if exchange[x, y] <= move[value, to]:
        return [(x, int(group[y])), (y, int(group[x]))]
    return [(value, to)]


def stretches(counts: IntArray, number: int) -> IntArray:
    """Counts of values as columns for `even_groups`: all, and those of each stretch of the domain.

    Neighbours in the order of the domain are often alike (codes of occupations, salary classes), so
    groups with their share of every stretch are alike too. A stretch has about as many people as
    two groups. The size of a group counts as much as all stretches together.

    >>> stretches(np.array([4, 2, 3, 3]), 4).tolist()
    [[8, 4, 0], [4, 2, 0], [6, 0, 3], [6, 0, 3]]
    """
    columns = max(1, number // 2)
    middle = np.cumsum(counts) - counts / 2
    stretch = np.minimum((middle * columns / counts.sum()).astype(np.int64), columns - 1)
    parts = counts[:, None] * (stretch[:, None] == np.arange(columns))
    return np.concatenate([counts[:, None] * columns, parts], axis=1)
