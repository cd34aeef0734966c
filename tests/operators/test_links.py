"""Rules and dealt buckets against enumeration, finite differences and laws that are known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.attacks.links import count_links
from sfumato.operators import Uniform
from sfumato.operators.dealt import Dealt, balance, permanent_shares
from sfumato.operators.links import (
    Design,
    Links,
    RecordLikelihoods,
    ShownSymbols,
    SoftmaxFit,
    fit_links,
    seen_truth,
)
from tests.dealing import dealt_given


def enumerated(chances: np.ndarray, slots: list[int], prior: np.ndarray) -> np.ndarray:
    """Every way to deal the slots to people and, where there are more, to nobody."""
    people = len(chances)
    nobody = np.tile(prior, (len(slots) - people, 1))
    rows = np.vstack([chances, nobody])
    found = np.zeros_like(chances)
    for way in permutations(range(len(slots))):
        weight = np.prod([rows[row, slots[slot]] for row, slot in enumerate(way)])
        for row in range(people):
            found[row, slots[way[row]]] += weight
    return found / found.sum(axis=1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2), st.integers(0, 10_000))
def test_a_small_bucket_is_dealt_as_enumeration_says(people: int, fakes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots = sorted(rng.integers(0, 4, people + fakes).tolist())
    chances = rng.dirichlet(np.full(4, 0.3), people) + 1e-6
    chances /= chances.sum(axis=1, keepdims=True)
    cell, count = np.unique(slots, return_counts=True)
    dealt = Dealt(np.zeros(people, np.int64), np.zeros(len(cell), np.int64), cell, count, 4)
    prior = np.exp(dealt.log_prior)
    rule = Links("made up", np.zeros(4), (np.log(chances),))
    pairs = dealt_given(dealt, rule, [np.arange(people)])
    found = np.zeros((people, 4))
    np.add.at(found, (pairs.record, pairs.value), pairs.chance)
    assert found == pytest.approx(enumerated(chances, slots, prior), abs=1e-6)
    assert dealt.weigh(chances)[1] == pytest.approx(found, abs=1e-6)


def test_permanents_do_not_underflow() -> None:
    weights = np.full((1, 8, 8), np.exp(-80.0))
    weights[:, :, 0] = 1.0  # everybody wants the same place
    ways, shares = permanent_shares(weights)
    assert ways[0] > 0
    assert shares == pytest.approx(np.full((1, 8, 8), 1 / 8))


def test_a_large_bucket_keeps_its_list_and_everybody_has_one_value() -> None:
    rng = np.random.default_rng(3)
    count = np.array([9, 6, 3, 2])
    dealt = Dealt(np.zeros(20, np.int64), np.zeros(4, np.int64), np.arange(4), count, 4)
    rule = Links("made up", np.zeros(4), (rng.normal(size=(20, 4)),))
    pairs = dealt_given(dealt, rule, [np.arange(20)])
    assert np.bincount(pairs.record, pairs.chance) == pytest.approx(np.ones(20))
    assert np.bincount(pairs.value, pairs.chance) == pytest.approx(count, rel=1e-3)
    flat = dealt_given(dealt, Links("none", np.zeros(4), (np.zeros((20, 4)),)), [np.arange(20)])
    assert flat.chance == pytest.approx((count / 20)[flat.value])


def test_scaling_comes_near_the_exact_sum() -> None:
    """A bucket of eight different values, the worst case for scaling: 2 % apart on average, where
    indifference is 9 % away. It claims less than the exact sum, never more."""
    rng = np.random.default_rng(4)
    rule = Links("made up", np.zeros(8), (rng.normal(size=(8, 8)),))
    one = np.ones(8, np.int64)
    dealt = Dealt(np.zeros(8, np.int64), np.zeros(8, np.int64), np.arange(8), one, 8)
    exact = dealt_given(dealt, rule, [np.arange(8)])
    every = np.arange(8)
    logs = rule.pair_scores([every], every[:, None], every[None, :])
    scaled = logs[None].copy()
    balance(scaled, np.ones((1, 8)), 100)
    scaled = scaled.ravel()
    order = np.lexsort((exact.value, exact.record))
    assert np.abs(scaled - exact.chance[order]).mean() < 0.025
    assert np.abs(1 / 8 - exact.chance).mean() > 0.085
    assert scaled.max() <= exact.chance.max()


@pytest.mark.parametrize("kind", ["shown", "small buckets", "large buckets"])
def test_the_gradient_is_that_of_the_likelihood(kind: str) -> None:
    """Central differences in double precision, through the chance of a single value."""
    rng = np.random.default_rng(5)
    evidence: RecordLikelihoods
    if kind == "shown":
        evidence = ShownSymbols(rng.integers(0, 3, 24), rng.dirichlet(np.ones(3), 3).T)
    else:
        size = 4 if kind == "small buckets" else 12
        slots = np.repeat(np.arange(24 // size), size) * 3 + rng.integers(0, 3, 24)
        cells, count = np.unique(slots, return_counts=True)
        evidence = Dealt(np.arange(24) // size, cells // 3, cells % 3, count, 3)
    logs = np.log(rng.dirichlet(np.ones(3) * 5, 24))
    given = evidence.weigh(np.exp(logs))[1]
    for record, value in [(0, 0), (7, 2), (23, 1)]:
        moved = np.zeros_like(logs)
        moved[record, value] = 1e-4
        up, down = (evidence.weigh(np.exp(logs + sign * moved))[0] for sign in (1, -1))
        assert (up - down) / 2e-4 == pytest.approx(given[record, value], abs=2e-3)


def law(rng: np.random.Generator, rows: int) -> tuple[list[np.ndarray], Links, np.ndarray]:
    codes = [rng.integers(0, 6, rows), rng.integers(0, 4, rows)]
    true = Links("true", np.log([0.4, 0.3, 0.2, 0.1]), (rng.normal(size=(6, 4)), np.eye(4)))
    chances = np.exp(true.log_chances(codes))
    truth = (chances.cumsum(axis=1) < rng.random(rows)[:, None]).sum(axis=1)
    return codes, true, truth


@pytest.mark.parametrize("seen", ["truth", "uniform", "buckets"])
def test_a_law_is_found_again_through_what_is_shown(seen: str) -> None:
    """Mean distance of chances from the true law, 6,000 records; not learning would leave 0.18."""
    rng = np.random.default_rng(6)
    codes, true, truth = law(rng, 6000)
    evidence: RecordLikelihoods = seen_truth(truth, 4)
    if seen == "uniform":
        operator = Uniform(4, 1 / 2)
        keep = rng.random(6000) < 1 / 2
        shown = np.where(keep, truth, rng.integers(0, 4, 6000))
        evidence = ShownSymbols(shown, operator.matrix().T)
    elif seen == "buckets":
        cells, count = np.unique(np.arange(6000) // 4 * 4 + truth, return_counts=True)
        evidence = Dealt(np.arange(6000) // 4, cells // 4, cells % 4, count, 4)
    prior = np.bincount(truth, minlength=4) / 6000
    design = Design.of(codes, [6, 4], {})
    found = fit_links(design, evidence, prior, lambda n, k: rng.permutation(n)[:k])
    apart = np.abs(np.exp(found.log_chances(codes)) - np.exp(true.log_chances(codes))).mean()
    assert apart < {"truth": 0.012, "uniform": 0.04, "buckets": 0.025}[seen]
    assert np.abs(prior - np.exp(true.log_chances(codes))).mean() > 0.12


def test_bins_are_folded_into_the_columns_tables() -> None:
    rng = np.random.default_rng(7)
    codes, bins = [rng.integers(0, 12, 50)], {0: np.arange(12) // 4}
    design = Design.of(codes, [12], bins)
    slopes = rng.normal(size=(15, 3))
    (table,) = design.tables(slopes)
    assert table[codes[0]] == pytest.approx(design.matrix @ slopes, abs=1e-5)


def test_climbing_ends_where_no_step_helps() -> None:
    rng = np.random.default_rng(8)
    codes, _, truth = law(rng, 800)
    fit = SoftmaxFit.of(Design.of(codes, [6, 4], {}), seen_truth(truth, 4), np.arange(800))
    start = np.zeros(4)
    best = fit.climb(start, np.zeros((10, 4)), 1.0)

    def worth(slopes: np.ndarray) -> float:
        return fit.likelihood(start, slopes) - 0.5 * float((slopes**2).sum())

    for _ in range(20):
        assert worth(best + 0.1 * rng.normal(size=best.shape)) < worth(best)


def test_naive_bayes_multiplies_counted_shares() -> None:
    sex, old, ill = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    rule = count_links([sex, old], [2, 2], ill, 2, alpha=0.5)
    by_hand = np.array([0.5 * 2.5 / 3 * 0.5, 0.5 * 0.5 / 3 * 0.5])
    found = np.exp(rule.log_chances([np.array([0]), np.array([0])]))[0]
    assert found == pytest.approx(by_hand / by_hand.sum())
