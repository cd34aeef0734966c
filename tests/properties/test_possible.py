"""No answer outside what is possible: random releases of every kind, and random questions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

WAYS = {
    "uniform": "rho-privacy(0.3, 0.6)",
    "fine-grain": "fine-rho-privacy(theta=3)",
    "splu": "small-sum(3)",
    "optimal": "l-diversity(3)",
    "local(min=200)": "l-diversity(3)",
}


def people(seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(300, 900))
    age, sex = draw.integers(20, 70, rows), draw.choice(["F", "M"], rows)
    code = (draw.integers(0, 8, rows) + (age > 45) * draw.integers(0, 3, rows)) % 8
    return pa.table({"age": age, "sex": sex, "ill": [f"v{each}" for each in code]})


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mechanism", WAYS)
def test_answers_are_possible(mechanism: str, seed: int, tmp_path: Path) -> None:
    sf.publish(
        people(seed), WAYS[mechanism], to=tmp_path / "r", mechanism=mechanism, quasi=["age", "sex"],
        sensitive="ill", seed=seed,
    )  # fmt: skip
    release, draw = sf.open(tmp_path / "r"), np.random.default_rng(seed + 100)
    for _ in range(4):
        low = int(draw.integers(20, 65))
        high = low + int(draw.integers(1, 25))
        where = f"age BETWEEN {low} AND {high}"
        whole = release.sql(f"SELECT COUNT(*) FROM release WHERE {where}").value
        if not whole:
            continue
        rows = release.sql(
            f"SELECT ill, COUNT(*) AS n, AVG(age) AS a FROM release WHERE {where} GROUP BY ill"
        ).rows()
        assert sum(row["n"] for row in rows) == pytest.approx(whole)
        for row in rows:
            assert 0 <= row["n_low"] <= row["n"] <= row["n_high"] <= whole
            if row["a"] is not None and row["n"] > 0:
                assert row["a_low"] <= row["a"] <= row["a_high"]
        share = release.sql(
            "SELECT COUNT(*) FILTER (WHERE ill = 'v1') / COUNT(*) AS s, "
            "COUNT(*) FILTER (WHERE ill = 'v1') / COUNT(*) FILTER (WHERE ill IN ('v1', 'v2')) AS q "
            f"FROM release WHERE {where}"
        ).rows()[0]
        for name in ("s", "q"):
            if share[name] is not None:
                ends = (share[f"{name}_low"], share[name], share[f"{name}_high"])
                assert 0 <= ends[0] <= ends[1] <= ends[2] <= 1
