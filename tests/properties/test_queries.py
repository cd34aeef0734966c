"""With the identity operator every question has DuckDB's own answer on the raw table."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from sfumato.columns import Column, Values
from sfumato.operators import Uniform
from sfumato.queries import OpenedRelease, open_release
from sfumato.release import BundleWriter, Manifest

ROWS = 400
# values that nobody has, so that questions may name them: another text would be a misspelling
TEXTS = ("flu", "HIV", "F", "Oslo", "it's", "", "fl%")
STATED = dict.fromkeys(("disease", "sex", "City Name"), TEXTS)


def raw_table() -> pa.Table:
    draw = np.random.default_rng(5)

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in draw.integers(0, len(values), ROWS)], kind)

    return pa.table(
        {
            "age": some([None, *range(16, 90, 3)], pa.int16()),
            # quarters: sums in any order are exact, so HAVING cannot fall either way
            "score": some([None, -2.25, -1.0, 0.0, 0.25, 0.5, 3.0, 7.75], pa.float64()),
            "sex": some(["F", "M"], pa.string()),
            "City Name": some([None, "Oslo", "oslo", "Rome", "Lima", "it's", ""], pa.string()),
            "disease": some([None, "flu", "HIV", "none", "fl%"], pa.string()),
            "cost": some([0, 10, 25, 40], pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def raw() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("arrived", raw_table())
    connection.execute("CREATE TABLE release AS SELECT * FROM arrived")
    return connection


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> OpenedRelease:
    table = raw_table()
    place: Path = tmp_path_factory.mktemp("identity") / "release"
    sensitive = {"disease", "cost"}
    columns, operators = [], {}
    for name in table.column_names:
        found = {*table[name].unique().to_pylist(), *STATED.get(name, ())}
        values = sorted(found, key=lambda v: (v is None, v))
        role = "sensitive" if name in sensitive else "quasi"
        columns.append(
            Column(name, role, "categorical", str(table[name].type), Values(tuple(values)))  # type: ignore[arg-type]
        )
        if name in sensitive:
            operators[name] = Uniform(len(values), Fraction(1)).to_json()
    with BundleWriter(place) as bundle:
        (bundle.folder / "records").mkdir()
        pq.write_table(table, bundle.folder / "records" / "part-00000.parquet")
        bundle.finish(
            Manifest.of(
                "perturbed", {"operators": operators},
                sfumato="0", mechanism="uniform", guarantee="none", rows=ROWS,
                suppressed=0, missing="value", randomness="seeded",
                columns=tuple(columns), statement=(),
                does_not_protect=(), caveats=(),
            )
        )  # fmt: skip
    return open_release(place)


whole = st.integers(-3, 90).map(str)
quarter = st.integers(-12, 40).map(lambda n: repr(n / 4))
numeric_columns = st.sampled_from(["age", "score", "cost", "cost", "release.age"])
text_columns = st.sampled_from(["sex", '"City Name"', "disease", "disease", "DISEASE"])
texts = st.sampled_from(["'flu'", "'HIV'", "'F'", "'Oslo'", "'it''s'", "''", "'fl%'", "NULL"])
patterns = st.sampled_from(["'%l%'", "'O_lo'", "'fl%'", "'%'", "'h%'", "''"])
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM"])


def of(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda found: template.format(*found))


def numbers(predicates: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    base = st.one_of(numeric_columns, numeric_columns, whole, quarter)
    return st.one_of(
        numeric_columns,
        of("({} + {})", base, base),
        of("({} - {})", numeric_columns, base),
        of("{} * {}", numeric_columns, whole),
        of("{} // 10", st.sampled_from(["age", "cost"])),
        of("{} % 7", st.sampled_from(["age", "cost"])),
        of("-{}", numeric_columns),
        of("{} / 4", numeric_columns),
        of("abs({})", numeric_columns),
        of("floor({})", numeric_columns),
        of("coalesce({}, {})", numeric_columns, whole),
        of("nullif({}, {})", numeric_columns, whole),
        of("greatest({}, {})", numeric_columns, base),
        of("CAST({} AS DOUBLE)", numeric_columns),
        of("CAST({} AS BIGINT)", numeric_columns),
        of("length({})", text_columns),
        of("CASE WHEN {} THEN {} ELSE {} END", predicates, base, base),
        of("CASE WHEN {} THEN {} END", predicates, base),
        of("CASE disease WHEN 'flu' THEN {} WHEN 'HIV' THEN {} END", base, base),
        of("if({}, {}, {})", predicates, base, base),
    )


strings = st.one_of(
    text_columns,
    of("upper({})", text_columns),
    of("lower({})", text_columns),
    of("concat({}, {})", text_columns, text_columns),
    of("{} || {}", text_columns, text_columns),
    of("substring({}, 1, 2)", text_columns),
    of("left({}, 1)", text_columns),
    of("trim({})", text_columns),
    of("coalesce({}, {})", text_columns, text_columns),
    of("CAST({} AS VARCHAR)", st.sampled_from(["age", "cost"])),
)
atoms = st.one_of(
    of("{} {} {}", numeric_columns, comparisons, whole),
    of("{} {} {}", numeric_columns, comparisons, numeric_columns),
    of("{} {} {}", text_columns, comparisons, texts),
    of("{} = {}", text_columns, text_columns),
    of("{} BETWEEN {} AND {}", numeric_columns, whole, whole),
    of("{} NOT BETWEEN {} AND {}", numeric_columns, whole, quarter),
    of("{} IN ({}, {}, {})", text_columns, texts, texts, texts),
    of("{} NOT IN ({}, {})", numeric_columns, whole, whole),
    of("{} LIKE {}", text_columns, patterns),
    of("{} NOT LIKE {}", text_columns, patterns),
    of("{} ILIKE {}", text_columns, patterns),
    of("{} IS NULL", st.one_of(text_columns, numeric_columns)),
    of("{} IS NOT NULL", st.one_of(text_columns, numeric_columns)),
    of("starts_with({}, 'f')", text_columns),
    of("contains({}, 's')", text_columns),
    st.sampled_from(["TRUE", "1 = 1", "NULL"]),
)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        of("({} OR {})", inner, inner),
        of("({} AND {})", inner, inner),
        of("{} AND {}", inner, inner),
        of("NOT ({})", inner),
        of("({}) IS NOT TRUE", inner),
        of("CASE WHEN {} THEN {} ELSE {} END", inner, inner, inner),
    ),
    max_leaves=5,
)
numeric = numbers(atoms)
calls = st.one_of(
    st.just("COUNT(*)"),
    of("COUNT({})", st.one_of(numeric, strings)),
    of("SUM({})", numeric),
    of("AVG({})", numeric),
)
aggregates = st.one_of(calls, calls, of("{} FILTER (WHERE {})", calls, predicates))


@st.composite
def questions(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.one_of(text_columns, numeric, strings), max_size=3))
    keys = [f"{key} AS k{index}" for index, key in enumerate(keys)]
    chosen = [
        f"{call} AS a{index}"
        for index, call in enumerate(draw(st.lists(aggregates, min_size=1, max_size=3)))
    ]
    sql = f"SELECT {', '.join(draw(st.permutations(keys + chosen)))} FROM release"
    if draw(st.booleans()) or draw(st.booleans()):
        sql += f" WHERE {draw(predicates)}"
    if keys:
        sql += f" GROUP BY {', '.join(f'k{index}' for index in range(len(keys)))}"
    if draw(st.booleans()):
        limit = draw(st.sampled_from(["> 3", "<= 20", "<> 0", "IS NOT NULL", "BETWEEN -5 AND 50"]))
        having = [f"{draw(aggregates)} {limit}"]
        if keys and draw(st.booleans()):
            having.append("k0 IS NOT NULL")
        if draw(st.booleans()):
            having.append(f"{draw(aggregates)} * 2 > COUNT(*) - 1")
        sql += f" HAVING {draw(st.sampled_from([' AND ', ' OR '])).join(having)}"
    if keys and draw(st.booleans()):
        order = [f"k{index}" for index in range(len(keys))]
        if draw(st.booleans()):
            order.insert(
                0, draw(st.sampled_from(["a0 DESC", "a0", "COUNT(*) + 1", "a0 NULLS FIRST"]))
            )
        sql += f" ORDER BY {', '.join(order)}"
        if draw(st.booleans()):
            sql += f" LIMIT {draw(st.integers(0, 5))} OFFSET {draw(st.integers(0, 3))}"
    return sql


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and theirs is not None:
        return math.isclose(ours, float(theirs), rel_tol=1e-12, abs_tol=1e-9)
    return bool(ours == theirs and (ours is None) == (theirs is None))


@pytest.mark.slow
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sql=questions())
def test_identity_operator_answers_like_duckdb(
    sql: str, raw: duckdb.DuckDBPyConnection, identity: OpenedRelease
) -> None:
    cursor = raw.execute(sql)
    names = [each[0] for each in cursor.description or []]
    expected = cursor.fetchall()
    estimated = any(column in sql.lower() for column in ("disease", "cost"))
    answer = identity.sql(sql, estimator="inverse" if estimated else None)
    event("grouped" if "GROUP BY" in sql else "one row")
    event("mixed" if " OR " in sql else "no OR")
    rows = answer.rows()
    found = [tuple(row[name] for name in names) for row in rows]
    if "ORDER BY" not in sql:
        found.sort(key=repr_key)
        expected.sort(key=repr_key)
    assert len(found) == len(expected), sql
    for ours, theirs in zip(found, expected, strict=True):
        assert all(map(same, ours, theirs)), (sql, ours, theirs)
    for row in rows:
        for name in answer.aggregates:
            if row[name] is None:
                assert row[f"{name}_stderr"] is None, sql
                continue
            rounding = 0.01 + 1e-4 * abs(row[name])  # of sums of squares
            for shown, is_at in (("stderr", 0.0), ("low", row[name]), ("high", row[name])):
                assert abs(row[f"{name}_{shown}"] - is_at) <= rounding, sql


def repr_key(row: tuple[Any, ...]) -> str:
    return repr([round(float(v), 9) if isinstance(v, (int, float)) else v for v in row])
