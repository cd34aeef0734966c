"""Sums on Spark's executors are those of this machine, value by value, on awkward values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from sqlglot import exp

from sfumato.queries.dialect import sql_text
from sfumato.queries.spark import SparkSums
from sfumato.queries.statements import RecordSums

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
day = datetime.date
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [None, -127, 127, 0, 1, -1, 5]),
    "i16": (pa.int16(), [None, -7, 31, 0, 3, 3000, -12]),
    "i32": (pa.int32(), [None, 2**31 - 1, -(2**31) + 1, 0, 7, -13]),
    "i64": (pa.int64(), [None, 2**63 - 1, -(2**63) + 1, 0, 2**53 + 1, -5]),
    "f": (pa.float64(), [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5,
          1e300, 5e-324, 4503599627370497.5, -1e17, 0.1, 2.0000000000000004]),
    "g": (pa.float64(), [None, -2.25, -1.0, 0.0, 0.25, 3.0, 7.75, 0.5]),
    "t": (pa.string(), [None, "", "a", "Oslo", "it's", "fl%", "a_b", "a\\b", "Ærø", "日本語", "😀x",
          "e\u0301", "line\nbreak", "x!y", "%", "100%", "\t"]),
    "u": (pa.string(), [None, "flu", "Oslo", "Z", "z", "é", "\U0001f600", "\uffff", "a"]),
    "b": (pa.bool_(), [None, True, False]),
    "d": (pa.date32(), [None, day(2020, 2, 29), day(1999, 12, 31), day(1, 1, 1), day(9999, 12, 31),
          day(1582, 10, 10), day(1970, 1, 1)]),
    "c": (pa.decimal128(6, 2), [None, Decimal("0.10"), Decimal("-3.25"), Decimal("99.99")]),
}  # fmt: skip
EXPRESSIONS = r"""
f = f · f > 1e0 · f >= 'nan'::DOUBLE · f = -0.0 · f < g · f IS NOT DISTINCT FROM g · f <> 0.1
i8 = i16 · i64 > f · i64 = 9007199254740993 · i64 < 9007199254740992.5 · c = 0.1 · c > i8 · c < f
t = u · t < u · t >= 'a' · t <> 'it''s' · t = 'a\b' · u > 'Z' · u < 'é' · t IS DISTINCT FROM u
d < '2000-01-01' · d = DATE '1582-10-10' · d BETWEEN DATE '1970-01-01' AND '2020-02-29' · b = true
t LIKE '%l%' · t LIKE 'O_lo' · t LIKE '' · t LIKE '_' · t LIKE 'a\b' · t LIKE 'a\_b' · t LIKE '%\%'
t LIKE '100!%' ESCAPE '!' · t LIKE 'x!!y' ESCAPE '!' · t LIKE 'a!_b' ESCAPE '!' · t LIKE '_x'
t LIKE '%語' · t NOT LIKE '%e%' · t LIKE 'line%' · t NOT LIKE 'a!_b' ESCAPE '!' · NOT t LIKE 'a%'
i16 IN (3, 31, NULL) · i16 NOT IN (3, 2.5) · t IN ('a', 'it''s', '日本語') · f IN (0.1, 0.5, 1e300)
d IN ('2020-02-29', '1970-01-01') · g IN (0.1, 7.75) · u NOT IN ('z', NULL)
i16 + i8 · i16 - 1 · i16 * 3 · -i16 · -f · i8 + 0.25 · i16 - 0.5 · f + g · f * g · f - 0.1 · g * i16
i16 / 4 · f / 3 · i32 / 0.25 · g / -2 · i16 // 10 · -i16 // 3 · i16 % 5 · -i16 % 5 · mod(i32, 7)
abs(i16) · abs(f) · floor(f) · ceil(f) · floor(i16) · ceil(g) · floor(g * 3)
CAST(f > 1 AS INTEGER) · CAST(g AS BIGINT) · CAST(g AS INTEGER) · CAST(i16 AS DOUBLE)
CAST(i64 AS DOUBLE) · CAST(c AS DOUBLE) · CAST(i32 AS VARCHAR) · CAST(i8 AS BIGINT)
coalesce(i8, i16, 5) · coalesce(t, u) · coalesce(f, 0.25) · nullif(i16, 3) · nullif(t, 'a')
nullif(f, g) · greatest(i8, f) · least(f, g, 1) · greatest(t, u) · least(d, DATE '2000-01-01')
CASE WHEN b THEN i8 ELSE g END · CASE WHEN f > 1 THEN 'x' WHEN b THEN t END · if(b, i8, 2.5)
CASE t WHEN 'a' THEN 1 WHEN 'it''s' THEN 2 ELSE 3 END · CASE i16 WHEN 3 THEN d END
length(t) · left(t, 2) · left(t, 0) · substring(t, 2, 2) · substr(t, 2) · t || u · t || 'it''s\'
concat(t, u, 'x') · starts_with(t, 'a') · contains(t, '本') · contains(t, '') · starts_with(t, u)
year(d) · month(d) · day(d) · quarter(d) · dayofweek(d)
b AND f > 1 · b OR NULL · NOT b · (f > 1) IS TRUE · (b) IS NOT TRUE · b IS NULL · b IS FALSE
i8 BETWEEN -1 AND 1.5 · i16 BETWEEN SYMMETRIC 31 AND 3 · f NOT BETWEEN 0 AND 1
(i16 > 3 OR t IS NULL) AND NOT (b AND f < g)
upper(t) · lower(t) · trim(t) · right(t, 1) · round(f) · round(g, 1) · sqrt(abs(g)) · ln(i16)
exp(g) · pow(g, 2) · sign(f) · f / g · f % 2 · t ILIKE 'a%' · t LIKE u
CAST(f AS VARCHAR) · CAST(d AS VARCHAR)
date_trunc('month', d) · extract(dow FROM d) · c * c · b > 0 · left(t, -1) · substring(t, -2, 1)
CAST(c AS INTEGER) · CAST(d AS TIMESTAMP)
"""


def split_up(listed: str) -> list[str]:
    return listed.strip().replace("\n", " · ").split(" · ")


class Files:
    """As much of a release as a session needs."""

    scales = None

    def __init__(self, *paths: Path) -> None:
        self.records = list(paths)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> SparkSums:
    """Each value of every column beside each of the next, more or less."""
    rows = 17 * 8
    columns: dict[str, Any] = {"id": pa.array(range(rows))}
    for place, (name, (kind, values)) in enumerate(VALUES.items()):
        step = max(1, place * 3 % len(values))
        columns[name] = pa.array(
            [values[(n * step + n // len(values)) % len(values)] for n in range(rows)], kind
        )
    folder, table = tmp_path_factory.mktemp("awkward"), pa.table(columns)
    paths = [folder / f"part-{n}.parquet" for n in range(5)]  # more than Spark runs tasks at once
    for place, path in enumerate(paths):
        pq.write_table(table.slice(place * 30, 30), path)
    return SparkSums(Files(*paths), spark)  # type: ignore[arg-type]


def over_records(expression: str) -> str:
    tree = sqlglot.parse_one(expression, dialect="duckdb")
    return sql_text(
        tree.transform(
            lambda node: (
                exp.column(node.name, table="records", quoted=True)
                if isinstance(node, exp.Column)
                else node
            )
        )
    )


def sums_of(keys: list[str], sums: list[str], where: list[str]) -> RecordSums:
    parts = (keys, sums, where)
    return RecordSums(
        *([sqlglot.parse_one(text, dialect="duckdb") for text in part] for part in parts)
    )


def test_values_are_the_same(session: SparkSums) -> None:
    every = split_up(EXPRESSIONS)
    for expressions in (every[:90], every[90:]):
        keys = [f"{over_records(each)} AS x{place}" for place, each in enumerate(expressions)]
        sums = sums_of(['"records"."id" AS id', *keys], ["count(*) AS n"], [])
        expected = session.run(f"SELECT * FROM ({sums.sql}) ORDER BY id")
        found = session.sums(sums).sort_by("id")
        assert found.schema == expected.schema
        for place, expression in enumerate(expressions):
            columns = [table.column(f"x{place}").to_pylist() for table in (expected, found)]
            assert list(map(repr, columns[0])) == list(map(repr, columns[1])), expression
            assert len(set(map(repr, columns[0]))) > 1, expression  # else it would show nothing


def test_groups_are_the_same(session: SparkSums) -> None:
    """NaN is one group, and so are 0.0 and -0.0; constants may be keys."""
    keys = [
        f"{over_records(each)} AS k{n}" for n, each in enumerate(["f", "t", "7", "'x'", "NULL"])
    ]
    moments = ['count(*) AS s0', 'sum(CAST("records"."g" AS DOUBLE)) FILTER (WHERE '
               '("records"."i16" > 0)) AS s1', 'coalesce(sum(1e0), 0.0) AS s2']  # fmt: skip
    sums = sums_of(keys, moments, [over_records("i8 >= 0 OR b IS NULL")])
    tables = [
        sorted(repr(row).replace("-0.0,", "0.0,") for row in table.to_pylist())
        for table in (session.run(sums.sql), session.sums(sums))
    ]  # quarters, so that sums are exact in any order
    assert tables[0] == tables[1]


@pytest.mark.parametrize("text", ["') OR 1=1 --", "\\'; DROP TABLE x; --", "\x00", "a\nb"])
def test_texts_cannot_leave_their_quotes(session: SparkSums, text: str) -> None:
    literal = "'" + text.replace("'", "''") + "'"
    joined = f'{literal} || "records"."t"'
    sums = sums_of([], [f"count(*) FILTER (WHERE starts_with({joined}, {literal})) AS x"], [])
    expected = session.run(sums.sql)
    assert expected.column("x")[0].as_py() > 100
    assert session.sums(sums).equals(expected)


def test_there_are_no_more_tasks_than_run_at_once(
    session: SparkSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task costs more than DuckDB's work on a small file: files share tasks."""
    asked: list[int] = []
    given = session._spark.range

    def spied(start: int, end: int, step: int, tasks: int) -> Any:
        asked.append(tasks)
        return given(start, end, step, tasks)

    monkeypatch.setattr(session._spark, "range", spied)
    found = session.sums(sums_of([], ["count(*) AS n"], []))
    assert found.column("n").to_pylist() == [17 * 8]
    assert asked == [min(5, session._spark.sparkContext.defaultParallelism)]
