"""Counts from ranges and sets, by overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.audits.replay import Matches
from sfumato.engines.publishing import publish, repeat
from sfumato.engines.receipts import Receipt
from sfumato.errors import QueryError
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.ranges import RangeEstimated, ShareSums
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
    ends = ((low >= 0.2) & (high <= 0.6)).sum(), ((low <= 0.6) & (high >= 0.2)).sum()
    for condition in ("h BETWEEN 0.2 AND 0.6", "0.2 <= h AND h <= 0.6"):
        (row,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {condition}").rows()
        assert (row["n_low"], row["n_high"]) == ends
        assert ends[0] < row["n"] < ends[1]
    with pytest.raises(QueryError, match="not whole"):
        release.sql("SELECT COUNT(*) FROM release WHERE h * h > 0.5")


@pytest.mark.parametrize("way", ["heterogeneous", "ring", "burel"])
def test_ends_are_certain_however_values_go_with_columns(way: str, tmp_path: Path) -> None:
    """The occupation is the age's decade: nothing of that can be seen inside records."""
    rng = np.random.default_rng(4)
    age = rng.integers(20, 70, 900)
    work = np.array([f"w{decade}" for decade in np.where(rng.random(900) < 0.9, age // 10, 3)])
    people = pa.table({"age": age, "sex": rng.integers(0, 2, 900), "work": work})
    promise = "beta-likeness(1)" if way == "burel" else "l-diversity(2)"
    publish(read(people, quasi="age,sex", sensitive="work"), promise, to=tmp_path / "r",
            mechanism=way, seed=2)  # fmt: skip
    release = open_release(tmp_path / "r")
    widths = []
    for low in range(20, 70, 10):
        chosen = (age >= low) & (age < low + 10) & (people["sex"].to_numpy() == 1)
        where = f"age BETWEEN {low} AND {low + 9} AND sex = 1"
        sql = f"SELECT work, COUNT(*) AS n FROM release WHERE {where} GROUP BY work"
        for row in release.sql(sql).rows():
            assert row["n_low"] <= (chosen & (work == row["work"])).sum() <= row["n_high"]
            assert 0 <= row["n_low"] <= row["n"] <= row["n_high"]
            widths.append(row["n_high"] - row["n_low"])
        share = (
            f"SELECT COUNT(*) FILTER (WHERE work = 'w3') / COUNT(*) AS a FROM release WHERE {where}"
        )
        (row,) = release.sql(share).rows()
        assert (
            0
            <= row["a_low"]
            <= (chosen & (work == "w3")).sum() / chosen.sum()
            <= row["a_high"]
            <= 1
        )
    assert max(widths) > 0


def test_a_condition_in_filter_is_weighed_like_one_in_where(release: OpenedRelease) -> None:
    people = make_people(500)
    age, region = (people[name].to_numpy(zero_copy_only=False) for name in ("age", "region"))
    sql = (
        "SELECT COUNT(*) FILTER (WHERE age < 40) AS n, COUNT(*) FILTER (WHERE age < 40) / COUNT(*) "
        "AS share FROM release WHERE region = 'north'"
    )
    (row,) = release.sql(sql).rows()
    number = ((age < 40) & (region == "north")).sum()
    assert 0 <= row["n_low"] <= number <= row["n_high"]
    assert 0 <= row["share_low"] <= number / (region == "north").sum() <= row["share_high"] <= 1


def test_counts_without_a_value_have_intervals(release: OpenedRelease) -> None:
    """A count of two quasi columns is estimated; what is told or certain is exact."""
    people = make_people(500)
    age, region = (people[name].to_numpy(zero_copy_only=False) for name in ("age", "region"))
    truth = ((age < 40) & (region == "north")).sum()
    where = "age < 40 AND region = 'north'"
    (row,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}").rows()
    assert row["n_low"] <= truth <= row["n_high"] <= (region == "north").sum()
    for condition, number in (("age >= 0", 500), ("region = 'north'", (region == "north").sum())):
        (row,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {condition}").rows()
        assert (row["n"], row["n_stderr"], row["n_low"], row["n_high"]) == (
            number,
            0,
            number,
            number,
        )


def test_averages_of_sensitive_numbers_have_intervals(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    age = rng.integers(18, 60, 600)
    pay = (age - 18) // 14 + rng.integers(0, 7, 600)
    table = read(pa.table({"age": age, "pay": pay}), quasi="age", sensitive="pay")
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="heterogeneous", seed=1)
    release = open_release(tmp_path / "r")
    for low in (20, 30, 40, 50):
        chosen = (age >= low) & (age < low + 10)
        sql = f"SELECT AVG(pay) AS a FROM release WHERE age >= {low} AND age < {low + 10}"
        (row,) = release.sql(sql).rows()
        assert row["a_low"] < pay[chosen].mean() < row["a_high"]
        assert row["a_high"] - row["a_low"] < 4  # of the 8 that are possible


def test_how_many_people_a_record_spans_is_published(tmp_path: Path) -> None:
    """Under beta-likeness people match more records than the least that is sure."""
    table = read(make_people(500), quasi="age,sex,region", sensitive="disease")
    for mechanism in ("heterogeneous", "burel"):
        publish(
            table, "beta-likeness(1)", to=tmp_path / mechanism, mechanism=mechanism, seed=3,
            receipt=tmp_path / f"{mechanism} receipt",
        )  # fmt: skip
        opened, seen = open_release(tmp_path / mechanism), []
        receipt = Receipt.read(tmp_path / f"{mechanism} receipt")
        repeat(receipt, table, opened, tmp_path / f"{mechanism} again",
               lambda *made, seen=seen: seen.append(Matches.of(*made)))  # fmt: skip
        (found,) = seen
        if mechanism == "burel":
            sizes = np.bincount(found.group)[found.group]
        else:
            sizes = np.diff(found.starts)
        assert opened.spans == round(sizes.mean()) >= opened.matches


def test_counts_of_a_column_are_told_and_read(tmp_path: Path) -> None:
    people = make_people(500)
    table = read(people, quasi="age,sex,region", sensitive="disease")
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="heterogeneous", seed=3)
    told = open_release(tmp_path / "r")
    counts = people["region"].value_counts().to_pylist()
    said = told.plan.marginals["region"]
    assert sorted(said.people) == sorted(count["counts"] for count in counts)
    for each in counts:
        asked = f"SELECT COUNT(*) AS n FROM release WHERE region = '{each['values']}'"
        (row,) = told.sql(asked).rows()
        assert row["n"] == row["n_low"] == row["n_high"] == each["counts"]


def test_all_values_asked_for_are_no_value_asked_for(release: OpenedRelease) -> None:
    where = "SELECT COUNT(*) AS n FROM release WHERE age < 50 AND region = 'north'"
    (whole,) = release.sql(where).rows()
    values = "'angina', 'asthma', 'flu', 'ulcer', 'none'"
    (every,) = release.sql(f"{where} AND disease IN ({values})").rows()
    assert every == pytest.approx(whole)


def test_a_count_that_is_certain_ends_at_the_count() -> None:
    """Sixty-one people for certain, whose shares add up to a rounding less than that."""
    certain, summed = np.array([61.0]), np.array([61.0 - 7e-15])
    shares = ShareSums(summed, certain, certain, (np.zeros(1), np.array([100.0])))
    moments = Moments(1, np.array([0]), (np.array([0]),), {("n",): summed, ("n", "n"): summed})
    forms = Forms.of(np.arange(1), np.array([[0]]), np.array([0, 1]))
    asked = Statistic("n", "n", np.ones((1, 1)), np.ones((1, 1), np.bool_))
    totals = RangeEstimated(moments, {"n": shares}).read(forms, [asked])
    low, high = totals.interval(totals.values[0], np.zeros(1), 1.96, [1.0])
    assert totals.variance([1.0])[0] == 0
    assert low[0] <= 61 <= high[0]


@pytest.mark.parametrize("more", ["", " AND age > 40"])
def test_a_condition_that_no_value_satisfies_counts_nobody(
    release: OpenedRelease, more: str
) -> None:
    """It ended in an IndexError."""
    nobody = f"FROM release WHERE disease = 'flu' AND disease <> 'flu'{more}"
    found = release.sql(f"SELECT COUNT(*) {nobody}")
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert len(release.sql(f"SELECT disease, COUNT(*) {nobody} GROUP BY disease")) == 0
