"""Several sensitive columns: what they tell together is computed, said, and promised on request."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.together import told_together
from sfumato.errors import UsageError
from sfumato.release import Release

PROMISE = "rho-privacy(0.35, 0.6)"
ROLES = {"quasi": "", "sensitive": "job,school"}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """School tells the job in nine of ten cases."""
    rng = np.random.default_rng(7)
    job = rng.integers(0, 4, 2000)
    school = np.where(rng.random(2000) < 0.9, job, rng.integers(0, 4, 2000))
    return pa.table({"job": np.array(list("abcd"))[job], "school": np.array(list("wxyz"))[school]})


def by_hand(
    counts: np.ndarray, matrices: list[np.ndarray], column: int, ceilings: np.ndarray
) -> tuple[np.ndarray, float]:
    """Every combination of true values and of shown ones, one after the other."""
    largest, beyond = np.zeros(counts.shape[column]), 0.0
    cells = list(itertools.product(*(range(size) for size in counts.shape)))
    for shown in cells:
        weight = np.zeros(counts.shape[column])
        for true in cells:
            factors = [m[x, y] for m, x, y in zip(matrices, true, shown, strict=True)]
            weight[true[column]] += counts[true] * math.prod(factors)
        chance = weight / weight.sum()
        largest = np.maximum(largest, chance)
        beyond += weight.sum() * bool((chance > ceilings + 1e-9).any())
    return largest, beyond / counts.sum()


@pytest.mark.parametrize("seed", range(6))
def test_told_together_is_what_bayes_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (3, 2, 4)[: 2 + seed % 2]
    counts = rng.integers(0, 9, sizes).astype(float) + 1
    matrices = [rng.random((m, m)) + 0.1 for m in sizes]
    matrices = [m / m.sum(axis=1, keepdims=True) for m in matrices]
    for column, size in enumerate(sizes):
        ceilings = rng.random(size)
        largest, beyond = told_together(counts, matrices, column, ceilings)
        by_hand_largest, by_hand_beyond = by_hand(counts, matrices, column, ceilings)
        assert largest == pytest.approx(by_hand_largest)
        assert beyond == pytest.approx(by_hand_beyond)


def test_the_steward_hears_of_columns_that_tell_too_much_together(
    people: pa.Table, tmp_path: Path
) -> None:
    done = sf.publish(people, PROMISE, mechanism="uniform", to=tmp_path / "r", **ROLES)
    assert any("goes beyond such a limit" in note for note in done.notes)
    assert sf.audit(people, tmp_path / "r").holds  # each column by itself


def test_what_the_release_says_of_several_columns_follows_from_no_count(
    people: pa.Table, tmp_path: Path
) -> None:
    """Whether columns together tell too much can turn on one person: nothing public says it."""
    apart = pa.table({"job": list("abcd") * 400, "school": np.repeat(list("wxyz"), 400)})
    said = []
    for number, table in enumerate((people, apart)):
        done = sf.publish(table, PROMISE, mechanism="uniform", to=tmp_path / f"{number}", **ROLES)
        said.append((done.manifest.statement, done.manifest.caveats, done.manifest.plan))
        assert "together they may tell more" in " ".join(done.manifest.caveats)
    assert said[0] == said[1]


def test_a_joint_promise_holds_together(people: pa.Table, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt"
    done = sf.publish(
        people, PROMISE, mechanism="uniform", to=tmp_path / "r", joint=True, receipt=receipt,
        **ROLES,
    )  # fmt: skip
    operators = Release(tmp_path / "r").operators.values()
    gamma = 0.6 * 0.65 / (0.35 * 0.4)
    assert math.prod(float(o.amplification()) for o in operators) == pytest.approx(gamma, rel=1e-6)
    assert "tell together." in " ".join(done.manifest.statement)
    assert Release(tmp_path / "r").manifest.joint
    verdict = sf.audit(people, tmp_path / "r")
    assert verdict.holds
    told = verdict.text(verbose=True)
    assert "all columns of a person together" in told
    assert "goes beyond" not in told
    assert sf.audit(people, tmp_path / "r", receipt=receipt).holds


def test_a_release_that_claims_to_hold_together_is_found_out(
    people: pa.Table, tmp_path: Path
) -> None:
    """Operators for one column each, and a manifest that says joint."""
    sf.publish(people, PROMISE, mechanism="uniform", to=tmp_path / "r", **ROLES)
    place = tmp_path / "r" / "manifest.json"
    place.write_text(place.read_text().replace('"plan":', '"joint": true,\n  "plan":', 1))
    found = sf.audit(people, tmp_path / "r")
    assert "amplification" in {f.check.name for f in found.findings if f.holds is False}


def test_what_cannot_hold_together_is_refused(people: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kept for each sensitive column by itself"):
        sf.publish(people, "small-sum(2)", to=tmp_path / "r", joint=True, **ROLES)
    assert not (tmp_path / "r").exists()
