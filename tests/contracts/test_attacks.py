"""Every mechanism against every attack that applies to it: the same shape, repeatable, honest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attacks import ATTACKS, attack, attacks_for, parse_attack
from sfumato.engines.publishing import publish
from sfumato.guarantees import GUARANTEES, parse_guarantee
from sfumato.mechanisms import MECHANISMS, parse_mechanism
from sfumato.release import KINDS
from sfumato.table import read

PROMISES = (
    "rho-privacy(1/4, 1/2)",
    "fine-rho-privacy(theta=2)",
    "small-sum(groups=2)",
    "l-diversity(2)",
    "beta-likeness(2)",
    "f-privacy(theta=2)",
    "reconstruction-privacy(0.3, 0.3)",
)


def make_table() -> pa.Table:
    rng = np.random.default_rng(2)
    sex = rng.integers(0, 2, 600)
    return pa.table(
        {
            "age": pa.array(rng.integers(20, 30, 600)),
            "sex": pa.array(np.array(["F", "M"])[sex]),
            "disease": pa.array(rng.integers(0, 3, 600) + 3 * sex),
        }
    )


TABLE = make_table()


def promise_for(mechanism: str) -> str | None:
    for text in PROMISES:
        known = text.partition("(")[0] in GUARANTEES
        if known and parse_mechanism(mechanism).keeps(parse_guarantee(text)):
            return text
    return None


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_every_attack_on_every_mechanism(mechanism: str, tmp_path: Path) -> None:
    promise = promise_for(mechanism)
    assert promise is not None, "no promise is known that this mechanism keeps: add one above"
    declared = read(TABLE, quasi=["age", "sex"], sensitive="disease")
    made = publish(declared, promise, to=tmp_path / "r", mechanism=mechanism)
    outcomes = attack(TABLE, tmp_path / "r", targets=200, seed=1)
    ways = attacks_for(KINDS[made.manifest.kind])
    assert sorted(outcome.attack for outcome in outcomes) == sorted(str(way) for way in ways)
    reached = [outcome.success.value for outcome in outcomes]
    assert reached == sorted(reached, reverse=True), "the best attack comes first"
    assert ways
    for outcome in outcomes:
        assert outcome.targets == 200
        assert 0 <= outcome.success.low <= outcome.success.value <= outcome.success.high <= 1
        assert outcome.over_prior.value == pytest.approx(outcome.success.value - outcome.prior)
        assert outcome.over_fresh is not None, outcome.note
        assert outcome.fresh is not None
        difference = outcome.success.value - outcome.fresh.value
        assert outcome.over_fresh.value == pytest.approx(difference)
        assert outcome.advantage in (outcome.over_prior, outcome.over_fresh)
        assert all(0 <= each.row < TABLE.num_rows for each in outcome.exposed)
        assert all(0 <= each.confidence <= 1 + 1e-9 for each in outcome.exposed)
        json.dumps(outcome.to_json(), allow_nan=False)
        assert outcome.attack in str(outcome)
    again = attack(TABLE, tmp_path / "r", attacks=ways[0], targets=200, seed=1)
    (before,) = [outcome for outcome in outcomes if outcome.attack == str(ways[0])]
    assert again[0].to_json() == before.to_json()


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_text_forms_round_trip(name: str) -> None:
    for way in ATTACKS[name].forms():
        assert parse_attack(str(way)) == way
        assert way.kinds
        assert way.__doc__
