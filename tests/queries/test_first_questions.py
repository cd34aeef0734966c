"""What an analyst types first, and what the objects do that analysts hold in their hands."""

from __future__ import annotations

import datetime
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError

FIRST = """
SELECT COUNT(*) FROM release
SELECT disease, COUNT(*) FROM release GROUP BY disease
SELECT disease, COUNT(*) AS n FROM release GROUP BY disease ORDER BY n DESC LIMIT 3
SELECT sex, AVG(age) FROM release WHERE disease = 'd1' GROUP BY sex
SELECT DISTINCT city FROM release
SELECT COUNT(DISTINCT city) FROM release
SELECT city, COUNT(*) FROM release GROUP BY city HAVING COUNT(*) > 10
SELECT disease, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM release) AS share FROM release GROUP BY 1
SELECT disease, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM release GROUP BY disease
SELECT city, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM release GROUP BY city
SELECT city, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM release GROUP BY city
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM release
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM release WHERE disease = 'd1'
SELECT MEDIAN(age) FROM release WHERE disease = 'd2'
SELECT MIN(age), MAX(age) FROM release
SELECT MIN(day), MAX(day) FROM release
SELECT city, MAX(age) FROM release GROUP BY city
SELECT COUNT(*) FROM release WHERE city IN (SELECT city FROM release WHERE age > 60)
SELECT COUNT(*) FROM release WHERE disease = 'd1' AND city IN (SELECT city FROM release)
SELECT COUNT(*) FROM release WHERE day >= make_date(2024, 6, 1) AND disease = 'd1'
SELECT date_trunc('month', day::date) AS month, COUNT(*) FROM release GROUP BY 1 ORDER BY 1
SELECT CASE WHEN age < 40 THEN 'young' ELSE 'old' END AS who, disease, COUNT(*) FROM release GROUP BY 1, 2
WITH old AS (SELECT * FROM release WHERE age > 50) SELECT disease, COUNT(*) FROM old GROUP BY disease
SELECT CORR(age, weight), STDDEV(age) FROM release WHERE city = 'Oslo'
SELECT * FROM release
SELECT disease, COUNT(DISTINCT city) FROM release GROUP BY disease
SELECT d AS name, n FROM (SELECT disease AS d, COUNT(*) AS n FROM release GROUP BY 1) ORDER BY name
""".strip().splitlines()  # noqa: E501


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    rows = 1500
    people = pa.table(
        {
            "age": rng.integers(18, 80, rows),
            "weight": rng.normal(70, 9, rows),
            "sex": rng.choice(["F", "M"], rows),
            "city": rng.choice(["Oslo", "Rome", "Lima"], rows),
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(int(d)) for d in range(rows)],
            "disease": rng.choice([f"d{n}" for n in range(6)], rows),
        }
    )
    to = tmp_path_factory.mktemp("first") / "release"
    sf.publish(
        people, "l-diversity(3)", to=to, mechanism="optimal", quasi="age,weight,sex,city,day",
        sensitive="disease",
    )  # fmt: skip
    return to


def test_of_27_questions_24_are_answered_and_the_others_say_what_to_write(place: Path) -> None:
    release, refused = sf.open(place), []
    assert len(FIRST) == 27
    for sql in FIRST:
        try:
            assert len(release.sql(sql))
        except QueryError as error:
            refused.append(sql)
            said = str(error)
        else:
            continue
        assert re.fullmatch(r".+\. .+\.", said), said
    assert refused == FIRST[-3:]


def test_limits_of_a_sub_query_hold_before_those_outside(place: Path) -> None:
    inner = "SELECT {0}, COUNT(*) AS n FROM release GROUP BY 1 ORDER BY 1 LIMIT 3"
    release = sf.open(place)
    assert len(release.sql(f"SELECT * FROM ({inner.format('city')}) OFFSET 1")) == 2
    with pytest.raises(QueryError, match="a sub-query that groups, sorts or cuts"):
        release.sql(f"SELECT disease, n FROM ({inner.format('disease')}) OFFSET 1")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nope FROM release",
        "SELECT COUNT(*) FROM release WHERE nope = 1",
        "SELECT city, COUNT(*) FROM release GROUP BY city ORDER BY nope",
        "SELECT city, COUNT(*) FROM release GROUP BY nope",
        "SELECT COUNT(*) FILTER (WHERE nope > 1) FROM release",
        "SELECT SUM(nope) OVER () FROM release",
        "SELECT COUNT(*) FROM release WHERE city IN (SELECT nope FROM release)",
        "SELECT city FROM release UNION SELECT nope FROM release",
        "WITH c AS (SELECT city FROM release GROUP BY 1) SELECT city, nope FROM c",
        "SELECT COUNT(*) FROM release WHERE disease = 'd1' AND nope = 1",
    ],
)
def test_an_unknown_column_is_named_with_those_there_are(place: Path, sql: str) -> None:
    """Without a sensitive column it ended in a Binder Error of DuckDB."""
    with pytest.raises(
        QueryError, match=r"^The release has no column 'nope'. Columns there are: a"
    ):
        sf.open(place).sql(sql)


def test_names_that_an_answer_gives_can_be_used_where_nothing_is_estimated(place: Path) -> None:
    release = sf.open(place)
    sql = "SELECT city, COUNT(*), AVG(age) FROM release GROUP BY city HAVING avg_age > 0 ORDER BY "
    counts = [row["count"] for row in release.sql(sql + "count_low DESC").rows()]
    assert counts == sorted(counts, reverse=True)
    with pytest.raises(QueryError, match=r"computed: column .* must appear in the GROUP BY clause"):
        release.sql("SELECT city, age, COUNT(*) FROM release GROUP BY city")


def test_what_is_quoted_in_a_message_is_data(place: Path) -> None:
    """'a--b 1' was shown as 'ab=1'."""
    with pytest.raises(QueryError, match="has no value 'a--b 1'"):
        sf.open(place).sql("SELECT COUNT(*) FROM release WHERE disease = 'a--b 1'")


@pytest.mark.parametrize("table", ["read_csv('/etc/passwd')", "'people.parquet'", "people"])
def test_a_table_that_nothing_reads_is_refused_too(place: Path, table: str) -> None:
    for column in ("age", "disease"):
        with pytest.raises(QueryError, match="There is no table"):
            sf.open(place).sql(
                f"WITH unused AS (SELECT * FROM {table}) SELECT COUNT({column}) FROM release"
            )


def test_an_opened_release_and_an_answer_in_python(place: Path) -> None:
    release = sf.open(place)
    again = pickle.loads(pickle.dumps(release))
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'd1'"
    assert float(again.sql(sql)) == release.sql(sql).value
    frame = release.to_pandas()
    assert len(frame) == 1500
    assert frame.attrs["age"] == "quasi-identifier"
    assert "bucket" in frame.attrs["bucket"]
    some = release.to_pandas(sample=50, seed=1)
    assert len(some) == 50
    assert some["age"].nunique() > 20  # the files are sorted: no head of them
    assert set(dir(release)) >= {"sql", "to_pandas"}
    assert not [name for name in dir(release) if name.startswith("_")]
    assert set(dir(sf)) == {*sf.__all__, "__version__"}


def test_a_frame_without_roles_is_asked_for_them() -> None:
    with pytest.raises(sf.UsageError, match=r"Say what every column is: .* has age, ill"):
        sf.read(pa.table({"age": [1], "ill": ["flu"]}))


def test_messages_in_python_name_parameters() -> None:
    people = pa.table({"age": [1, 2], "ill": ["flu", "HIV"]})
    with pytest.raises(sf.SfumatoError) as refused:
        sf.read(people, quasi="age", sensitive="ill", count_rows="n")
    assert "--" not in str(refused.value)
    assert "--person" in refused.value.with_flags


def test_a_wide_cross_table_is_cut_to_the_terminal(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = str(sf.open(place).crosstab("disease", "age // 3 * 3 AS years"))
    table = text.rpartition("\n")[0]
    assert max(map(len, table.splitlines()[:-2])) <= 80
    assert "-0 %" not in text


def test_a_question_on_the_command_line_loads_no_library_that_it_does_not_use(place: Path) -> None:
    program = (
        "import sys; from sfumato.cli import main\n"
        "try: main()\n"
        "finally: print(sorted({'pandas', 'numpy.f2py', 'altair', 'polars'} & set(sys.modules)))"
    )
    sql = "SELECT disease, COUNT(*) FROM release GROUP BY disease"
    asked = subprocess.run(
        [sys.executable, "-c", program, "query", str(place), sql],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout.splitlines()[-1] == "[]"
    assert "d5" in asked.stdout
