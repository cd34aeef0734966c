"""The reader who knows the raw table's links: what a release adds, and what an audit tells."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.attacks import attack, parse_attack
from sfumato.attacks.links import count_links, foreseen, know_links
from sfumato.attacks.people import Domains, People
from sfumato.attacks.protocol import Knowledge
from sfumato.attacks.views import BucketsView
from sfumato.draws import Draws
from tests.dealing import dealt_given


def linked_table(rows: int, seed: int) -> pa.Table:
    """Three groups, each with two diseases of its own, most of the time; ages single people out."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    own = group * 2 + rng.integers(0, 2, rows)
    disease = np.where(rng.random(rows) < 0.8, own, rng.integers(0, 6, rows))
    return pa.table(
        {
            "group": pa.array(np.array(["a", "b", "c"])[group]),
            "code": pa.array(rng.permutation(rows)),
            "disease": pa.array(np.array(list("uvwxyz"))[disease]),
        }
    )


def test_the_release_adds_to_links_what_its_buckets_tell(tmp_path: Path) -> None:
    table = linked_table(1500, 1)
    declared = sf.read(table, quasi="group,code", sensitive="disease")
    sf.publish(
        declared, "l-diversity(3)", to=tmp_path / "r", mechanism="optimal(objective=two-size)"
    )
    (found,) = attack(table, tmp_path / "r", attacks="linked", thorough=True)
    # by the groups alone one of two likely diseases is named: 0.43; buckets of three tell more
    assert found.fresh is not None
    assert found.fresh.value == pytest.approx(0.43, abs=0.05)
    assert found.success.value > found.fresh.value + 0.1
    assert "by the links alone, without a release" in found.besides
    assert found.singled_out == found.success  # everybody is alone with their code
    assert found.figures["share with a posterior above 80 %"] > 0.1
    assert found.to_json()["besides"]


def test_the_belief_is_the_enumerated_one() -> None:
    """Two buckets of three: all ways to deal, by hand, with naive Bayes of the raw table."""
    truth, sex = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 1, 1, 0, 0, 1])
    domains = Domains(("sex", "id"), (pa.array([0, 1]), pa.array(np.arange(6))))
    people = People(np.arange(6), domains, [sex, np.arange(6)], "s", 3, truth)
    bucket = np.arange(6) // 3
    view = BucketsView(
        people.codes, bucket, np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), np.ones(6, np.int64), 3
    )
    rule = count_links(people.codes, domains.sizes, truth, 3)
    pairs = dealt_given(view.dealt, rule, people.codes)
    chances = np.exp(rule.log_chances(people.codes))
    for first in (0, 3):
        weights = {
            way: np.prod([chances[first + k, value] for k, value in enumerate(way)])
            for way in permutations(range(3))
        }
        total = sum(weights.values())
        for k in range(3):
            for value in range(3):
                wanted = sum(w for way, w in weights.items() if way[k] == value) / total
                hit = (pairs.record == first + k) & (pairs.value == value)
                assert pairs.chance[hit].sum() == pytest.approx(wanted)
    knowledge = Knowledge(view, people, (False, False))
    guesses = parse_attack("linked").guess(knowledge, people, Draws.from_seed(1))
    assert guesses.values.shape == (6,)


@pytest.mark.parametrize("stronger", ["softmax", "naive Bayes"])
def test_the_stronger_rule_is_taken(stronger: str) -> None:
    """Eight copies of a column make naive Bayes boast; few people with twenty columns that are
    independent given the value are its home ground."""
    rng = np.random.default_rng(4)
    rows = 1200 if stronger == "softmax" else 120
    truth = rng.integers(0, 4, rows)
    if stronger == "softmax":
        codes = [np.where(rng.random(rows) < 0.5, truth, rng.integers(0, 4, rows))] * 8
    else:
        keeps = rng.random((20, rows)) < 0.3
        codes = list(np.where(keeps, truth, rng.integers(0, 4, (20, rows))))
    sizes = [5] * len(codes)
    rule = know_links(codes, sizes, {}, truth, 4, lambda n, k: rng.permutation(n)[:k])
    assert rule.name == stronger
    assert foreseen(rule, codes, truth, np.arange(rows)) > rows * np.log(1 / 4)


def test_larger_buckets_are_labelled_an_approximation(tmp_path: Path) -> None:
    table = linked_table(1500, 5).drop_columns(["code"])
    declared = sf.read(table, quasi="group", sensitive="disease")
    sf.publish(
        declared, "beta-likeness(0.1)", to=tmp_path / "r", mechanism="optimal(objective=two-size)"
    )
    (found,) = attack(table, tmp_path / "r", attacks="linked", fresh=False, thorough=True)
    assert any("approximation" in figure for figure in found.figures)
