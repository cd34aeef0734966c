"""The paper's matchers against brute force and against their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from papers.heterogeneous.matchers import MATCHERS
from sfumato.mechanisms.heterogeneous.sweeps import hungarian


@pytest.mark.parametrize("matcher", sorted(MATCHERS))
def test_matchers_give_permutations(matcher: str) -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 5, 30):
        cost = rng.integers(0, 6, (size, size)).astype(float)
        assert sorted(MATCHERS[matcher](cost).tolist()) == list(range(size))


def test_hungarian_is_optimal_and_the_others_are_greedy() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        cost = rng.integers(0, 50, (5, 5)).astype(float)
        rows = np.arange(5)
        best = min(cost[list(order), rows].sum() for order in itertools.permutations(range(5)))
        assert cost[hungarian(cost), rows].sum() == best
        cheapest = MATCHERS["sort-greedy"](cost)
        assert cost[cheapest, rows].min() == cost.min()
        assert cost[MATCHERS["greedy"](cost)[0], 0] == cost[:, 0].min()


def test_sort_greedy_follows_the_sorted_list() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        cost = rng.permutation(49).reshape(7, 7).astype(float)
        expected = np.full(7, -1)
        free = np.ones(7, bool)
        for flat in np.argsort(cost, axis=None):
            record, row = divmod(int(flat), 7)
            if expected[row] < 0 and free[record]:
                expected[row], free[record] = record, False
        assert MATCHERS["sort-greedy"](cost).tolist() == expected.tolist()
