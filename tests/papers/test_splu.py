"""The rerun of SPLU on a small generated table: every figure is made, the order is right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from papers import PAPERS
from papers.coded import People
from papers.splu import figures, methods, two_columns
from papers.splu.figures import Setting
from papers.splu.greedy import GreedyGroups
from papers.splu.methods import Pool
from sfumato.draws import Draws

pytestmark = pytest.mark.slow

SETTING = Setting(conditions=60, queries=30, runs=1, groups=(2, 4))


@pytest.fixture(scope="module")
def people() -> People:
    rng = np.random.default_rng(1)
    rows = 20_003
    sex, age, city = rng.integers(0, 2, rows), rng.integers(0, 50, rows), rng.integers(0, 12, rows)
    related = rng.random(rows) < 0.8
    sensitive = np.where(related, 2 * city + rng.integers(0, 4, rows), rng.integers(0, 24, rows))
    quasi = {"sex": sex, "age": age, "city": city}
    return People(quasi, sensitive % 24, 24)


@pytest.fixture(scope="module")
def pool(people: People) -> Pool:
    return Pool.of(people, SETTING.conditions, SETTING.queries, Draws.from_seed(2))


def test_the_pool_keeps_small_and_large_apart(people: People, pool: Pool) -> None:
    small, large = pool.truth[pool.small], pool.truth[pool.large]
    assert small.min() >= 1
    assert small.max() <= 10
    assert large.min() >= 0.005 * people.rows
    assert large.max() < 0.05 * people.rows


def test_ours_beats_the_baselines_on_large_counts(people: People, pool: Pool) -> None:
    """Five publications' mean error; DBR and Anatomy are biased where columns are related."""
    truth = pool.truth[pool.large]
    errors = {"ours": 0.0, "anatomy": 0.0, "dbr": 0.0}
    for seed in range(5):
        draws = Draws.from_seed(seed)
        found = {
            "ours": methods.exact(pool, people, 4, draws)[0],
            "anatomy": methods.anatomy(pool, people, 4, draws),
            "dbr": methods.resampled(pool, people, draws),
        }
        for name, answers in found.items():
            relative = figures.relative_errors(answers[pool.large], truth)
            errors[name] += float(relative.mean()) / 5
    assert errors["ours"] < errors["anatomy"] < errors["dbr"] * 1.05


def test_withheld_records_are_not_counted(people: People) -> None:
    kept, codes = methods.published(people, 4, Draws.from_seed(1))
    assert len(kept) == len(codes) == people.rows - people.rows % 4


def test_every_figure_is_made(people: People, pool: Pool) -> None:
    tables, series = figures.curves()
    assert [each.name for each in series] == ["Figure 4", "Figure 5"]
    tables, _ = figures.small_counts("Figure 7", people, pool, SETTING)
    assert [row[0] for row in tables[0].rows] == [2, 4]
    tables, _ = figures.large_counts("Figure 8", people, pool, 4, SETTING)
    assert len(tables[0].rows) >= 2
    tables, _ = figures.sizes(people, 4, (10_000, 20_000), SETTING)
    assert [table.name for table in tables] == [
        "Figure 9(a)",
        "Figure 9(a′)",
        "Figure 9(b)",
        "Figure 9(c)",
    ]
    table, observed = two_columns.figure_12(people, (2, 3), 40)
    assert [row[0] for row in table.rows] == [2, 3]
    assert all(states.sum(axis=1).max() <= people.rows for states in observed.values())
    assert figures.iterations(observed).rows
    tables, _ = figures.overhead(people, SETTING)
    assert len(tables[0].rows) == 2


def test_states_of_two_columns_are_all_records() -> None:
    """The eight states of a query add up to the records, by hand for one query."""
    counts = np.array([[[5, 1], [2, 2]], [[3, 0], [1, 2]]])  # everybody; some condition
    states = two_columns._states(counts, np.array([1]), np.array([0]), np.array([1]))
    # condition: neither, interval only, occupation only, both
    assert states[0, 4:].tolist() == [1, 2, 3, 0]
    assert states[0].sum() == 10


def test_laplace_answers_are_noisy_truths() -> None:
    """The mean of 400 |noises| of scale 1/ln 2 is within a fifth of it: four deviations."""
    noise = methods.laplace(np.full(400, 7), math.log(2), Draws.from_seed(1)) - 7
    assert np.abs(noise).mean() == pytest.approx(1 / math.log(2), rel=0.2)


def test_it_is_registered() -> None:
    assert PAPERS["splu"] == "splu"


def test_greedy_groups_take_the_commonest_values() -> None:
    groups = GreedyGroups.plan([3, 3, 2, 1], size=3, draws=Draws.from_seed(1))
    assert sorted(groups.rows[0].tolist()) == [0, 1, 2]
    groups.check()
    with pytest.raises(ValueError, match="more than 1/size"):
        GreedyGroups.plan([4, 1, 1], size=3, draws=Draws.from_seed(1))
