"""Averages, arithmetic of aggregates, groupings and sub-selects."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.columns import Column
from sfumato.errors import QueryError
from sfumato.operators import Uniform
from sfumato.queries import OpenedRelease
from sfumato.queries.parse import parse

from .conftest import MakeRelease

COLUMNS = [
    Column("age", "quasi", "numeric", "int64", None),
    Column("Sex", "quasi", "categorical", "string", None),
    Column("disease", "sensitive", "categorical", "string", None),
    Column("cost", "sensitive", "numeric", "int64", None),
]


def people(rows: int = 400, seed: int = 3) -> pa.Table:
    draw = np.random.default_rng(seed)
    age = draw.integers(20, 80, rows)
    disease = np.array(["flu", "HIV", "cold"])[draw.choice(3, rows, p=[0.5, 0.2, 0.3])]
    cost = np.array([10, 25, 40, 90])[np.minimum((age // 30) + draw.integers(0, 2, rows), 3)]
    return pa.table(
        {
            "age": pa.array(age, mask=draw.random(rows) < 0.05),
            "sex": np.where(draw.random(rows) < 0.4, "F", "M"),
            "disease": disease,
            "cost": cost,
        }
    )


@pytest.fixture
def identity(make_release: MakeRelease) -> OpenedRelease:
    return make_release(people(), ["disease", "cost"])


def by_duckdb(sql: str) -> list[dict[str, object]]:
    release = people()  # noqa: F841  DuckDB reads it by its name
    return duckdb.sql(sql).to_arrow_table().to_pylist()


def true_value(release: pa.Table, sql: str) -> float:
    ((found,),) = duckdb.sql(sql).fetchall()
    return float(found)


@pytest.mark.parametrize("promise", ["l-diversity(4)", "rho-privacy(0.3, 0.5)", "small-sum(4)"])
def test_averages_are_among_what_is_averaged(promise: str, tmp_path) -> None:
    """The interval of an average of few people ended far outside the column: −228 … 316 years."""
    draw = np.random.default_rng(2)
    table = pa.table({"age": draw.integers(20, 60, 900), "ill": draw.choice(list("abcdefgh"), 900)})
    sf.publish(table, promise, to=tmp_path / "r", quasi=["age"], sensitive="ill", seed=1)
    release = sf.open(tmp_path / "r")
    for ends in (20, 30), (50, 60), (20, 60):
        where = f"age >= {ends[0]} AND age < {ends[1]}"
        sql = f"SELECT ill, AVG(age) AS a FROM release WHERE {where} GROUP BY ill"
        for row in release.sql(sql).rows():
            if row["a"] is not None:
                assert 20 <= row["a_low"] <= row["a"] <= row["a_high"] < 60


def test_an_unbiased_average_is_its_sum_over_its_number(tmp_path) -> None:
    """It was cut to the column's range, which only its interval is."""
    draw = np.random.default_rng(2)
    table = pa.table({"age": draw.integers(20, 60, 900), "ill": draw.choice(list("abcdefgh"), 900)})
    sf.publish(table, "rho-privacy(0.2, 0.4)", to=tmp_path / "r", quasi=["age"], sensitive="ill",
               mechanism="uniform", seed=1)  # fmt: skip
    sql = "SELECT ill, AVG(age) AS a, SUM(age) AS s, COUNT(*) AS n FROM release WHERE age < 25 "
    rows = sf.open(tmp_path / "r").sql(sql + "GROUP BY ill", estimator="inverse").rows()
    told = [row for row in rows if row["a"] is not None]
    assert any(not 20 <= row["a"] < 60 for row in told)
    for row in told:
        assert row["a"] == pytest.approx(row["s"] / row["n"])
        assert 20 <= row["a_low"] <= row["a_high"] < 60


@pytest.mark.parametrize("promise", ["l-diversity(4)", "rho-privacy(0.3, 0.5)", "small-sum(4)"])
def test_what_is_empty_for_want_of_people_is_said(promise: str, tmp_path) -> None:
    """The age of those whose age is missing is SQL's own NULL."""
    draw = np.random.default_rng(2)
    age = pa.array(draw.integers(20, 60, 900), mask=draw.random(900) < 0.05)
    table = pa.table({"age": age, "ill": draw.choice(list("abcdefgh"), 900)})
    sf.publish(table, promise, to=tmp_path / "r", quasi=["age"], sensitive="ill", seed=1)
    release = sf.open(tmp_path / "r")
    sql = "SELECT age, {} AS a FROM release WHERE ill = 'a' GROUP BY age"
    possible = {
        row["age"] for row in release.sql(sql.format("COUNT(*)")).rows() if row["a_high"] > 0
    }
    for aggregate in ("AVG(age)", "MEDIAN(age)"):
        answer = release.sql(sql.format(aggregate))
        empty = sum(row["a"] is None and row["age"] in possible - {None} for row in answer.rows())
        assert empty
        assert answer.note.startswith(f"a is empty in {empty} of {len(answer)} rows: as far as")
        assert answer.note == answer.to_json()["note"]
        assert answer.note in str(answer)
        assert answer.note in answer._repr_html_()
        assert "a_untold" not in answer.columns
    for plain in ("COUNT(*)", "AVG(age) FILTER (WHERE age > 500)", "SUM(age) / SUM(age - age)"):
        assert not release.sql(sql.format(plain)).note
    of_nobody = "SELECT age, AVG(age) FROM release WHERE ill = 'a' AND age IS NULL GROUP BY age"
    assert not release.sql(of_nobody).note


# -- error bars ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OpenedRelease]:
    place = tmp_path_factory.mktemp("spreads")
    found = {}
    for name, guarantee, mechanism in (
        ("uniform", "rho-privacy(0.6, 0.9)", "uniform"),
        ("buckets", "l-diversity(2)", "optimal"),
        ("local", "l-diversity(2)", "local(min=50)"),
        ("splu", "small-sum(groups=3)", "splu"),
    ):
        table = people(3_000).select(["age", "sex", "disease"])
        if name == "splu":
            table = table.append_column("code", pa.array([str(n % 30) for n in range(3_000)]))
            table = table.drop(["disease"]).rename_columns(["age", "sex", "disease"])
        sf.publish(
            table,
            guarantee,
            to=place / name,
            mechanism=mechanism,
            quasi=["age", "sex"],
            sensitive="disease",
            seed=5,
        )
        found[name] = sf.open(place / name)
    return found


def row(release: OpenedRelease, sql: str) -> dict[str, float]:
    (only,) = release.sql(sql).rows()
    return only


@pytest.mark.parametrize("name", ["uniform", "buckets", "local"])
def test_the_bounds_of_a_count_move_with_it(releases, name: str) -> None:
    one = "COUNT(*) FILTER (WHERE disease = 'HIV' AND age < 22)"
    found = row(
        releases[name], f"SELECT {one} AS c, {one} - 500 AS less, 500 - {one} AS more FROM release"
    )
    for part, back in (("", ""), ("_low", "_high"), ("_high", "_low")):
        assert found[f"less{part}"] == pytest.approx(found[f"c{part}"] - 500)
        assert found[f"more{part}"] == pytest.approx(500 - found[f"c{back}"])


@pytest.mark.parametrize("name", ["uniform", "buckets", "local", "splu"])
def test_arithmetic_knows_what_its_parts_share(releases, name: str) -> None:
    release = releases[name]
    value = "1" if name == "splu" else "flu"
    one = f"COUNT(*) FILTER (WHERE disease = '{value}' AND sex = 'F')"
    found = row(
        release,
        f"SELECT {one} AS c, {one} / COUNT(*) AS share, {one} - {one} AS nothing, "
        f"2 * {one} AS twice, "
        f"AVG(age) FILTER (WHERE disease = '{value}') AS mean, "
        f"SUM(age) FILTER (WHERE disease = '{value}') / "
        f"COUNT(age) FILTER (WHERE disease = '{value}') AS ratio FROM release",
    )
    assert found["share"] == pytest.approx(found["c"] / 3_000)
    assert found["share_stderr"] == pytest.approx(found["c_stderr"] / 3_000)
    assert found["twice_stderr"] == pytest.approx(2 * found["c_stderr"])
    assert (found["nothing"], found["nothing_stderr"]) == (0.0, 0.0)
    for part in ("", "_stderr", "_low", "_high"):
        assert found[f"mean{part}"] == pytest.approx(found[f"ratio{part}"], rel=1e-9)


@pytest.mark.parametrize("name", ["uniform", "buckets", "local", "splu"])
def test_a_factor_changes_no_rule(releases, name: str) -> None:
    """Shares times 1.0 were −3.57 … 4.38, and averages times 1 reached beyond all ages."""
    part = "COUNT(*) FILTER (WHERE sex = 'F')"
    factors = {
        f"{part} / COUNT(*)": (
            (f"{part} * 1.0 / COUNT(*)", 1),
            (f"100.0 * {part} / COUNT(*)", 100),
            (f"(1 / COUNT(*)) * ({part} * 2) / 4", 0.5),
            (f"-(CAST({part} AS DOUBLE) / COUNT(*))", -1),
        ),
        "AVG(age)": (("AVG(age) * 12", 12), ("-AVG(age) / 2", -0.5)),
    }
    value = "1" if name == "splu" else "flu"
    rest = f"FROM release WHERE disease = '{value}' AND age < 30"
    for plain, scaled in factors.items():
        known = row(releases[name], f"SELECT {plain} AS a {rest}")
        for sql, factor in scaled:
            found = row(releases[name], f"SELECT {sql} AS a {rest}")
            ends = sorted(factor * known[f"a_{end}"] for end in ("low", "high"))
            assert [found["a"], found["a_stderr"], found["a_low"], found["a_high"]] == (
                pytest.approx([factor * known["a"], abs(factor) * known["a_stderr"], *ends])
            )


def test_error_bars_of_arithmetic_hold(make_release: MakeRelease) -> None:
    """600 records with flu among 2,000, redrawn 250 times: the truth is inside 95 % of the time.

    The share has a standard deviation of 0.0138; 4.5 of them (0.062) leave a false alarm of 7e-6,
    and notice an error bar that is a fifth too short (0.88).
    """
    draw = np.random.default_rng(11)
    many, rows = 250, 2_000
    age = draw.integers(20, 80, rows)
    ill = draw.random(rows) < np.where(age > 50, 0.42, 0.2)
    kept = draw.random((many, rows)) < 0.5
    shown = np.where(kept, ill, draw.random((many, rows)) < 0.5)
    world = pa.table(
        {
            "world": np.repeat(np.arange(many), rows),
            "age": np.tile(age, many),
            "disease": np.where(shown.ravel(), "flu", "no"),
        }
    )
    release = make_release(world, ["disease"], {"disease": Uniform(2, Fraction(1, 2))})
    sql = "SELECT SUM(age) / COUNT(*) - 50 AS a FROM release WHERE disease = 'flu'"
    answers = release.sql(sql.replace("SELECT", "SELECT world,") + " GROUP BY world").rows()
    true = pa.table({"age": age[ill], "disease": np.full(ill.sum(), "flu")})
    truth = float(true_value(true, sql))
    held = np.mean([each["a_low"] <= truth <= each["a_high"] for each in answers])
    assert held > 0.95 - 0.062, held


# -- sub-selects --------------------------------------------------------------------------------


NESTED = {
    "SELECT COUNT(*) AS n FROM (SELECT * FROM release WHERE cost > 10) AS r WHERE r.sex = 'F'": (
        "SELECT COUNT(*) AS n FROM release WHERE cost > 10 AND sex = 'F'"
    ),
    "WITH old AS (SELECT age AS years, disease FROM release WHERE age > 50), "
    "ill AS (SELECT years FROM old WHERE disease = 'flu' OR disease = 'HIV') "
    "SELECT AVG(years) AS n FROM ill WHERE years < 75 OR years = 78": (
        "SELECT AVG(age) AS n FROM release WHERE age > 50 AND (disease = 'flu' OR "
        "disease = 'HIV') AND (age < 75 OR age = 78)"
    ),
    "SELECT decade, COUNT(*) AS n FROM (SELECT age // 10 AS decade FROM release) GROUP BY decade": (
        "SELECT age // 10 AS decade, COUNT(*) AS n FROM release GROUP BY age // 10"
    ),
}


@pytest.mark.parametrize("sql", NESTED)
def test_a_nested_question_is_the_flat_one(identity: OpenedRelease, sql: str) -> None:
    assert identity.sql(sql).rows() == identity.sql(NESTED[sql]).rows()
    for ours, theirs in zip(
        identity.sql(sql).rows(),
        sorted(by_duckdb(sql), key=lambda r: [(v is None, v) for v in r.values()])
        if "ORDER" not in sql
        else by_duckdb(sql),
        strict=True,
    ):
        assert all(
            ours[name] == theirs[name] or math.isclose(ours[name], theirs[name], rel_tol=1e-9)
            for name in theirs
        )


REFUSED = {
    "SELECT AVG(n) FROM (SELECT Sex, COUNT(*) AS n FROM release GROUP BY Sex)": "Write one SELECT",
    "SELECT COUNT(*) FROM (SELECT age FROM release LIMIT 5)": "a sub-query that groups, sorts or",
    "WITH c AS (SELECT disease, COUNT(*) AS n FROM release GROUP BY 1) "
    "SELECT disease FROM c WHERE n > 9": "HAVING for conditions on groups",
    "SELECT COUNT(*) FROM (SELECT age FROM release) WHERE Sex = 'F'": "no column 'Sex'",
    "SELECT COUNT(*) FROM (SELECT age FROM release) a JOIN release b ON true": "a join",
    "WITH RECURSIVE r AS (SELECT age FROM release) SELECT COUNT(*) FROM r": "WITH RECURSIVE",
    "SELECT COUNT(*) FROM (SELECT age FROM release) a WHERE b.age > 3": "no table 'b'",
    "SELECT COUNT(*) / age FROM release GROUP BY age": "the column age beside aggregates",
    "SELECT SUM(cost) ^ 2 FROM release": "compute the rest from the answer",
    "SELECT CORR(age) FROM release": "an argument of Corr is missing",
    "SELECT VAR_POP(cost) FROM release": "completed tables",
    "SELECT disease, REGR_SLOPE(cost, age) FROM release GROUP BY disease": "completed tables",
    "SELECT Sex, COUNT(*) FROM release GROUP BY CUBE (age, Sex)": "several groupings at once",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_answered_is_refused_by_name(sql: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(sql, COLUMNS)
    assert REFUSED[sql] in str(caught.value)
