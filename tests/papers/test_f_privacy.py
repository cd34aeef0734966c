"""The rerun of the F'-privacy paper, on a small table: every figure is made, the order is right."""

from __future__ import annotations

import numpy as np
import pytest

from papers import PAPERS
from papers.coded import People
from papers.f_privacy import figures
from papers.f_privacy.figures import Effort, limits_of, scaled
from papers.f_privacy.program import integer_program
from papers.f_privacy.pruning import sequential_two_size
from papers.f_privacy.queries import CountQueries
from sfumato.mechanisms.buckets.settings import loss
from sfumato.mechanisms.buckets.two_size import best_two_size

EFFORT = Effort(2, 2_000, (1_000, 2_000), (2,), 0.1, (8, 32))


@pytest.fixture(scope="module")
def people() -> People:
    rng = np.random.default_rng(1)
    city, age = rng.integers(0, 12, 2000), rng.integers(0, 50, 2000)
    weights = 0.85 ** np.arange(24)
    sensitive = (rng.choice(24, 2000, p=weights / weights.sum()) + city) % 24
    return People({"city": city, "age": age}, sensitive, 24)


def test_it_can_be_asked_for_by_name():
    assert PAPERS["f-privacy"] == "f_privacy"


@pytest.mark.parametrize("prune_by_loss", [False, True])
def test_the_plain_searches_find_the_same_loss(people, prune_by_loss):
    counts = people.counts
    limits = limits_of(counts, 4)
    plain = sequential_two_size(counts, limits, 30, prune_by_loss=prune_by_loss)
    assert loss(plain) == loss(best_two_size(counts, limits, 30))


def test_figures_hold_the_papers_order(people):
    counts = {"OCC": people.counts}
    tables, series = figures.loss_figure(counts, EFFORT)
    for row in tables[0].rows:
        _, _, anatomy, two, many, best, gap, _ = row
        assert anatomy >= two >= many >= best
        assert gap <= 0.02
    assert len(series[0].lines) == 4
    tables, _ = figures.diversity(counts)
    diversities = [row[2] for row in tables[0].rows]
    assert diversities == sorted(diversities, reverse=True)
    tables, _ = figures.error_figure({"OCC": people}, EFFORT)
    assert len(tables[0].rows) == 2
    tables, _ = figures.cardinality_figure(counts, EFFORT)
    assert [row[:2] for row in tables[0].rows] == [("OCC", 1_000), ("OCC", 2_000)]
    tables, _ = figures.values_figure(counts, EFFORT)
    assert tables[0].rows[0][1] == 48


def test_the_program_with_two_sizes_is_the_two_size_search() -> None:
    counts = np.random.default_rng(1).multinomial(300, [1 / 6] * 6)
    limits = limits_of(counts, 4)
    found = integer_program(counts, limits, 12, 20.0, most_sizes=2)
    assert len(found) <= 2
    assert loss(found) == loss(best_two_size(counts, limits, 12))


def test_queries_have_answers(people):
    asked = CountQueries.draw(people, 5, seed=3)
    assert all(true > 0 for true in asked.truths)
    assert scaled(people.counts, 5000).sum() == 5000
