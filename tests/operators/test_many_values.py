"""Releases with hundreds of values: the same law as for few, without matrices of every group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import sfumato as sf
from sfumato.operators.buckets import met_often


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray, np.ndarray]:
    """12,000 people, 150 values of 24 to 400 people, half of them tied to the region."""
    draw = np.random.default_rng(17)
    share = 1 / (np.arange(150) + 15.0)
    code = draw.choice(150, 12_000, p=share / share.sum())
    code[:150] = np.arange(150)
    region = np.where(draw.random(12_000) < 0.5, code % 4, draw.integers(0, 4, 12_000))
    table = pa.table(
        {"region": region, "sex": draw.integers(0, 2, 12_000), "d": [f"d{x:03}" for x in code]}
    )
    place = tmp_path_factory.mktemp("many") / "release"
    sf.publish(
        table,
        "l-diversity(6)",
        to=place,
        mechanism="optimal",
        quasi=["region", "sex"],
        sensitive="d",
        seed=4,
    )
    return place, code, region


@pytest.mark.parametrize("estimator", ["shrunk", "inverse"])
def test_intervals_of_many_values_hold(
    release: tuple[Path, np.ndarray, np.ndarray], estimator: str
) -> None:
    """600 counts; held below 92 % or, of the first two, above 99 % has a chance below 0.001."""
    place, code, region = release
    truth = np.zeros((4, 150))
    np.add.at(truth, (region, code), 1)
    rows = (
        sf.open(place)
        .sql("SELECT region, d, COUNT(*) AS n FROM release GROUP BY region, d", estimator=estimator)
        .rows()
    )
    inside = [
        row["n_low"] - 1e-9 <= truth[row["region"], int(row["d"][1:])] <= row["n_high"] + 1e-9
        for row in rows
    ]
    assert len(rows) == 600
    assert 0.92 < np.mean(inside) < 0.99


def test_small_counts_of_two_columns_hold(tmp_path: Path) -> None:
    """Six releases, 540 true counts of 1 to 10 by two sensitive columns: held 93.5 % or more."""
    draw = np.random.default_rng(1)
    sex, age = draw.integers(0, 2, 8_000), draw.integers(20, 60, 8_000)
    first = (draw.integers(0, 6, 8_000) + sex * 2) % 6
    second = (draw.integers(0, 5, 8_000) + (first > 2)) % 5
    table = pa.table({"sex": sex, "age": age, "a": first, "b": second})
    inside = []
    for seed in range(6):
        place = tmp_path / str(seed)
        sf.publish(
            table,
            "rho-privacy(0.3, 0.75)",
            to=place,
            mechanism="uniform",
            quasi=["sex", "age"],
            sensitive=["a", "b"],
            seed=seed,
        )
        release = sf.open(place)
        for year in (23, 33, 40):
            truth = np.zeros((6, 5), int)
            np.add.at(truth, (first[age == year], second[age == year]), 1)
            rows = release.sql(
                f"SELECT a, b, COUNT(*) AS n FROM release WHERE age = {year} GROUP BY a, b"
            ).rows()
            for row in rows:
                true = truth[row["a"], row["b"]]
                if 1 <= true <= 10:
                    inside.append(row["n_low"] <= true <= row["n_high"])
    assert len(inside) > 400
    assert np.mean(inside) > 0.935, np.mean(inside)


def test_large_and_small_buckets_meet_alike() -> None:
    """Dense rows, several chunks of them, and sparse products."""
    rng = np.random.default_rng(8)
    for share in (0.02, 0.6):
        held = (rng.random((2_000, 300)) < share) * rng.integers(1, 4, (2_000, 300))
        weights = rng.random(2_000)
        expected = held.T @ (held * weights[:, None])
        met = csr_array(met_often(csr_array(held.astype(np.float64)), weights)).toarray()
        assert met == pytest.approx(expected)


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
    release = sf.open(tmp_path / "r")
    many = len(release.domain("code"))
    assert many == 10_000
    answer = release.sql("SELECT sex, code, COUNT(*) AS n FROM release GROUP BY sex, code")
    assert len(answer) == 2 * many
    assert sum(row["n"] for row in answer.rows()) == pytest.approx(30_000)
    one = release.sql("SELECT COUNT(*) FROM release WHERE code = 'c0001'")
    truth = int((values == 1).sum())
    assert abs(one.value - truth) < 5 * one.stderr
    assert one.stderr > 0
