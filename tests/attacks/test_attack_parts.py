"""The parts of attacks: intervals, ties, halves, and what the command line says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.attacks import ATTACKS, attack
from sfumato.attacks.intervals import wilson
from sfumato.attacks.people import Domains, People, other_halves, pick
from sfumato.attacks.protocol import Knowledge
from sfumato.attacks.readers import DeFinetti
from sfumato.attacks.views import BucketsView
from sfumato.draws import Draws
from sfumato.errors import UsageError
from tests.dealing import dealt_given


def test_wilson_interval() -> None:
    found = wilson(50, 100)
    assert (found.low, found.high) == (
        pytest.approx(0.40383, abs=1e-5),
        pytest.approx(0.59617, abs=1e-5),
    )
    assert (wilson(0, 5).low, wilson(5, 5).high) == (0.0, 1.0)
    assert 0.5 in wilson(0, 0)


def test_ties_go_to_the_commoner_value_then_to_a_draw() -> None:
    draws = Draws.from_seed(3)
    scores = np.zeros((2000, 3))
    assert set(pick(scores, np.array([0.2, 0.6, 0.2]), draws, "t")) == {1}
    drawn = np.bincount(pick(scores, np.full(3, 1 / 3), draws, "t"), minlength=3)
    assert drawn.min() > 550  # of 667 expected: five standard errors
    impossible = np.full((4, 3), -np.inf)
    assert set(pick(impossible, np.array([0.2, 0.2, 0.6]), draws, "t")) == {2}


def test_fresh_tables_know_nobody_of_their_half() -> None:
    rng = np.random.default_rng(5)
    truth = np.concatenate([rng.integers(0, 4, 500), [4]])
    domains = Domains(("a",), (pa.array(np.arange(501)),))
    people = People(np.arange(501), domains, [np.arange(501)], "s", 5, truth)
    half, tables = other_halves(people, Draws.from_seed(1))
    for side, rows in enumerate(tables):
        assert np.bincount(truth[rows]).tolist() == np.bincount(truth).tolist()
        inside = set(np.flatnonzero(half == side)) & set(rows.tolist())
        assert inside <= {500}  # alone with its value


def test_definetti_learns_from_lists_alone() -> None:
    """Smokers have one of two diseases, others one of two others; two random people a bucket.

    Buckets of two smokers tell the diseases of smokers, and those tell mixed buckets apart: random
    worlds would be right for half of the people, the truth allows three quarters.
    """
    rng = np.random.default_rng(1)
    rows = 2000
    smoker = rng.integers(0, 2, rows)
    truth = smoker * 2 + rng.integers(0, 2, rows)
    bucket = np.arange(rows) // 2
    pairs, counts = np.unique(bucket * 4 + truth, return_counts=True)
    view = BucketsView([smoker], bucket, pairs // 4, pairs % 4, counts, 4)
    people = People(
        np.arange(rows), Domains(("smoker",), (pa.array([0, 1]),)), [smoker], "s", 4, truth
    )
    rule = DeFinetti(50).rule(Knowledge(view, people), Draws.from_seed(1))
    model = dealt_given(view.dealt, rule, view.codes)
    mixed = (smoker[0::2] != smoker[1::2])[bucket[model.record]]
    right = model.chance[(model.value == truth[model.record]) & mixed]
    assert right.mean() > 0.95


@pytest.fixture
def release(people: Any, tmp_path: Path) -> tuple[Path, Path]:
    table = people(800, 3)
    pq.write_table(table, tmp_path / "t.parquet")
    sf.publish(
        sf.read(table, quasi="age,sex,region", sensitive="disease"),
        "l-diversity(3)",
        to=tmp_path / "r",
        mechanism="optimal(objective=two-size)",
    )
    return tmp_path / "t.parquet", tmp_path / "r"


def test_command_line(cli: Any, release: tuple[Path, Path]) -> None:
    ran = cli("attack", *release, "--attack", "all", "--targets", "300", "--json")
    assert ran.code == 0, ran.err
    names = [outcome["attack"] for outcome in ran.json["outcomes"]]
    assert sorted(names) == [
        "corruption",
        "definetti",
        "linkage",
        "linked",
        "naive-bayes",
        "naive-bayes(alpha=0)",
        "negative-association",
        "own-record",
    ]
    for outcome in ran.json["outcomes"]:
        assert outcome["targets"] == 300
        assert outcome["over_fresh"]["low"] <= outcome["over_fresh"]["high"]
        assert all("values" not in person for person in outcome["exposed"])
    again = cli("attack", *release, "--attack", "all", "--targets", "300", "--json")
    assert again.out == ran.out
    few = ("--attack", "linkage", "--attack", "definetti", "--targets", "50", "--no-fresh")
    assert len(cli("attack", *release, *few).out.splitlines()) == 4  # the verdict, and how many
    assert "highest ceiling promised" in cli("attack", *release, *few, "--verbose").out


def test_values_are_shown_only_when_asked(cli: Any, release: tuple[Path, Path]) -> None:
    plain = cli("attack", *release, "--attack", "linkage", "--no-fresh")
    assert "region" not in plain.out
    shown = cli("attack", *release, "--attack", "linkage", "--no-fresh", "--show")
    assert "region = " in shown.out
    listed = cli("attack", *release, "--attack", "linkage", "--no-fresh", "--show", "--json")
    person = listed.json["outcomes"][0]["exposed"][0]
    row = pq.read_table(release[0]).slice(person["row"], 1).to_pylist()[0]
    assert person["values"] == row


def test_wrong_attacks_are_refused(cli: Any, release: tuple[Path, Path]) -> None:
    refused = cli("attack", *release, "--attack", "telepathy")
    assert refused.code == 2
    assert all(name in refused.err for name in ATTACKS)
    assert cli("attack", *release, "--column", "age").code == 2
    assert "leave out --quasi" in cli("attack", *release, "--quasi", "age").err
    assert cli("attack", *release, "--targets", "0").code == 2


def test_an_attack_must_fit_the_release(people: Any, tmp_path: Path) -> None:
    table = people(500)
    declared = sf.read(table, quasi="age,sex,region", sensitive="disease")
    sf.publish(declared, "rho-privacy(1/4, 1/2)", to=tmp_path / "r", mechanism="uniform")
    with pytest.raises(UsageError, match="does not apply to a perturbed release"):
        attack(table, tmp_path / "r", attacks="definetti")
    with pytest.raises(UsageError, match="declare its columns"):
        attack(table, None)
