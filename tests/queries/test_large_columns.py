"""Sensitive columns of very many values: O(m) rows of weights give what m² rows give."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from papers.perturbation.general import DenseInverse
from sfumato.operators import FineGrain, Operator, Uniform
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Estimator, Moments
from sfumato.operators.weighing import Composition, DenseWeights
from sfumato.queries import OpenedRelease, ask, open_release
from sfumato.queries.perturbed_source import PerturbedSource

from .conftest import MakeRelease

QUESTIONS = (
    "SELECT disease, COUNT(*) FROM release GROUP BY disease",
    "SELECT COUNT(*), COUNT(*) FILTER (WHERE disease = 'd1'), COUNT(age) FROM release",
    "SELECT age // 20 AS a, COUNT(*), AVG(score) FROM release WHERE disease < 'd3' GROUP BY a",
    "SELECT sex, disease, SUM(age), COUNT(*) FROM release WHERE age > 40 GROUP BY 1, 2",
    "SELECT COUNT(*), SUM(score) FROM release WHERE age > 60 OR disease IN ('d1', 'd4')",
    "SELECT substring(disease, 2) AS k, AVG(age) FILTER (WHERE sex = 'F') FROM release GROUP BY k",
    "SELECT CASE WHEN disease > 'd2' THEN age > 50 END AS k, COUNT(*) FROM release GROUP BY k",
    "SELECT SUM(CASE WHEN disease = 'd2' THEN age ELSE score END), AVG(length(disease)) "
    "FROM release",
    "SELECT disease IS NULL AS k, COUNT(disease), SUM(age * length(disease)) FROM release "
    "GROUP BY k",
    "SELECT COUNT(*) FROM release WHERE disease = 'd1' AND age > 1000",
    "SELECT sex, COUNT(*) FROM release WHERE disease LIKE 'nobody' GROUP BY sex",
    "SELECT disease, COUNT(*) FROM release WHERE age > 1000 GROUP BY disease",
    "SELECT disease, COUNT(*) FROM release GROUP BY disease HAVING count_low > 5 ORDER BY count",
)


def people(rows: int = 900) -> pa.Table:
    rng = np.random.default_rng(12)
    disease = [None if i == 6 else f"d{i}" for i in rng.integers(0, 8, rows)]
    return pa.table(
        {
            "age": pa.array(rng.integers(20, 90, rows), mask=rng.random(rows) < 0.05),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "score": rng.integers(-8, 9, rows) / 4,
            "disease": disease,
        }
    )


@pytest.mark.parametrize(
    "operator",
    [
        Uniform(8, Fraction(1, 3)),
        pytest.param(Uniform(8, Fraction(1)), marks=pytest.mark.slow),
        FineGrain.of([Fraction(n, 9) for n in range(1, 9)]),
    ],
)
def test_both_ways_agree(
    make_release: MakeRelease, monkeypatch: pytest.MonkeyPatch, operator: Operator
) -> None:
    """The structure of the inverse in O(m) against its m² weights, in every question."""
    structured = make_release(people(), ["disease"], {"disease": operator})
    written = open_release(structured.path)

    def joint(self: PerturbedSource, columns: Sequence[str], name: str) -> Estimator:
        operators = [self.operator(column) for column in columns]
        eyes = [operator.inverse().weigh(np.eye(operator.domain_size)).T for operator in operators]
        inverses = [DenseInverse(eye) for eye in eyes]
        wholes = [
            Composition.of(inverse, *self._shown_counts([name], inverse.values))
            for name, inverse in zip(columns, inverses, strict=True)
        ]

        def written_out(moments: Moments, **wishes: bool) -> DrawnEstimated:
            made = DrawnEstimated(moments, inverses, wholes, **wishes)
            made.way = DenseWeights
            return made

        return written_out

    for sql in QUESTIONS:
        found = ask(structured, sql).rows()
        with monkeypatch.context() as patch:
            patch.setattr(PerturbedSource, "estimator", joint)
            expected = ask(written, sql).rows()
        assert_rows(expected, found, sql)


def assert_rows(expected: list[dict[str, Any]], found: list[dict[str, Any]], note: str) -> None:
    assert len(expected) == len(found), note
    for one, other in zip(expected, found, strict=True):
        for name, value in one.items():
            if isinstance(value, float):
                assert other[name] == pytest.approx(value, rel=1e-9, abs=1e-6), (note, name)
            else:
                assert other[name] == value, (note, name)


def test_ten_thousand_values(tmp_path: Path) -> None:
    """As with few values: whatever is asked of everybody adds up to everybody."""
    rng = np.random.default_rng(4)
    values = np.concatenate([np.arange(10_000), np.minimum(rng.zipf(1.5, 20_000), 9_999)])
    table = pa.table(
        {
            "sex": np.array(["F", "M"])[rng.integers(0, 2, 30_000)],
            "code": [f"c{v:04}" for v in values],
        }
    )
    data = sf.read(table, quasi="sex", sensitive="code")
    sf.publish(data, "rho-privacy(0.3, 0.9)", to=tmp_path / "r", mechanism="uniform")
    release: OpenedRelease = open_release(tmp_path / "r")
    many = len(release.domain("code"))
    assert many == 10_000
    answer = release.sql("SELECT sex, code, COUNT(*) AS n FROM release GROUP BY sex, code")
    assert len(answer) == 2 * many
    assert sum(row["n"] for row in answer.rows()) == pytest.approx(30_000)
    one = release.sql("SELECT COUNT(*) FROM release WHERE code = 'c0001'")
    truth = int((values == 1).sum())
    assert abs(one.value - truth) < 5 * one.stderr
    assert one.stderr > 0
