"""No answer is outside what is possible, whatever the table, the release and the question."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

RELEASES = {
    "uniform": "rho-privacy(0.4, 0.6)",
    "fine-grain": "fine-rho-privacy(theta=2)",
    "partitioned": "rho-privacy(0.4, 0.6)",
    "splu": "small-sum(2)",
    "optimal": "l-diversity(2)",
    "local(min=60)": "l-diversity(2)",
    "sps(merge=none)": "reconstruction-privacy(0.3, 0.3)",
    "heterogeneous": "l-diversity(2)",
    "burel": "beta-likeness(1)",
}
CONDITIONS = ("age >= 0", "age < 30", "sex = 'F'", "age BETWEEN 25 AND 44 AND sex = 'M'")
ROUNDING = 1e-6


def people(seed: int) -> pa.Table:
    """Some hundred people, whose illness goes more or less with age and sex."""
    draw = np.random.default_rng(seed)
    rows, values = int(draw.integers(120, 400)), int(draw.integers(4, 8))
    age, sex = draw.integers(20, 60, rows), draw.choice(["F", "M"], rows)
    shares = draw.dirichlet(np.full(values, 5.0))
    tilt = np.exp(draw.normal(0, draw.uniform(0, 2), (2, values)))
    chances = shares * np.where((age < 35)[:, None], tilt[0], tilt[1])
    chances = np.clip(chances / chances.sum(axis=1, keepdims=True), 0.02, 0.3)
    ill = [draw.choice(values, p=each / each.sum()) for each in chances]
    return pa.table({"age": age, "sex": sex, "ill": [f"i{value}" for value in ill]})


@pytest.mark.parametrize("mechanism", RELEASES)
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), condition=st.sampled_from(CONDITIONS))
def test_answers_are_possible(mechanism: str, seed: int, condition: str) -> None:
    table = people(seed)
    ranges = mechanism in ("heterogeneous", "burel")
    with tempfile.TemporaryDirectory() as folder:
        try:
            sf.publish(table, RELEASES[mechanism], to=Path(folder, "r"), mechanism=mechanism,
                       quasi=["age", "sex"], sensitive="ill", seed=seed)  # fmt: skip
        except sf.InfeasibleGuarantee:
            return
        release = sf.open(Path(folder, "r"))
        average = "" if ranges else ", AVG(age) AS a"
        sql = f"SELECT ill, COUNT(*) AS n{average} FROM release WHERE {condition} GROUP BY ill"
        rows = release.sql(sql).rows()
        (whole,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {condition}").rows()
        share = "COUNT(*) FILTER (WHERE ill = 'i1') / COUNT(*)"
        (part,) = release.sql(f"SELECT {share} AS a FROM release WHERE {condition}").rows()
    totals = {each["values"]: each["counts"] for each in table["ill"].value_counts().to_pylist()}
    known = mechanism in ("optimal", "local(min=60)") or ranges  # shows how many have a value
    for row in rows:
        most = min(whole["n_high"], totals[row["ill"]] if known else np.inf) + ROUNDING
        assert 0 <= row["n_low"] <= row["n"] + ROUNDING <= row["n_high"] + 2 * ROUNDING
        assert row["n_high"] <= most
        if not ranges and row["a"] is not None:
            assert 20 <= row["a_low"] <= row["a"] <= row["a_high"] < 60
    if not ranges:
        assert sum(row["n"] for row in rows) == pytest.approx(whole["n"], abs=1e-4)
    if part["a"] is not None:
        assert 0 <= part["a_low"] <= part["a"] <= part["a_high"] <= 1
