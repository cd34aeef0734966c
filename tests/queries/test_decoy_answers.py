"""Answers from decoys: unbiased with honest error bars; the paper's iteration beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.publishing import publish
from sfumato.errors import SingularOperator, WeakPromiseWarning
from sfumato.operators import Decoy
from sfumato.queries import OpenedRelease, open_release
from sfumato.table import read

ROWS, GROUPS = 6000, 4


def people(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, ROWS)
    age = rng.integers(20, 80, ROWS)
    disease = (rng.integers(0, 12, ROWS) + 3 * sex * (rng.random(ROWS) < 0.5)) % 12
    work = (rng.integers(0, 9, ROWS) + disease * (rng.random(ROWS) < 0.3)).astype(int) % 9
    return {"sex": sex, "age": age, "disease": disease, "work": work}


def published(
    folder: Path, columns: dict[str, np.ndarray], seed: int, *sensitive: str
) -> OpenedRelease:
    shown = {name: columns[name] for name in ("sex", "age", *sensitive)}
    table = read(pa.table(shown), quasi=["sex", "age"], sensitive=list(sensitive))
    publish(table, f"small-sum(groups={GROUPS})", to=folder, seed=seed)
    return open_release(folder)


@pytest.mark.slow
def test_intervals_cover_for_counts_sums_and_averages(tmp_path: Path) -> None:
    """12 values × 3 conditions × 12 publications, three aggregates: 92 to 98 % of 432 each.

    The intervals of one release are dependent, hence the wide band.
    """
    columns = people(1)
    conditions = {"1 = 1": slice(None), "sex = 1": columns["sex"] == 1, "age < 35": None}
    conditions["age < 35"] = columns["age"] < 35
    inside: dict[str, list[bool]] = {"n": [], "s": [], "a": []}
    for seed in range(12):
        release = published(tmp_path / str(seed), columns, seed, "disease")
        for condition, chosen in conditions.items():
            disease, age = columns["disease"][chosen], columns["age"][chosen]
            rows = release.sql(
                "SELECT disease, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a FROM release "
                f"WHERE {condition} GROUP BY disease"
            ).rows()
            for row in rows:
                ages = age[disease == row["disease"]]
                truth = {"n": len(ages), "s": ages.sum(), "a": ages.mean()}
                for name, value in truth.items():
                    inside[name].append(row[f"{name}_low"] <= value <= row[f"{name}_high"])
    for name, covered in inside.items():
        assert len(covered) == 432
        assert 0.92 <= np.mean(covered) <= 0.985, name


def test_sql_error_bars_are_the_operators(tmp_path: Path) -> None:
    columns = people(2)
    release = published(tmp_path / "r", columns, 3, "disease")
    sql = "SELECT disease, COUNT(*) AS n FROM release GROUP BY 1 ORDER BY 1"
    everything = release.sql(sql, estimator="inverse")
    counts = np.array([row["n"] for row in everything.rows()])
    operator = Decoy(12, GROUPS).observed(np.round(counts).astype(np.int64))
    # over everybody the estimate is the published count, with a binomial error
    assert counts == pytest.approx(np.round(counts), abs=1e-6)
    errors = np.array([row["n_stderr"] for row in everything.rows()])
    assert errors**2 == pytest.approx(counts * (1 - 1 / GROUPS))
    sql = "SELECT disease, COUNT(*) AS n FROM release WHERE age < 50 GROUP BY 1 ORDER BY 1"
    some = release.sql(sql, estimator="inverse").rows()
    found = np.array([row["n"] for row in some])
    matching = (columns["age"] < 50).sum()
    for index, row in enumerate(some):
        guess = np.full(12, (matching - found[index]) / 11)
        guess[index] = found[index]
        assert row["n_stderr"] ** 2 == pytest.approx(operator.variances(guess)[index], rel=1e-6)


@pytest.mark.slow
def test_two_sensitive_columns_are_unbiased(tmp_path: Path) -> None:
    """The mean of 30 publications lies within 4 of its standard errors."""
    columns = people(3)
    true = int(((columns["disease"] == 3) & (columns["work"] == 3) & (columns["sex"] == 1)).sum())
    values = [
        published(tmp_path / str(seed), columns, seed, "disease", "work")
        .sql("SELECT COUNT(*) FROM release WHERE disease = 3 AND work = 3 AND sex = 1")
        .value
        for seed in range(30)
    ]
    assert abs(np.mean(values) - true) < 4 * np.std(values) / np.sqrt(30)


def skewed(folder: Path, *counts: int, groups: int = 2) -> OpenedRelease:
    names = ["flu", "cold", "HIV", "gout"][: len(counts)]
    disease = np.repeat(names, counts)
    table = read(
        pa.table({"age": np.arange(len(disease)) % 60, "disease": disease}),
        quasi=["age"],
        sensitive=["disease"],
    )
    publish(table, f"small-sum(groups={groups})", to=folder, seed=1)
    return open_release(folder)


def test_a_value_at_the_limit_is_refused_by_name(tmp_path: Path) -> None:
    release = skewed(tmp_path / "r", 500, 300, 200)
    refusal = r"'flu' of column 'disease' .* smaller groups"
    for sql in (
        "SELECT COUNT(*) FROM release WHERE disease = 'flu'",
        "SELECT disease, COUNT(*) FROM release WHERE age < 30 GROUP BY disease",
    ):
        with pytest.raises(SingularOperator, match=refusal):
            release.sql(sql)


def test_a_value_near_the_limit_warns_by_name(tmp_path: Path) -> None:
    release = skewed(tmp_path / "r", 96_000, 54_000, 50_000)
    with pytest.warns(WeakPromiseWarning, match="'flu' of column 'disease' have nearly 1/2"):
        release.sql("SELECT COUNT(*) FROM release WHERE disease = 'cold'")


def test_all_but_one_is_the_total_without_that_one(tmp_path: Path) -> None:
    """`<>`, NOT IN and an OR with everything else: the same number and the same error bar."""
    columns = people(4)
    release = published(tmp_path / "r", columns, 5, "disease")
    (one,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE age < 50 AND disease = 3").rows()
    others = release.sql(
        "SELECT COUNT(*) AS n FROM release WHERE age < 50 AND disease <> 3"
    ).rows()[0]
    total = int((columns["age"] < 50).sum())
    assert others["n"] == pytest.approx(total - one["n"], rel=1e-12)
    assert others["n_stderr"] == pytest.approx(one["n_stderr"], rel=2e-2)
    halves = [
        release.sql(f"SELECT COUNT(*) AS n FROM release WHERE age < 50 AND disease {some}").value
        for some in ("< 6", ">= 6")
    ]
    assert sum(halves) == pytest.approx(total, rel=1e-9)
    everybody = release.sql("SELECT COUNT(*) AS n FROM release WHERE age < 50 OR disease < 20")
    assert everybody.value == pytest.approx(ROWS, rel=1e-12)
    assert everybody.stderr == pytest.approx(0, abs=1e-5)


@pytest.mark.slow
def test_several_values_together_are_not_biased(tmp_path: Path) -> None:
    """32 releases of a skewed column; a mean 4.5 standard errors off has a chance of 1e-5."""
    draw = np.random.default_rng(8)
    sex = draw.integers(0, 2, ROWS)
    common = draw.choice(12, ROWS, p=np.array([5, 5, 5, 4, 4, 3, 1, 1, 1, 1, 1, 1]) / 32)
    disease = np.where((sex == 1) & (common > 5) & (draw.random(ROWS) < 0.8), common - 6, common)
    columns = {"sex": sex, "age": draw.integers(20, 80, ROWS), "disease": disease}
    asked = {"disease <> 9": disease != 9, "disease > 1": disease > 1}
    found = np.empty((32, 2))
    for seed in range(32):
        release = published(tmp_path / str(seed), columns, seed, "disease")
        for index, condition in enumerate(asked):
            sql = f"SELECT COUNT(*) FROM release WHERE sex = 1 AND {condition}"
            found[seed, index] = release.sql(sql, estimator="inverse").value
    truth = [int(((sex == 1) & chosen).sum()) for chosen in asked.values()]
    off = (found.mean(axis=0) - truth) / (found.std(axis=0, ddof=1) / np.sqrt(32))
    assert (np.abs(off) < 4.5).all(), off


def test_the_whole_operator_is_undone() -> None:
    operator = Decoy(5, 3).observed(np.array([300, 250, 200, 150, 100]))
    whole = operator.matrix()
    held = np.array(operator.counts, float)[:, None]
    assert np.diagonal(whole) == pytest.approx(1 / 3)
    assert held * whole == pytest.approx((held * whole).T)
    assert whole.sum(axis=1) == pytest.approx(1.0)
    assert held.T @ whole == pytest.approx(held.T)
    inverse = operator.inverse().weigh(np.eye(5))
    assert whole @ inverse.T == pytest.approx(np.eye(5), abs=1e-9)
