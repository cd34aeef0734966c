"""Handing out the sensitive values as the paper does: a random perfect matching of the graph.

Section 3.5 extracts μ disjoint assignments anew and picks one uniformly. Perfect matchings come
from random walks (Goel, Kapralov and Khanna 2010, O(n log n) for regular graphs). Extracting one
and stopping with chance 1/degree, else removing it, has the same law and costs half (errata H4).
This keeps each edge at 1/μ, but NOT the promise per original record (errata H1): for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import Draws, IntArray, Positions

_WORDS = 1 << 14


def matched_anew(groups: Sequence[IntArray], draws: Draws) -> IntArray:
    """The record of each row, for groups of rows that share no records: each matched by itself."""
    return np.concatenate(
        [
            random_matching(matches, draws.child(f"group {place}"))
            for place, matches in enumerate(groups)
        ]
    )


def random_matching(matches: IntArray, draws: Draws) -> IntArray:
    """The record of each row, for a regular graph: `matches[r]` are the records of row r.

    >>> chosen = random_matching(np.array([[0, 1], [1, 2], [2, 0]]), Draws.from_seed(1))
    >>> sorted(chosen.tolist())
    [0, 1, 2]
    """
    choose = _Choices(draws)
    _, flat = np.unique(matches, return_inverse=True)
    edges: list[list[int]] = [row.tolist() for row in flat.reshape(matches.shape)]
    for degree in range(matches.shape[1], 0, -1):
        owner = _perfect_matching(edges, choose)
        row_of = [0] * len(edges)
        for record, row in enumerate(owner):
            row_of[row] = record
        if choose.below(degree) == 0:
            break
        for row, record in enumerate(row_of):
            edges[row].remove(record)
    records = np.unique(matches)
    return np.asarray(records[np.array(row_of)])


def _perfect_matching(edges: list[list[int]], choose: _Choices) -> list[int]:
    """`owner[record]`: the row that takes it. One random walk per row, loops erased."""
    rows, degree = len(edges), len(edges[0])
    owner = [-1] * rows
    held = [-1] * rows
    for start in range(rows):
        path: list[tuple[int, int]] = []  # (row, record it would take)
        at: dict[int, int] = {}  # row -> its place on the path
        row = start
        while True:
            if row in at:
                for gone, _ in path[at[row] :]:
                    del at[gone]
                del path[len(at) :]
            record = edges[row][choose.below(degree)]
            while record == held[row]:
                record = edges[row][choose.below(degree)]
            at[row] = len(path)
            path.append((row, record))
            if owner[record] < 0:
                break
            row = owner[record]
        for walker, record in path:
            owner[record] = walker
            held[walker] = record
    return owner


class _Choices:
    """Uniform integers, drawn many at a time."""

    def __init__(self, draws: Draws) -> None:
        self._draws, self._served = draws, 0
        self._ready: dict[int, list[int]] = {}

    def below(self, bound: int) -> int:
        ready = self._ready.get(bound)
        if not ready:
            address = Positions(self._served, _WORDS)
            ready = self._draws.below("walk", address, bound).tolist()
            self._served += _WORDS
            self._ready[bound] = ready
        return ready.pop()
