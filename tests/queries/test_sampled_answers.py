"""Answers from sampled releases: unbiased, with error bars that count copies once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.publishing import publish

M = 5
Q = 0.5 / M
VALUES = ["asthma", "cold", "flu", "gout", "HIV"]


def raw_table(rows: int = 5000) -> pa.Table:
    generator = np.random.default_rng(4)
    sex = generator.choice(["F", "M"], rows)
    zone = generator.integers(0, 200, rows)
    disease = np.where(
        generator.random(rows) < 0.4,
        np.where(sex == "F", "flu", "cold"),
        generator.choice(VALUES, rows),
    )
    return pa.table({"sex": sex, "zone": zone, "disease": disease})


RAW = raw_table()


def published(place: Path, seed: int, mechanism: str) -> Path:
    table = sf.read(RAW, quasi=["sex", "zone"], sensitive="disease")
    promise = "reconstruction-privacy(0.3, 0.3)"
    publish(table, promise, to=place, mechanism=mechanism, seed=seed)
    return place


def by_hand(place: Path, value: str, sex: str) -> tuple[float, float]:
    """The estimate and its variance, from the records and the manifest."""
    opened = sf.open(place)
    frame = pq.read_table(place / "records").to_pandas()
    chosen = frame[frame["sex"].astype(str) == sex]
    scale = np.array(opened.plan.sampling.scales)[chosen["part"].to_numpy()]
    hit = (chosen["disease"].astype(str) == value).to_numpy()
    weight = np.where(hit, (1 - Q) / 0.5, -Q / 0.5)
    sampled = chosen["part"].to_numpy() > 0
    variance = (scale * (weight**2 - weight)).sum() + (scale * weight)[sampled].sum()
    return float(weight.sum()), float(variance)


@pytest.mark.parametrize("mechanism", ["sps(merge=none)", "sps"])
def test_counts_and_error_bars_by_hand(tmp_path: Path, mechanism: str) -> None:
    place = published(tmp_path / "r", 1, mechanism)
    sql = "SELECT sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY sex"
    for row in sf.open(place).sql(sql, estimator="inverse").rows():
        estimate, variance = by_hand(place, "flu", row["sex"])
        assert row["count"] == pytest.approx(estimate)
        assert row["count_stderr"] == pytest.approx(np.sqrt(variance), rel=1e-6)


@pytest.mark.slow
def test_answers_are_unbiased_and_their_intervals_hold(tmp_path: Path) -> None:
    # 30 releases × 5 values. Means within 4.5 standard errors (1 false alarm in 30,000); 150
    # answers with a coverage of 95 % fall below 90 % once in 100 seeds, and these are wider
    truth = {v: RAW["disease"].to_pylist().count(v) for v in VALUES}
    found: dict[str, list[float]] = {value: [] for value in VALUES}
    inside = total = 0
    for seed in range(30):
        place = published(tmp_path / str(seed), seed, "sps(merge=none)")
        answer = sf.open(place).sql("SELECT disease, COUNT(*) FROM release GROUP BY disease")
        for row in answer.rows():
            found[row["disease"]].append(row["count"])
            inside += row["count_low"] <= truth[row["disease"]] <= row["count_high"]
            total += 1
    for value, estimates in found.items():
        error = np.std(estimates) / np.sqrt(len(estimates))
        assert abs(np.mean(estimates) - truth[value]) < 4.5 * error
    assert total == 150
    assert inside / total >= 0.90


@pytest.mark.slow
def test_sums_and_averages_know_the_copies(tmp_path: Path) -> None:
    # the spread over 25 releases is what the error bars say, within a factor of 2 either way
    answers = []
    for seed in range(25):
        place = published(tmp_path / str(seed), seed, "sps(merge=none)")
        sql = "SELECT SUM(zone), AVG(zone) FROM release WHERE disease = 'flu'"
        answers.append(sf.open(place).sql(sql, estimator="inverse").rows()[0])
    chosen = [
        z
        for z, d in zip(RAW["zone"].to_pylist(), RAW["disease"].to_pylist(), strict=True)
        if d == "flu"
    ]
    for name, truth in (("sum_zone", sum(chosen)), ("avg_zone", np.mean(chosen))):
        spread = np.std([answer[name] for answer in answers])
        stated = np.mean([answer[f"{name}_stderr"] for answer in answers])
        assert spread / 2 < stated < 2 * spread
        mean = np.mean([answer[name] for answer in answers])
        assert abs(mean - truth) < 4.5 * spread / np.sqrt(len(answers)) + 0.02 * abs(truth)
