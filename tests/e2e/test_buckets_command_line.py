"""The whole round with buckets, as a steward and an analyst type it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "age": rng.integers(20, 70, 800),
            "disease": np.array(list("abcdefgh"))[rng.integers(0, 8, 800)],
        }
    )
    pq.write_table(table, tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def test_publish_ask_and_audit(cli, people, tmp_path):
    roles = ("--quasi", "age", "--sensitive", "disease")
    out = tmp_path / "release"
    made = cli(
        "publish",
        people,
        *roles,
        "--guarantee",
        "l-diversity(3)",
        "--mechanism",
        "optimal(fakes=1)",
        "--out",
        out,
        "--json",
    )
    assert made.code == 0, made.err
    assert made.json["mechanism"] == "optimal(fakes=1)"
    assert made.json["kind"] == "bucketed"
    sql = "SELECT disease, COUNT(*) AS n FROM release WHERE age < 40 GROUP BY disease"
    for estimator in ("shrunk", "inverse"):
        answer = cli("query", out, sql, "--estimator", estimator, "--json")
        assert answer.code == 0, answer.err
        assert len(answer.json["rows"]) == 8
    verdict = cli("audit", people, out, "--json")
    assert verdict.code == 0
    assert any(f["check"] == "posterior" for f in verdict.json["findings"])


def test_a_promise_that_cannot_be_kept_has_exit_code_3(cli, people, tmp_path):
    roles = ("--quasi", "age", "--sensitive", "disease")
    made = cli(
        "publish",
        people,
        *roles,
        "--guarantee",
        "beta-likeness(0.5)",
        "--mechanism",
        "optimal(max_size=3)",
        "--out",
        tmp_path / "release",
    )
    assert made.code == 3
    assert "smallest maximum size that would do" in made.err
    assert not (tmp_path / "release").exists()
