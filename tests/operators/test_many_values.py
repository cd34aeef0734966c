"""Releases with hundreds of values: the same law as for few, without matrices of every group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import sfumato as sf
from sfumato.operators.bucket_estimates import Inverted
from sfumato.operators.buckets import BucketKinds, BucketOperator, met_often
from sfumato.operators.many_values import ManyValues
from sfumato.operators.pool_matrices import (
    Partition,
    PoolMatrices,
    SharedMatrix,
    TiedDiagonals,
    WholeMatrices,
)


def random_operator(values: int, buckets: int, size: int, seed: int) -> BucketOperator:
    """Buckets of different values, drawn at random; every value stands somewhere."""
    draw = np.random.default_rng(seed)
    rows = [draw.choice(values, size, replace=False) for _ in range(buckets)]
    rows += [np.arange(start, start + size) % values for start in range(0, values, size)]
    kinds = np.repeat(np.arange(len(rows)), size)
    ones = np.ones(len(kinds), np.int64)
    held = np.concatenate(rows)
    return BucketOperator.of([BucketKinds(np.ones(len(rows), np.int64), kinds, held, ones)], values)


def whole_of(matrices: PoolMatrices) -> np.ndarray:
    """The matrices written out."""
    if isinstance(matrices, WholeMatrices):
        return matrices.matrices
    if isinstance(matrices, SharedMatrix):
        return matrices.factors[:, None, None] * matrices.matrix
    assert isinstance(matrices, TiedDiagonals)
    return np.stack([np.diag(v) - np.outer(v, v) / v.sum() for v in matrices.variances])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 4), st.sampled_from("wts"))
def test_forms_of_pools_are_those_of_the_matrices_written_out(
    seed: int, values: int, pools: int, kind: str
) -> None:
    draw = np.random.default_rng(seed)
    some = draw.normal(size=(pools, values, values))
    positive = some @ np.swapaxes(some, 1, 2)
    matrices: PoolMatrices = {
        "w": WholeMatrices(positive),
        "t": TiedDiagonals(draw.random((pools, values)) + 0.1),
        "s": SharedMatrix(positive[0], draw.random(pools)),
    }[kind]
    written = whole_of(matrices)
    forms = int(draw.integers(1, 4))
    of = draw.integers(-1, forms, values)
    one, other = draw.normal(size=(2, values))
    at = draw.integers(0, pools, 5)
    found = matrices.bilinear(Partition(of, forms), one, other, at)
    for place, pool in enumerate(at):
        for form in range(forms):
            inside = of == form
            expected = (one * inside) @ written[pool] @ (other * inside)
            assert found[place, form] == pytest.approx(expected, abs=1e-9)
    vectors = draw.normal(size=(5, values))
    expected = np.einsum("ki,kij,kj->k", vectors, written[at], vectors)
    assert matrices.quadratic(vectors, at) == pytest.approx(expected, abs=1e-9)


def test_the_unbiased_estimate_of_many_values_is_that_of_few() -> None:
    """Value and noise: M⁻ᵀo, and M⁻ᵀ·Σ_x n_x Cov_x·M⁻¹ with all Cov_x at their mean."""
    operator = random_operator(40, 500, 4, seed=3)
    counts = operator.counts
    few = Inverted(BucketOperator(counts, operator.together, None), counts)
    many = ManyValues(operator, counts)
    shown = np.random.default_rng(1).random((1, 40))
    assert many.undone(shown) == pytest.approx(shown @ operator.inverse, rel=1e-5)
    total = counts.sum()
    within = counts * 0.25  # as common as in the table: then means are exact
    expected = np.diagonal(few.expected(within))
    spread = (within * (1 - within / counts) * counts / (counts - 1)).sum()
    assert many.variances * spread == pytest.approx(expected, rel=1e-5)
    pool = many.fit(np.array([total / 4]), (within @ operator.matrix())[None, :])
    first, second = pool.noise
    everything = Partition(np.arange(40), 40)
    ones, at = np.ones(40), np.zeros(1, np.int64)
    stated = total / 4 * first.bilinear(everything, ones, ones, at)
    stated -= (total / 4) ** 2 * second.bilinear(everything, ones, ones, at)
    assert stated[0] == pytest.approx(expected, rel=1e-4)


def test_the_most_likely_deviation_is_found() -> None:
    """Fisher scoring ends where the likelihood of y_x ~ N(0, τ²w_x + v_x) is largest."""
    operator = random_operator(150, 3_000, 5, seed=5)
    many = ManyValues(operator, operator.counts)
    number, draw = 2_000.0, np.random.default_rng(2)
    free = number - number**2 / many.rows
    slope, fixed = number * free * many.shares**2, free * (many.shares + many.variances)
    for true in (0.02, 0.5, 3.0):
        squares = draw.normal(size=150) ** 2 * (true * slope + fixed)
        found = float(many.deviation(np.array([number]), np.array([free]), squares[None])[0])

        def loss(each: float, squares: np.ndarray = squares) -> float:
            variance = each * slope + fixed
            return float((np.log(variance) + squares / variance).sum())

        assert loss(found) <= min(loss(found * 1.02), loss(found / 1.02)) + 1e-6


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


def test_two_ways_of_asking_about_many_values_agree(
    release: tuple[Path, np.ndarray, np.ndarray],
) -> None:
    opened = sf.open(release[0])
    one = opened.sql("SELECT SUM(region) AS s FROM release WHERE d < 'd020' AND sex = 1")
    other = opened.sql(
        "SELECT SUM(CASE WHEN d < 'd020' THEN region ELSE 0 END) AS s FROM release WHERE sex = 1"
    )
    for name in ("s", "s_stderr", "s_low", "s_high"):
        assert one.rows()[0][name] == pytest.approx(other.rows()[0][name], rel=1e-9)
    parts = opened.sql("SELECT d, COUNT(*) AS n FROM release WHERE sex = 1 GROUP BY d")
    whole = opened.sql("SELECT COUNT(*) AS n FROM release WHERE sex = 1 AND d < 'd020'")
    summed = sum(row["n"] for row in parts.rows() if row["d"] < "d020")
    assert whole.value == pytest.approx(summed, rel=1e-9)


def test_values_that_always_stand_together_have_intervals_as_wide_as_the_ignorance() -> None:
    """Two values in the same buckets: each may be anything, their sum is told."""
    operator = random_operator(140, 900, 4, seed=9)
    together, counts = operator.together.copy(), operator.counts.copy()
    # value 1 becomes a copy of value 0
    together[1], counts[1] = together[0], counts[0]
    together[:, 1] = together[:, 0]
    together[0, 1] = together[1, 0] = together[1, 1] = together[0, 0]
    many = ManyValues(BucketOperator(counts, together, None), counts)
    pool = many.fit(np.array([500.0]), 500.0 * many.met[None, :])
    of = np.full(140, -1)
    of[:2] = (0, 1)
    at = np.zeros(1, np.int64)
    alone = pool.noise[0].bilinear(Partition(of, 2), np.ones(140), np.ones(140), at)[0]
    of[1] = 0
    both = pool.noise[0].bilinear(Partition(of, 1), np.ones(140), np.ones(140), at)[0]
    assert (alone > 1e6 * both).all()


def test_records_may_stand_in_the_slots_of_fakes() -> None:
    """All records of every value: without fakes nothing is left open, with fakes it is."""
    operator = random_operator(6, 200, 3, seed=2)
    everybody = Inverted(operator, operator.counts).expected(operator.counts)
    assert np.abs(everybody).max() < 1e-6
    real = np.round(operator.counts * 0.7)
    assert np.diagonal(Inverted(operator, real).expected(real)).min() > 1.0


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
        assert met_often(csr_array(held.astype(np.float64)), weights) == pytest.approx(expected)
