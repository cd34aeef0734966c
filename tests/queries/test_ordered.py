"""Quantiles, extremes and numbers of different values."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import isotonic_regression

from sfumato.errors import QueryError
from sfumato.operators import Uniform
from sfumato.queries import OpenedRelease
from sfumato.queries.ordered import passing

from .conftest import MakeRelease


def people(rows: int = 500, seed: int = 4, ages: int = 60) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array(draw.integers(20, 20 + ages, rows), mask=draw.random(rows) < 0.05),
            "sex": np.where(draw.random(rows) < 0.4, "F", "M"),
            "disease": np.array(["flu", "HIV", "cold"])[draw.choice(3, rows, p=[0.5, 0.2, 0.3])],
            "cost": np.array([10, 25, 40, 90])[draw.integers(0, 4, rows)],
        }
    )


@pytest.fixture
def identity(make_release: MakeRelease) -> OpenedRelease:
    return make_release(people(), ["disease", "cost"])


ORDERED = [
    "MEDIAN(age)",
    "QUANTILE_CONT(age, 0.9)",
    "QUANTILE_CONT(age / 2, 0.25)",
    "QUANTILE_DISC(age, 0.3)",
    "QUANTILE_DISC(age, 0)",
    "QUANTILE_DISC(age, 1)",
    "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY age)",
    "MEDIAN(-age) FILTER (WHERE sex = 'F' OR age > 30)",
]


DESCENDING = [
    f"PERCENTILE_{kind}(0.3) WITHIN GROUP (ORDER BY age DESC)" for kind in ("DISC", "CONT")
]
COUNTED = ["MIN(age)", "MAX(age * 2)", "COUNT(DISTINCT age)", *DESCENDING]


@pytest.mark.parametrize("aggregate", [*ORDERED, *COUNTED])
@pytest.mark.parametrize("rest", ["", " WHERE age > 30", " GROUP BY sex"])
def test_without_sensitive_columns_it_is_counted(
    identity: OpenedRelease, aggregate: str, rest: str
) -> None:
    _compare(identity, people(), aggregate, rest, exact=True)


@pytest.mark.parametrize("aggregate", [*ORDERED, "MEDIAN(cost)", "QUANTILE_DISC(cost, 0.6)"])
@pytest.mark.parametrize(
    "rest", [" WHERE disease = 'flu'", " GROUP BY disease", " GROUP BY sex, cost"]
)
def test_where_nothing_was_perturbed_quantiles_are_those_of_duckdb(
    identity: OpenedRelease, aggregate: str, rest: str
) -> None:
    _compare(identity, people(), aggregate, rest, exact=False)


def test_more_values_than_thresholds(make_release: MakeRelease) -> None:
    """2,000 different ages: a second look finds the value between two thresholds of the first."""
    table = people(3_000, ages=2_000)
    release = make_release(table, ["disease", "cost"])
    for aggregate in ("MEDIAN(age)", "QUANTILE_DISC(age, 0.07)"):
        _compare(release, table, aggregate, " WHERE disease = 'HIV'", exact=False)


def _compare(
    identity: OpenedRelease, release: pa.Table, aggregate: str, rest: str, *, exact: bool
) -> None:
    keys = rest.split("GROUP BY ")[1] + ", " if "GROUP" in rest else ""
    sql = f"SELECT {keys}{aggregate} AS a FROM release{rest}"
    names = keys.rstrip(", ").split(", ") if keys else []
    expected = sorted(
        duckdb.sql(sql).to_arrow_table().to_pylist(), key=lambda row: [row[n] for n in names]
    )
    ours = identity.sql(sql).rows()
    assert [row["a"] for row in ours] == pytest.approx([float(row["a"]) for row in expected])
    if exact:
        assert all(row["a_stderr"] == 0 and row["a_low"] == row["a"] for row in ours)
    assert all(row["a_low"] <= row["a"] <= row["a_high"] for row in ours)


def test_numbers_beyond_all_numbers(make_release: MakeRelease) -> None:
    """NaN is the largest number there is, as in DuckDB; infinities are numbers."""
    score = [1.5, float("nan"), float("inf"), 2.5, None, -float("inf"), 1.5, 3.5]
    release = pa.table({"score": score, "ill": ["a", "b"] * 4})
    opened = make_release(release, ["ill"])
    sql = "SELECT MEDIAN(score) AS a, QUANTILE_DISC(score, 0.4) AS b, MIN(score) AS c FROM release"
    (expected,) = duckdb.sql(sql).fetchall()
    assert tuple(opened.sql(sql).rows()[0][name] for name in "abc") == expected


def test_several_at_once_beside_sums(identity: OpenedRelease) -> None:
    sql = (
        "SELECT sex, COUNT(*) AS n, QUANTILE_DISC(age, 0.1) AS low, "
        "QUANTILE_DISC(age, 0.9) AS high, COUNT(DISTINCT age) AS ages "
        "FROM release GROUP BY sex ORDER BY n DESC"
    )
    release = people()  # noqa: F841  DuckDB reads it by its name
    ours = identity.sql(sql).rows()
    theirs = duckdb.sql(sql).to_arrow_table().to_pylist()
    assert [[row[name] for name in ("sex", "n", "low", "high", "ages")] for row in ours] == [
        list(row.values()) for row in theirs
    ]


def test_the_ends_of_a_sensitive_domain(identity: OpenedRelease) -> None:
    for aggregate, end in (("MIN(cost)", 10.0), ("MAX(cost)", 90.0)):
        found = identity.sql(f"SELECT {aggregate} FROM release")
        assert (found.value, found.stderr) == (end, 0.0)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_intervals_of_quantiles_hold(make_release: MakeRelease, share: float) -> None:
    """About 600 of 2,000 people are ill; 250 publications.

    The share of intervals that hold has a standard deviation of at most 0.0138 around 0.95, and
    values are whole numbers, so that it may be larger. 4.5 deviations below: false alarm 3e-6.
    """
    draw = np.random.default_rng(21)
    many, rows = 250, 2_000
    age = draw.integers(20, 80, rows)
    ill = draw.random(rows) < np.where(age > 50, 0.42, 0.2)
    shown = np.where(draw.random((many, rows)) < 0.5, ill, draw.random((many, rows)) < 0.5)
    world = pa.table(
        {
            "world": np.repeat(np.arange(many), rows),
            "age": np.tile(age, many),
            "disease": np.where(shown.ravel(), "flu", "no"),
        }
    )
    release = make_release(world, ["disease"], {"disease": Uniform(2, Fraction(1, 2))})
    answers = release.sql(
        f"SELECT world, QUANTILE_DISC(age, {share}) AS a FROM release WHERE disease = 'flu' "
        "GROUP BY world"
    ).rows()
    truth = np.sort(age[ill])[int(np.ceil(share * ill.sum())) - 1]
    held = np.mean([each["a_low"] <= truth <= each["a_high"] for each in answers])
    widths = np.mean([each["a_high"] - each["a_low"] for each in answers])
    bias = np.mean([each["a"] for each in answers]) - truth
    assert 0.95 - 0.062 < held < 0.998, held
    assert widths < 20
    assert abs(bias) < 1.5


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT MIN(age) FROM release WHERE disease = 'flu'", "one person decides it"),
        ("SELECT MAX(cost) FROM release GROUP BY sex", "one person decides it"),
        ("SELECT COUNT(DISTINCT disease) FROM release", "one person decides it"),
        ("SELECT COUNT(DISTINCT cost, sex) FROM release", "with one expression"),
        ("SELECT QUANTILE_CONT(cost, 2) FROM release", "a share between 0 and 1"),
        ("SELECT MEDIAN(age + cost) FROM release", "not of both"),
        ("SELECT MEDIAN(cost * 2) FROM release", "Name it alone"),
        ("SELECT MEDIAN(disease) FROM release", "needs a number"),
        ("SELECT MEDIAN(cost) / 2 FROM release", "a column of its own"),
        ("SELECT AVG(DISTINCT cost) FROM release", "DISTINCT inside an aggregate"),
        (f"SELECT {DESCENDING[0]} FROM release WHERE disease = 'flu'", "Ask from below"),
        ("SELECT COUNT(*), MEDIAN(cost) FROM release", "as a question of its own"),
        ("SELECT MEDIAN(age) AS m FROM release GROUP BY sex ORDER BY m_low", "without names of"),
    ],
)
def test_what_cannot_be_answered_is_refused(identity: OpenedRelease, sql: str, why: str) -> None:
    with pytest.raises(QueryError) as caught:
        identity.sql(sql)
    assert why in str(caught.value)


@pytest.mark.parametrize(("jump", "wiggle"), [(4.0, 0.0), (1.0, 0.3)])
def test_intervals_are_not_too_wide_where_one_value_holds_many_records(
    jump: float, wiggle: float
) -> None:
    """The quantile that is hardest to hold: D is 0 there, and jumps by so many deviations.

    2,500 draws: the share that holds has a deviation of 0.0044 around 0.95; 4.5 of them are allowed
    (false alarm 7e-6). Two-sided error bars hold 97.5 % where the jump is wide.
    """
    rng = np.random.default_rng(8)
    thresholds = np.arange(20.0)
    truth = jump * (thresholds - 9)
    held, many = 0, 2500
    deviation = np.hypot(1, wiggle)
    bars = np.full(20, 1.959964 * deviation)
    for _ in range(many):
        seen = truth + rng.normal() + wiggle * rng.normal(size=20)
        rising = isotonic_regression(seen).x
        low, high = passing(rising, bars, bars, -jump * 10, 1.959964, thresholds)
        held += low <= 9 <= high
    assert abs(held / many - 0.95) < 0.0196 + 0.01 * bool(wiggle), held / many


def test_a_discrete_quantile_from_above_is_duckdbs(make_release: MakeRelease) -> None:
    """It was taken for the one of 1 - p from below: 3 of the numbers 1 to 6, for 4."""
    release = make_release(pa.table({"x": [1, 2, 3, 4, 5, 6], "ill": ["a", "b"] * 3}), ["ill"])
    found = release.sql("SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x DESC) FROM release")
    assert found.value == 4
