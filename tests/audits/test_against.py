"""How far releases of other kinds hide small sums: told by the audit, and true."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.draws import Draws, Positions
from sfumato.errors import UsageError
from sfumato.guarantees.small_sum_tails import small_sum_privacy, wrong_sum
from sfumato.operators import Decoy, Uniform

KINDS = {
    "optimal": "l-diversity(3)",
    "heterogeneous": "l-diversity(3)",
    "splu": "small-sum(3)",
    "resample": "small-sum(3)",
    "uniform": "rho-privacy(0.2, 0.5)",
}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({"age": rng.integers(0, 60, 400), "ill": rng.choice(list("abcdefgh"), 400)})


def told(people: pa.Table, kind: str, folder: Path) -> Any:
    sf.publish(people, KINDS[kind], to=folder / kind, mechanism=kind, quasi="age", sensitive="ill")
    verdict = sf.audit(people, folder / kind, against="small-sum(5)")
    (found,) = [each for each in verdict.findings if each.check.name == "small-sums"]
    assert found.result.value == "told"
    assert verdict.holds is not False
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_told(kind: str, people: pa.Table, tmp_path: Path) -> None:
    found = told(people, kind, tmp_path)
    asked = float(small_sum_privacy(5, Fraction(3, 10), 3))
    assert f"asks for {asked:.4g}" in found.witness
    kept = found.value >= asked
    assert found.witness.endswith(": kept" if kept else ": not kept")
    own = float(small_sum_privacy(3, Fraction(3, 10), 3))
    exact = {"optimal": 0.0, "heterogeneous": 0.0, "splu": own}
    if kind in exact:
        assert found.value == pytest.approx(exact[kind])
    else:
        assert kept


def test_the_chance_of_uniform_perturbation_is_that_of_its_draws() -> None:
    """4,000 releases of 40 records: five standard errors are below 0.04."""
    operator = Uniform(4, Fraction(1, 2))
    counts = np.array([3, 12, 15, 10])
    codes = np.tile(np.repeat(np.arange(4), counts), 4000)
    shown = operator.apply(codes, "draws", Positions(0, len(codes)), Draws.from_seed(1))
    observed = (shown.reshape(4000, 40) == 0).sum(axis=1)
    off = np.abs((observed - 40 / 8) / 0.5 - 3) >= 0.9
    chance = operator.wrong_sum(0, counts, Fraction(3, 10))
    assert off.mean() == pytest.approx(chance, abs=0.04)
    assert Uniform(4, Fraction(0)).wrong_sum(0, counts, Fraction(3, 10)) == 1.0


def test_the_chance_of_decoys_is_the_exact_one() -> None:
    for count in (1, 2, 3, 7):
        chance = Decoy(4, 3).wrong_sum(0, np.array([count, 9, 9, 9]), Fraction(3, 10))
        assert chance == pytest.approx(float(wrong_sum(count, 3, Fraction(3, 10))))


def test_other_promises_are_refused_in_a_sentence(people: pa.Table, tmp_path: Path) -> None:
    sf.publish(people, "l-diversity(3)", to=tmp_path / "r", quasi="age", sensitive="ill")
    with pytest.raises(UsageError, match="held against small-sum"):
        sf.audit(people, tmp_path / "r", against="l-diversity(2)")
