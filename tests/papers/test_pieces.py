"""Pieces of the reruns: the papers' worked tables, and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from papers.f_privacy.figures import integer_program, limits_of, sequential_two_size
from papers.heterogeneous import examples
from papers.heterogeneous.matchers import MATCHERS
from papers.reconstruction.ratios import (
    approximate_spread,
    noise_scale,
    ratio_quantiles,
    simulated_ratios,
)
from papers.splu.figures import _states
from papers.splu.methods import GreedyGroups
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.mechanisms.buckets.settings import loss
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.heterogeneous.sweeps import hungarian


def test_worked_tables_agree_with_the_paper() -> None:
    tables = {table.name: table for table in examples.tables()}
    first = tables["Table 1"]
    assert [row[1] for row in first.rows] == [row[2] for row in first.rows]
    assert first.rows[6][4] == "t'4, t'6, t'7"  # errata H5
    fourth = tables["Table 4"]
    assert [row[1] for row in fourth.rows] == [row[2] for row in fourth.rows]
    assert tables["Table 5"].rows[1][1:] == ("B2", "B3", "B4", "B5", "B1")
    sixth = tables["Table 6"]
    for start in range(1, 6):
        columns = [str(row[start]).split() for row in sixth.rows]
        for index in range(3):
            assert len({column[index] for column in columns}) == 5
    for number, beta in ((7, "5/7"), (8, "2/3"), (9, "5/7")):
        assert f"beta = {beta} " in tables[f"Table {number}"].note


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


@pytest.mark.parametrize("prune_by_loss", [False, True])
def test_the_plain_searches_find_the_same_loss(prune_by_loss: bool) -> None:
    weights = 0.85 ** np.arange(24)
    counts = np.random.default_rng(1).multinomial(2000, weights / weights.sum())
    limits = limits_of(counts, 4)
    plain = sequential_two_size(counts, limits, 30, prune_by_loss=prune_by_loss)
    assert loss(plain) == loss(best_two_size(counts, limits, 30))


def test_the_program_with_two_sizes_is_the_two_size_search() -> None:
    counts = np.random.default_rng(1).multinomial(300, [1 / 6] * 6)
    limits = limits_of(counts, 4)
    found = integer_program(counts, limits, 12, 20.0, most_sizes=2)
    assert len(found) <= 2
    assert loss(found) == loss(best_two_size(counts, limits, 12))


def test_states_of_two_columns_are_all_records() -> None:
    """The eight states of a query add up to the records, by hand for one query."""
    counts = np.array([[[5, 1], [2, 2]], [[3, 0], [1, 2]]])  # everybody; some condition
    states = _states(counts, np.array([1]), np.array([0]), np.array([1]))
    # condition: neither, interval only, occupation only, both
    assert states[0, 4:].tolist() == [1, 2, 3, 0]
    assert states[0].sum() == 10


def test_greedy_groups_take_the_commonest_values() -> None:
    groups = GreedyGroups.plan([3, 3, 2, 1], size=3, draws=Draws.from_seed(1))
    assert sorted(groups.rows[0].tolist()) == [0, 1, 2]
    assert all(len(set(row)) == 3 for row in groups.rows.tolist())
    with pytest.raises(ValueError, match="more than 1/size"):
        GreedyGroups.plan([4, 1, 1], size=3, draws=Draws.from_seed(1))


@pytest.mark.parametrize("scale", [4.0, 20.0, 200.0])
def test_quantiles_agree_with_simulation(scale: float) -> None:
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    exact = ratio_quantiles(scale, 501, 420, levels)
    found = simulated_ratios(scale, 501, 420, 200_000, Draws.from_seed(3))
    for level, quantile in zip(levels, exact, strict=True):
        # within 4.5 standard errors of a share of 200,000, and the quadrature's 5e-4
        error = 4.5 * np.sqrt(level * (1 - level) / 200_000) + 5e-4
        assert abs((found <= quantile).mean() - level) < error


def test_the_delta_method_is_right_where_it_may_be_used() -> None:
    # b/x = 1/25: erratum R10 measured 0.075 against 0.0737
    found = simulated_ratios(20, 501, 420, 200_000, Draws.from_seed(2))
    assert found.std() == pytest.approx(approximate_spread(20, 501, 420), rel=0.05)
    assert np.median(found) == pytest.approx(420 / 501, abs=0.002)


def test_nonsense_is_refused() -> None:
    assert [noise_scale(e) for e in (0.2, 0.1, 0.05, 0.01)] == pytest.approx([10, 20, 40, 200])
    with pytest.raises(UsageError, match="'epsilon' must be above 0"):
        noise_scale(0)
