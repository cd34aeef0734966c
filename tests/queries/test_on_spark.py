"""The same questions to the same releases, here and on Spark: the same answers."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError, UsageError
from sfumato.queries import OpenedRelease, ask, open_release
from sfumato.queries.session import session_of
from sfumato.queries.spark import SparkSums
from sfumato.queries.statements import RecordSums, count, named

from .conftest import MakeRelease

WAYS = {
    "uniform": "rho-privacy(0.2, 0.5)",
    "fine-grain": "fine-rho-privacy(theta=3)",
    "general": "fine-rho-privacy(theta=3)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "resample": "rho-privacy(0.2, 0.5)",
    "optimal": "l-diversity(3)",
    "two-size": "l-diversity(3)",
    "optimal(fakes=1)": "l-diversity(3)",
}
QUESTIONS = (
    "SELECT sex, disease, COUNT(*) FILTER (WHERE city NOT LIKE 'Oslo' OR disease < 'd05'), "
    "COUNT(*) FROM release GROUP BY 1, 2 HAVING COUNT(*) > 3 ORDER BY disease DESC "
    "LIMIT 9 OFFSET 1",
    "SELECT upper(city) AS u, COUNT(*) FROM release WHERE disease LIKE 'd0%' GROUP BY u",
)
NUMBERS = (
    "SELECT age // 10 * 10 AS years, AVG(score), SUM(age) FROM release WHERE disease = 'd03' "
    "GROUP BY years",
)
MORE = (
    "SELECT COUNT(*) FROM release",
    "SELECT COUNT(*) FROM release WHERE sex = 'F' OR disease IN ('d01', 'd02') OR city IS NULL",
    "SELECT AVG(age), SUM(score) FILTER (WHERE disease < 'd05'), COUNT(score) FROM release",
    "SELECT disease, AVG(CASE WHEN disease = 'd01' THEN age ELSE score END) FROM release "
    "WHERE age BETWEEN 25 AND 45 GROUP BY disease",
)
WISHES: dict[str, list[dict[str, Any]]] = {
    "uniform": [{"keys": True}, {"estimator": "em"}],
    "optimal": [{"estimator": "inverse", "confidence": 0.5}],
}

Published = Callable[[str], tuple[OpenedRelease, OpenedRelease]]


def people() -> pa.Table:
    rng = np.random.default_rng(3)
    rows = 1500
    return pa.table(
        {
            "age": pa.array(rng.integers(20, 50, rows), pa.int16()),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "city": pa.array(
                [["Oslo", "oslo", None, "Ærø", ""][i] for i in rng.integers(0, 5, rows)]
            ),
            "score": pa.array(rng.normal(size=rows).round(2), mask=rng.random(rows) < 0.1),
            "disease": np.array([f"d{i:02d}" for i in rng.integers(0, 12, rows)]),
        }
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, split: Any, spark: Any) -> Published:
    """A release by a mechanism asked here, and the same in parts asked on Spark."""
    made: dict[str, tuple[OpenedRelease, OpenedRelease]] = {}

    def publish(way: str) -> tuple[OpenedRelease, OpenedRelease]:
        if way not in made:
            folder = tmp_path_factory.mktemp("way")
            columns = "sex,city" if way == "sps" else "age,sex,city,score"
            table = sf.read(
                people(),
                quasi=columns,
                sensitive="disease",
                drop="age,score" if way == "sps" else "",
            )
            sf.publish(table, WAYS[way], to=folder / "whole", mechanism=way)
            parts = split(folder / "whole", folder / "split")
            made[way] = open_release(folder / "whole"), open_release(parts, engine=spark)
        return made[way]

    return publish


def assert_alike(expected: pa.Table, found: pa.Table, note: str = "") -> None:
    """Equal to 1e-9, of the same types, with the same values missing."""
    assert expected.schema == found.schema, note
    assert expected.num_rows == found.num_rows, note
    for name in expected.column_names:
        one, other = (table.column(name).combine_chunks() for table in (expected, found))
        if pa.types.is_floating(one.type):
            assert one.is_null().equals(other.is_null()), (note, name)
            # estimates near 0 are differences of numbers as large as the table
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * 1500, err_msg=note)
        else:
            assert one.equals(other), (note, name, one, other)


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_release(published: Published, way: str) -> None:
    here, there = published(way)
    questions = QUESTIONS if way == "sps" else NUMBERS + QUESTIONS[:1]
    for sql in (*questions, *(QUESTIONS[1:] + MORE if way == "uniform" else ())):
        assert_alike(here.sql(sql).table, there.sql(sql).table, sql)
    sql = "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease"
    for wish in WISHES.get(way, ()):
        assert_alike(here.sql(sql, **wish).table, there.sql(sql, **wish).table, f"{wish}")


def test_what_duckdb_refuses_is_refused_alike(published: Published) -> None:
    here, there = published("uniform")
    for inside in (
        "SUM(CAST(city AS INTEGER))",
        "SUM(age + 32750)",  # a SMALLINT that is too large: only an executor finds that
        "SUM(city)",
        "COUNT(*) FILTER (WHERE age // (age - age) > 1)",
    ):
        messages = []
        for release in (here, there):
            with pytest.raises(QueryError) as refused:
                release.sql(f"SELECT {inside} FROM release")
            messages.append(str(refused.value))
        assert messages[0] == messages[1]


def test_the_callers_spark_session_stays_as_it_was(published: Published, spark: Any) -> None:
    before = dict(spark.conf.getAll)
    _, there = published("uniform")
    there.sql("SELECT COUNT(*) FROM release WHERE sex = 'F'")
    assert dict(spark.conf.getAll) == before
    assert spark.catalog.listTables() == []


def test_a_release_that_executors_do_not_find(
    published: Published, spark: Any, tmp_path: Path
) -> None:
    here, _ = published("uniform")
    place = shutil.copytree(here.path, tmp_path / "r")
    session = session_of(open_release(place), engine=spark)
    assert isinstance(session, SparkSums)
    session.paths[0] = tmp_path / "elsewhere.parquet"
    with pytest.raises(QueryError, match="does not find the files of the release"):
        session.sums(RecordSums([], [named(count(), "s0")], []))


def test_a_session_that_was_stopped(published: Published) -> None:
    here, _ = published("uniform")

    class Context:
        _jsc = None

    class Stopped:
        _sc = Context()

        def newSession(self) -> None:
            raise AssertionError

    with pytest.raises(UsageError, match="The Spark session was stopped"):
        ask(here, "SELECT COUNT(*) FROM release", engine=Stopped())


def test_published_and_asked_on_spark(spark: Any, tmp_path: Path) -> None:
    """A table that never leaves Spark, and its release."""
    frame = spark.createDataFrame(people().select(["age", "sex", "disease"]))
    for way in ("uniform", "optimal"):
        table = sf.read(frame, quasi="age,sex", sensitive="disease")
        sf.publish(table, WAYS[way], to=tmp_path / way, mechanism=way)
        here, there = open_release(tmp_path / way), open_release(tmp_path / way, engine=spark)
        sql = "SELECT sex, disease, COUNT(*), AVG(age) FROM release WHERE age > 30 GROUP BY 1, 2"
        assert_alike(here.sql(sql).table, there.sql(sql).table, way)


NAMES = [
    "City Name",
    'a"b',
    "back`tick",
    "dot.ted",
    "age",
    "Age",
    "c0",
    "records",
    "naïve 日",
    "x=1",
]


def test_columns_with_odd_names(make_release: MakeRelease, spark: Any) -> None:
    columns: dict[str, Any] = {name: [n, n + 1, n + 2, None] for n, name in enumerate(NAMES)}
    columns["s;--"] = ["it's", "a\\b", '"q"', "it's"]
    release = make_release(pa.table(columns), ["s;--"], folder="odd [x]* sex=F {a,b}")
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    sums = ", ".join(f"SUM({name}) AS total{n}" for n, name in enumerate(quoted))
    for value in ("it''s", "a\\b", '"q"'):
        sql = f"SELECT {sums} FROM release WHERE \"s;--\" = '{value}' AND {quoted[4]} >= 0"
        assert_alike(ask(release, sql).table, ask(release, sql, engine=spark).table, value)


def test_types_that_spark_does_not_have(make_release: MakeRelease, spark: Any) -> None:
    at = datetime.datetime(2020, 5, 17, 3, 4, 5, 678901)
    table = pa.table(
        {
            "small": pa.array([1, 2, 250], pa.uint8()),
            "single": pa.array([0.1, 0.2, None], pa.float32()),
            "nanos": pa.array([at, None, at], pa.timestamp("ns")),
            "zoned": pa.array([at, None, at], pa.timestamp("us", "UTC")),
            "clock": pa.array([at.time(), None, at.time()], pa.time64("us")),
            "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
            "s": ["a", "b", "a"],
        }
    )
    release = make_release(table, ["s"], verify=False)
    for name in table.column_names[:-1]:
        sql = f"SELECT {name}, COUNT(*) FROM release WHERE s = 'a' GROUP BY {name}"
        assert_alike(ask(release, sql).table, ask(release, sql, engine=spark).table, name)


def test_engines_that_there_are_not(
    published: Published, make_release: MakeRelease, tmp_path: Path, spark: Any
) -> None:
    here, _ = published("uniform")
    for engine in ("duckdb", 3):
        with pytest.raises(UsageError, match="'engine' parameter must be"):
            open_release(here.path, engine=engine)
    table = sf.read(people().select(["age", "disease"]), quasi="age", sensitive="disease")
    sf.publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="ring")
    with pytest.raises(QueryError, match="answered on this machine"):
        open_release(tmp_path / "r", engine=spark).sql("SELECT COUNT(*) FROM release")


def test_the_command_line(published: Published, cli: Any, spark: Any) -> None:
    here, there = published("uniform")
    sql = "SELECT disease, COUNT(*) FROM release WHERE sex = 'F' GROUP BY disease"
    found = cli("query", there.path, sql, "--engine", "spark", "--json")
    assert found.code == 0, found.err
    assert [row["disease"] for row in found.json["rows"]] == [
        row["disease"] for row in here.sql(sql).rows()
    ]
    assert cli("query", there.path, sql, "--engine", "hive").code == 2
