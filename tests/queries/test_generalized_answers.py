"""Counts from ranges and sets, by overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.publishing import publish
from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.queries import open_release
from sfumato.queries.opened import OpenedRelease
from sfumato.table import read


def make_people(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": rng.integers(18, 94, rows),
            "sex": pa.array(rng.choice(["F", "M"], rows)),
            "region": pa.array(rng.choice(["north", "south", "west"], rows)),
            "disease": pa.array(rng.choice(["angina", "asthma", "flu", "ulcer", "none"], rows)),
        }
    )


@pytest.fixture
def release(tmp_path: Path) -> OpenedRelease:
    table = read(make_people(500), quasi="age,sex,region", sensitive="disease")
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="heterogeneous", seed=3)
    return open_release(tmp_path / "r")


def count(release: OpenedRelease, condition: str) -> float:
    with pytest.warns(WeakPromiseWarning, match="evenly filled"):
        answer = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {condition}")
    assert answer.table["n_stderr"][0].as_py() is None
    return float(answer.table["n"][0].as_py())


def overlap_by_hand(release: OpenedRelease, low: int, high: int) -> np.ndarray:
    records = pq.read_table(release.records[0])
    first, last = records["age_low"].to_numpy(), records["age_high"].to_numpy()
    inside = np.minimum(last, high) - np.maximum(first, low) + 1
    return np.maximum(inside, 0) / (last - first + 1)


def test_ranges_count_by_their_overlap(release: OpenedRelease) -> None:
    expected = overlap_by_hand(release, 30, 40).sum()
    for condition in (
        "age BETWEEN 30 AND 40",
        "age >= 30 AND age <= 40",
        "age > 29 AND NOT age > 40",
        "age IN (30,31,32,33,34,35,36,37,38,39,40)",
    ):
        assert count(release, condition) == pytest.approx(expected)


def test_sets_count_by_their_share_and_conjunctions_multiply(release: OpenedRelease) -> None:
    records = pq.read_table(release.records[0])
    north = np.array([("north" in row) / len(row) for row in records["region"].to_pylist()])
    age = overlap_by_hand(release, 50, 93)
    flu = np.array(records["disease"].to_pylist()) == "flu"
    assert count(release, "region = 'north'") == pytest.approx(north.sum())
    both = count(release, "region = 'north' AND age >= 50 AND disease = 'flu'")
    assert both == pytest.approx((north * age * flu).sum())


def test_sensitive_columns_are_exact(release: OpenedRelease) -> None:
    answer = release.sql(
        "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease HAVING n > 10 ORDER BY n DESC"
    )
    records = pq.read_table(release.records[0])["disease"].to_pylist()
    found = dict(zip(*(answer.table[c].to_pylist() for c in ("disease", "n")), strict=True))
    assert found == {value: records.count(value) for value in found}
    assert set(answer.table["n_stderr"].to_pylist()) == {0.0}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT COUNT(*) FROM release WHERE age > 30 OR sex = 'F'", "ties several columns"),
        ("SELECT COUNT(*) FROM release WHERE age > 30 OR disease = 'flu'", "ties several columns"),
        ("SELECT sex, COUNT(*) FROM release GROUP BY sex", "GROUP BY .* cannot be estimated"),
        ("SELECT AVG(age) FROM release", "cannot be estimated: the release shows ranges"),
    ],
)
def test_what_cannot_be_weighed_is_refused_by_name(
    release: OpenedRelease, sql: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        release.sql(sql)


def test_unknown_estimators_are_refused(release: OpenedRelease) -> None:
    with pytest.raises(QueryError, match="Estimators there are: uniform"):
        release.sql("SELECT COUNT(*) FROM release", estimator="inverse")


def test_numbers_that_are_not_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    raw = pa.table({"h": rng.random(200), "s": pa.array(rng.choice(list("wxyz"), 200))})
    publish(
        read(raw, quasi="h", sensitive="s"), "l-diversity(2)", to=tmp_path / "r",
        mechanism="heterogeneous",
    )  # fmt: skip
    release = open_release(tmp_path / "r")
    records = pq.read_table(release.records[0])
    low, high = records["h_low"].to_numpy(), records["h_high"].to_numpy()
    width = np.where(high > low, high - low, 1)
    inside = np.clip(np.minimum(high, 0.6) - np.maximum(low, 0.2), 0, None) / width
    single = (high == low) & (low >= 0.2) & (low <= 0.6)
    expected = np.where(high > low, inside, single).sum()
    assert count(release, "h BETWEEN 0.2 AND 0.6") == pytest.approx(expected)
    assert count(release, "0.2 <= h AND h <= 0.6") == pytest.approx(expected)
    with pytest.raises(QueryError, match="not whole"):
        release.sql("SELECT COUNT(*) FROM release WHERE h * h > 0.5")
