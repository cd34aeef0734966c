"""Hundreds of generated questions, compared with DuckDB on the raw table.

Without a sensitive column an answer is the raw table's, or the question is refused with what to
write instead. The same holds with sensitive columns where every value is retained: then nothing is
estimated but by the estimators' own arithmetic.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError

ROWS = 700
NUMBERS = ("age", "weight", "price")
QUASI = ("sex", "town", *NUMBERS)
ESTIMATED = ("ill", "stay")


def raw_table() -> pa.Table:
    rng = np.random.default_rng(7)
    day = [
        datetime.date(2021, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 900, ROWS)
    ]
    weight = [None if lost else round(float(w), 2) for lost, w in
              zip(rng.random(ROWS) < 0.2, rng.normal(70, 12, ROWS), strict=True)]  # fmt: skip
    town = [None if lost else str(t) for lost, t in
            zip(rng.random(ROWS) < 0.1, rng.choice(["Oslo", "Rome", "it's", "Lima"], ROWS),
                strict=True)]  # fmt: skip
    price = [decimal.Decimal(int(p)).scaleb(-2) for p in rng.integers(-500, 9000, ROWS)]
    age = rng.integers(18, 60, ROWS)
    return pa.table(
        {
            "age": pa.array(age, pa.int16(), mask=rng.random(ROWS) < 0.05),
            "weight": weight,
            "price": pa.array(price, pa.decimal128(9, 2)),
            "sex": rng.choice(["F", "M"], ROWS),
            "town": town,
            "day": day,
            "ill": rng.choice(["flu", "HIV", "none"], ROWS, p=[0.45, 0.15, 0.4]),
            "stay": pa.array((age // 10 + rng.integers(0, 3, ROWS)).astype(np.int32)),
        }
    )


class Asked:
    """Questions drawn from a small grammar of what analysts write."""

    def __init__(self, seed: int, columns: tuple[str, ...]) -> None:
        self.rng, self.columns = random.Random(seed), columns
        self.numbers = [c for c in columns if c in (*NUMBERS, "stay")]
        self.texts = [c for c in columns if c in ("sex", "town", "ill")]

    def number(self) -> str:
        return self.rng.choice(self.numbers)

    def value(self) -> str:
        """A number, as it is or through a function."""
        one = self.number()
        ways = [
            "{0}",
            "{0}",
            "{0}",
            "abs({0})",
            "floor({0})",
            "coalesce({0}, 3)",
            "nullif({0}, 20)",
        ]
        ways += [
            "greatest({0}, 30)",
            "CAST({0} AS DOUBLE)",
            "-{0}",
            "{0} % 7",
            "if({0} > 9, 1, {0})",
        ]
        ways += ["CASE WHEN {0} > 30 THEN {0} WHEN sex = 'F' THEN 1 END", "({0} + age)", "{0} / 4"]
        return self.rng.choice(ways).format(one)

    def word(self) -> str:
        one = self.rng.choice(self.texts)
        ways = ["{0}", "{0}", "upper({0})", "lower({0})", "{0} || sex", "substring({0}, 1, 2)"]
        ways += ["left({0}, 1)", "trim({0})", "coalesce({0}, '?')", "concat({0}, town)"]
        return self.rng.choice(ways).format(one)

    def condition(self) -> str:
        pick, one, text = self.rng.choice, self.number(), self.rng.choice(self.texts)
        values = {"sex": "'F', 'M'", "town": "'Oslo', 'it''s'", "ill": "'flu', 'none'"}[text]
        return pick(
            [
                f"{one} > {self.rng.randint(1, 60)}",
                f"{one} BETWEEN {self.rng.randint(1, 30)} AND {self.rng.randint(25, 80)}",
                f"{one} BETWEEN SYMMETRIC {self.rng.randint(30, 80)} AND {self.rng.randint(1, 30)}",
                f"{text} IN ({values})",
                f"{text} NOT IN ({values})",
                f"{text} LIKE '%o%'",
                f"{one} IS NOT NULL",
                "town IS NULL",
                f"NOT ({one} < {self.rng.randint(1, 60)})",
                f"day >= DATE '2021-{self.rng.randint(1, 12):02}-15'",
                f"{one} > 20 OR {text} IN ({values})",
                f"{self.value()} < 50",
                f"{text} NOT LIKE '_o%'",
                f"{text} ILIKE 'f%'",
                f"starts_with({self.word()}, 'f')",
                f"contains({text}, 's')",
                f"{one} IS NOT DISTINCT FROM {self.number()}",
                f"{one} NOT IN (20, 21)",
                f"({one} > 30) IS NOT TRUE",
                f"length({self.word()}) > 4",
            ]
        )

    def where(self) -> str:
        parts = [self.condition() for _ in range(self.rng.randint(0, 2))]
        return " WHERE " + " AND ".join(f"({part})" for part in parts) if parts else ""

    def aggregate(self) -> str:
        one = self.number()
        return self.rng.choice(
            [
                "COUNT(*)",
                f"COUNT({self.value()})",
                f"COUNT({self.word()})",
                f"SUM({self.value()})",
                f"SUM({self.value()}) FILTER (WHERE {self.condition()})",
                f"AVG({self.value()})",
                f"COUNT(*) FILTER (WHERE {self.condition()})",
                f"AVG(CASE WHEN {self.condition()} THEN 1.0 ELSE 0 END)",
                f"100.0 * COUNT({one}) / COUNT(*)",
                f"SUM({one} * 2 + 1)",
            ]
        )

    def simple(self) -> str:
        key = self.rng.choice([*self.texts, self.word(), "year(day)", "sex, town"])
        items = ", ".join(f"{self.aggregate()} AS a{n}" for n in range(self.rng.randint(1, 3)))
        if self.rng.random() < 0.4:
            return f"SELECT {items} FROM release{self.where()}"
        having = self.rng.choice(["", "", " HAVING COUNT(*) > 30"])
        having += self.rng.choice(["", f" ORDER BY {key} NULLS FIRST LIMIT 4 OFFSET 1"])
        return f"SELECT {key}, {items} FROM release{self.where()} GROUP BY ALL{having}".replace(
            "GROUP BY ALL", f"GROUP BY {key}"
        )

    def rich(self) -> str:
        """What only DuckDB answers whole."""
        one, text, where = self.number(), self.rng.choice(self.texts), self.where()
        inner = f"SELECT {text} AS t, COUNT(*) AS n, AVG({one}) AS m FROM release{where} GROUP BY 1"
        return self.rng.choice(
            [
                f"SELECT DISTINCT {text}, sex FROM release{where}",
                f"SELECT COUNT(DISTINCT {one}) AS n FROM release{where}",
                f"SELECT VAR_POP({one}) AS v, CORR({one}, age) AS c FROM release{where}",
                f"SELECT {text}, STDDEV({one}) AS d FROM release{where} GROUP BY 1",
                f"SELECT {text}, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM release GROUP BY 1",
                f"SELECT {text}, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM release GROUP BY 1",
                f"SELECT {text}, 1.0 * COUNT(*) / (SELECT COUNT(*) FROM release{where}) AS share "
                f"FROM release{where} GROUP BY 1",
                "SELECT PERCENTILE_CONT(0.3) WITHIN GROUP "
                f"(ORDER BY {one}) AS q FROM release{where}",
                f"SELECT {text}, MEDIAN({one}) AS q FROM release{where} GROUP BY 1",
                f"SELECT MIN({one}) AS low, MAX({one}) AS high, MIN(day) FROM release{where}",
                f"SELECT {text}, MAX(day) AS last FROM release{where} GROUP BY 1",
                f"SELECT COUNT(*) FROM release WHERE {one} IN (SELECT {one} FROM release{where})",
                f"SELECT COUNT(*) AS n FROM release WHERE {one} > (SELECT AVG({one}) FROM release)",
                "SELECT date_trunc('month', day::date) AS m, COUNT(*) AS n FROM release GROUP BY 1",
                "SELECT COUNT(*) AS n FROM release WHERE day < make_date(2022, 3, 1)",
                f"WITH c AS ({inner}) SELECT t, n FROM c WHERE n > 20 ORDER BY n DESC, t",
                f"SELECT t AS name, m FROM ({inner}) ORDER BY name NULLS LAST",
                f"SELECT AVG(n) AS a, MAX(n) AS b FROM ({inner})",
                f"SELECT * FROM ({inner} ORDER BY n DESC, t LIMIT 3) OFFSET 1",
                f"SELECT {text} FROM release{where} UNION SELECT sex FROM release",
                f"SELECT QUANTILE_DISC({one}, 0.8) AS q FROM release{where}",
                f"SELECT {text}, COUNT(*) FROM release GROUP BY 1 ORDER BY 2, 1 LIMIT 2 OFFSET 1",
            ]
        )


def outcome(ask: Any, sql: str) -> Any:
    """The answer's rows, its errors apart; or the refusal."""
    try:
        found = ask(sql)
    except QueryError as refused:
        return str(refused)
    errors = {f"{name}_{end}" for name in found.aggregates for end in ("stderr", "low", "high")}
    kept = [name for name in found.columns if name not in errors]
    return [tuple(row[name] for name in kept) for row in found.rows()]


def of_raw(raw: pa.Table, sql: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("release", raw)
    # DuckDB has it not
    sql = re.sub(
        r"BETWEEN SYMMETRIC (\S+) AND (\d+)",
        lambda m: "BETWEEN {} AND {}".format(*sorted(m.groups(), key=float)),
        sql,
    )
    return connection.sql(sql).fetchall()


def plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | decimal.Decimal):
        return round(float(value), 5) + 0.0 if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, datetime.date) else value


def same(found: list[tuple[Any, ...]], known: list[tuple[Any, ...]], in_order: bool) -> bool:
    one, other = ([tuple(map(plain, row)) for row in rows] for rows in (found, known))
    if not in_order:
        one, other = (sorted(rows, key=repr) for rows in (one, other))
    if len(one) != len(other):
        return False
    return all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-4)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for row, there in zip(one, other, strict=True)
        for a, b in zip(row, there, strict=True)
    )


def wrong_ones(release: Any, raw: pa.Table, questions: list[str]) -> tuple[list[Any], int]:
    """Those answered otherwise than by DuckDB on the raw table, and how many were refused."""
    wrong, refused = [], 0
    for sql in questions:
        found = outcome(release.sql, sql)
        if isinstance(found, str):
            assert re.fullmatch(r".+[.?] .+\.", found), f"{sql}: no hint in {found}"
            refused += 1
        elif not same(found, known := of_raw(raw, sql), "ORDER BY" in sql.rpartition(")")[2]):
            wrong.append((sql, found[:4], known[:4]))
    return wrong, refused


def test_without_a_sensitive_column_the_answer_is_duckdbs(make_release: Any) -> None:
    raw = raw_table()
    release = make_release(raw, list(ESTIMATED))
    asked = Asked(1, QUASI)
    questions = [asked.simple() for _ in range(120)] + [asked.rich() for _ in range(100)]
    wrong, refused = wrong_ones(release, raw, questions)
    assert not wrong, wrong[:3]
    assert refused == 0


def test_a_cut_of_what_a_sub_query_put_in_order_is_by_that_order(make_release: Any) -> None:
    """The rows were put in the order of their keys first."""
    raw = raw_table()
    inner = "SELECT town AS t, COUNT(*) AS n FROM release GROUP BY 1 ORDER BY n, t DESC LIMIT 3"
    questions = [f"SELECT * FROM ({inner}) {cut}" for cut in ("OFFSET 1", "LIMIT 1", "LIMIT 2")]
    questions.append(f"WITH c AS ({inner}) SELECT t FROM c LIMIT 2")
    release = make_release(raw, list(ESTIMATED))
    for sql in questions:
        (wrong, refused) = wrong_ones(release, raw, [sql])
        assert not wrong
        assert not refused


def test_where_every_value_is_retained_estimates_are_the_truth(make_release: Any) -> None:
    raw = raw_table()
    release = make_release(raw, list(ESTIMATED))
    asked = Asked(2, (*QUASI, *ESTIMATED, *ESTIMATED))
    questions = [asked.simple() for _ in range(70)] + [asked.rich() for _ in range(20)]
    about = [sql for sql in questions if any(name in sql for name in ESTIMATED)]
    wrong, refused = wrong_ones(release, raw, about)
    assert not wrong, wrong[:3]
    assert len(about) - refused >= 35


@pytest.mark.parametrize(
    "condition",
    [
        "day IN (SELECT day FROM release WHERE age > 50)",
        "day NOT IN (SELECT day FROM release WHERE age > 40)",
        "day > (SELECT MIN(day) FROM release WHERE sex = 'F')",
        "price IN (SELECT price FROM release WHERE age > 50)",
        "price >= (SELECT AVG(price) FROM release)",
        "weight NOT IN (SELECT weight FROM release WHERE age > 50)",
        "weight NOT IN (SELECT weight FROM release WHERE age > 30 AND weight IS NOT NULL)",
        "weight = (SELECT MAX(weight) FROM release)",
        "age NOT IN (SELECT age FROM release WHERE age > 99)",
        "age = (SELECT age FROM release WHERE age > 99)",
    ],
)
def test_what_a_sub_query_finds_is_compared_as_it_is(make_release: Any, condition: str) -> None:
    raw = raw_table()
    sql = f"SELECT COUNT(*) FROM release WHERE ill = 'flu' AND {condition}"
    found = make_release(raw, list(ESTIMATED)).sql(sql)
    assert found.value == pytest.approx(of_raw(raw, sql)[0][0])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(a) AS c, COUNT(*) AS n FROM (SELECT sex AS a, ill AS i FROM release) "
        "WHERE i = 'flu' GROUP BY c",
        "SELECT d, COUNT(*) AS n FROM (SELECT *, age // 10 AS d FROM release) WHERE ill = 'flu' "
        "GROUP BY d",
        "SELECT sex, COUNT(*) AS n FROM (SELECT *, 'x' AS sex FROM release) WHERE ill = 'flu' "
        "GROUP BY sex",
        "SELECT a, COUNT(ill) AS n FROM (SELECT sex AS a, town AS a, ill FROM release) GROUP BY a",
    ],
)
def test_numbers_and_aliases_of_a_sub_query_are_its_own(make_release: Any, sql: str) -> None:
    raw = raw_table()
    release = make_release(raw, list(ESTIMATED))
    assert wrong_ones(release, raw, [sql]) == ([], 0)


def test_a_sub_query_of_two_columns_is_no_list_of_values(make_release: Any) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE ill = 'flu' AND age IN (SELECT age, sex FROM release)"
    with pytest.raises(QueryError):
        make_release(raw_table(), list(ESTIMATED)).sql(sql)


def test_ranges_at_the_edges_of_bins(tmp_path: Path) -> None:
    """Both with and without a sensitive column, which one condition then touches."""
    raw = raw_table()
    sf.publish(
        raw, "l-diversity(2)", to=tmp_path / "r", mechanism="optimal", missing="value",
        quasi="age,weight,price,sex,town,day", sensitive="ill", drop="stay",
        bins={"age": "18,30,45,60"}, left_out=1,
    )  # fmt: skip
    release = sf.open(tmp_path / "r")
    for condition in (
        "age >= 30", "age < 45", "30 <= age", "age BETWEEN SYMMETRIC 60 AND 18", "NOT age < 30",
        "age >= 30 AND age < 45", "age IS NULL", "age IS NOT NULL AND weight > 70",
    ):  # fmt: skip
        sql = f"SELECT COUNT(*) FROM release WHERE {condition}"
        assert release.sql(sql).value == of_raw(raw, sql)[0][0], sql
        both = f"{sql} AND ill IN ('flu', 'HIV', 'none')"
        assert release.sql(both).value == pytest.approx(of_raw(raw, sql)[0][0]), both


def test_the_comparison_can_fail(make_release: Any) -> None:
    """Other people are noticed."""
    raw = raw_table()
    release = make_release(raw, list(ESTIMATED))
    asked = Asked(1, QUASI)
    questions = [asked.simple() for _ in range(30)]
    assert len(wrong_ones(release, raw.slice(20), questions)[0]) >= 15


def test_what_a_sub_query_finds_in_another_column_is_no_misspelling(make_release: Any) -> None:
    """It was refused: "Column 'sex' has no value 'Oslo'", which nobody had written."""
    raw = raw_table()
    sql = "SELECT COUNT(*) FROM release WHERE ill = 'flu' AND sex {} (SELECT town FROM release{})"
    release = make_release(raw, list(ESTIMATED))
    for form, where in (("IN", ""), ("NOT IN", " WHERE town IS NOT NULL")):
        asked = sql.format(form, where)
        assert release.sql(asked).value == pytest.approx(of_raw(raw, asked)[0][0])
