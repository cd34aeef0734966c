"""Values into ℓ groups of nearly equal size, in every column of counts at once.

Counts are exact integers; the imbalance of a grouping is Σ |ℓ·(count of a group) − (count of all)|
over groups and columns. Going down from a first grouping by the best exchange of two values or the
best move of one, then again from grounds near the best one found: a search, not an optimum.
"""

from __future__ import annotations

import numpy as np

from sfumato.draws import Draws, IntArray, Positions

EXCHANGED = 3  # pairs of values that a new ground exchanges
AT_ONCE = 96  # values whose exchanges are looked at together


def even_groups(counts: IntArray, number: int, draws: Draws, kicks: int = 4) -> list[list[int]]:
    """Codes of the values that occur, grouped: `counts[x]`, or `counts[x, c]` for several columns.

    `kicks` is how often the search goes down again from a ground near the best. O(m²) for each of
    a few steps per kick, m being at most `AT_ONCE` at a time.

    >>> groups = even_groups(np.array([5, 4, 3, 3, 3]), 2, Draws.from_seed(1))
    >>> sorted(sorted(group) for group in groups)
    [[0, 1], [2, 3, 4]]
    """
    table = counts[:, None] if counts.ndim == 1 else counts
    present = np.flatnonzero(table.any(axis=1))
    search = _PackingSearch(number * table[present], number, draws, kicks)
    return [present[search.best == group].tolist() for group in range(number)]


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


class _PackingSearch:
    """Groupings of values with weights `weights[x, c]`, a multiple of `number` each."""

    def __init__(self, weights: IntArray, number: int, draws: Draws, kicks: int) -> None:
        self.weights, self.number, self.draws = weights, number, draws
        self.values, self.drawn = len(weights), 0
        self.group = self._first()
        self.over = self._imbalance()
        self._descend()
        self.best, least = self.group.copy(), self._total()
        for _ in range(kicks if self.values > number and least else 0):
            self._kick()
            self._descend()
            if self._total() <= least:
                self.best, least = self.group.copy(), self._total()
            else:
                self.group = self.best.copy()
                self.over = self._imbalance()
            if least == 0:
                break

    def _first(self) -> IntArray:
        """Largest values first, each into the emptiest group."""
        group = np.empty(self.values, np.int64)
        filled = [0] * self.number
        total = self.weights.sum(axis=1)
        for value in np.argsort(-total, kind="stable").tolist():
            group[value] = int(np.argmin(filled))
            filled[group[value]] += int(total[value])
        return group

    def _imbalance(self) -> IntArray:
        over = np.zeros((self.number, self.weights.shape[1]), np.int64)
        np.add.at(over, self.group, self.weights)
        return np.asarray(over - self.weights.sum(axis=0) // self.number, np.int64)

    def _total(self) -> int:
        return int(np.abs(self.over).sum())

    def _descend(self) -> None:
        while self._step():
            pass

    def _step(self) -> bool:
        """The best exchange or move among some values; whether there was a better grouping."""
        some = np.arange(self.values)
        if self.values > AT_ONCE:
            some = np.sort(self._below(self.values, AT_ONCE))
        weights, group = self.weights[some], self.group[some]
        over, now = self.over[group], np.abs(self.over).sum(axis=1)
        shift = weights[None, :, :] - weights[:, None, :]  # x becomes y
        exchange = np.abs(over[:, None, :] + shift).sum(axis=2)
        exchange += exchange.T - (now[group][:, None] + now[group][None, :])
        exchange[group[:, None] == group[None, :]] = 0
        leave = np.abs(over - weights).sum(axis=1) - now[group]
        enter = np.abs(self.over[None, :, :] + weights[:, None, :]).sum(axis=2) - now[None, :]
        move = leave[:, None] + enter
        move[np.arange(len(some)), group] = 0
        x, y = divmod(int(np.argmin(exchange)), len(some))
        v, to = divmod(int(np.argmin(move)), self.number)
        if min(exchange[x, y], move[v, to]) >= 0:
            return False
        if exchange[x, y] <= move[v, to]:
            self._exchange(int(some[x]), int(some[y]))
        else:
            self.over[group[v]] -= weights[v]
            self.over[to] += weights[v]
            self.group[some[v]] = to
        return True

    def _exchange(self, x: int, y: int) -> None:
        shift = self.weights[y] - self.weights[x]
        self.over[self.group[x]] += shift
        self.over[self.group[y]] -= shift
        self.group[x], self.group[y] = self.group[y], self.group[x]

    def _kick(self) -> None:
        for x, y in self._below(self.values, 2 * EXCHANGED).reshape(-1, 2).tolist():
            self._exchange(x, y)

    def _below(self, bound: int, number: int) -> IntArray:
        self.drawn += number
        return self.draws.below("packing", Positions(self.drawn - number, number), bound)
