"""The second wall: what DuckDB itself refuses, had the parser let it through."""

from __future__ import annotations

import gc
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import QueryError, UsageError
from sfumato.operators import FineGrain
from sfumato.queries import OpenedRelease, ask, question_plan
from sfumato.queries.session import Session, session_of

from .conftest import MakeRelease


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('{other}')",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM read_text('{folder}/manifest.json')",
        "COPY records TO '{folder}/copy.parquet'",
        "COPY records TO '{folder}/records.parquet'",
        "ATTACH '{folder}/a.db'",
        "EXPORT DATABASE '{folder}/export'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
        "SET temp_directory = '/tmp'",
        "SET memory_limit = '64GB'",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
        "SELECT * FROM tables",
        "SELECT * FROM pa",
    ],
)
def test_duckdb_reaches_the_records_and_nothing_else(
    sql: str, release: OpenedRelease, tmp_path: Path
) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    before = sorted(release.path.iterdir())
    session = Session(release)
    with pytest.raises(QueryError, match="cannot be computed"):
        # `tables` is a variable of `run`: DuckDB must not look into Python's either
        session.run(sql.format(folder=release.path, other=other), {"beside": pa.table({"a": [1]})})
    assert sorted(release.path.iterdir()) == before
    assert session.run("SELECT count(*) AS n FROM records").to_pylist() == [{"n": 10}]


@pytest.mark.parametrize("folder", ["a[1]", "b*c", "d?e", "it's {x}, y", "ünï"])
def test_odd_folder_names_are_no_patterns(
    folder: str, make_release: MakeRelease, people: pa.Table
) -> None:
    release = make_release(people, ["disease"], folder=folder)
    # what the name would match, were it a pattern
    twin = release.path.parent / folder.replace("[1]", "1").replace("*", "X").replace("?", "X")
    if twin != release.path:
        (twin / "records").mkdir(parents=True)
        pq.write_table(people, twin / "records" / "part-00000.parquet")
    assert ask(release, "SELECT COUNT(*) FROM release").value == 10


def test_a_session_is_kept_while_its_release_lives(
    make_release: MakeRelease, people: pa.Table
) -> None:
    release = make_release(people, ["disease"])
    session = session_of(release)
    assert session_of(release) is session
    assert session_of(release, 1) is not session
    setting = session.run("SELECT current_setting('temp_directory') AS folder")
    spill = Path(setting.column("folder")[0].as_py())
    assert spill.is_dir()
    del session, release
    gc.collect()
    assert not spill.exists()


def test_columns_that_differ_in_case_stay_apart(make_release: MakeRelease) -> None:
    table = pa.table({"a": [1, 2], "A": [10, 20], "a_1": [100, 200], "s": ["x", "y"]})
    release = make_release(table, ["s"], verify=False)
    answer = ask(release, "SELECT SUM(a), SUM(A) AS upper, SUM(a_1) FROM release WHERE s = 'y'")
    row = answer.rows()[0]
    assert (row["sum_a"], row["upper"], row["sum_a_1"]) == (2, 20, 200)


def test_columns_may_be_called_like_our_own(make_release: MakeRelease) -> None:
    names = ["k0", "m0", "r0", "s0", "weight", "records", "o", "p", "w0", "published", "original"]
    table = pa.table({name: [1, 2, 2] for name in names} | {"count": ["x", "y", "y"]})
    release = make_release(table, ["published", "count"])
    for name in names:
        answer = ask(
            release,
            f"SELECT {name} AS a0, COUNT(*) AS k0, SUM({name}) AS s0 FROM release "
            f"WHERE count = 'y' OR {name} = 1 OR published = 7 GROUP BY {name} ORDER BY k0",
        )
        assert [(row["a0"], row["k0"], row["s0"]) for row in answer.rows()] == [
            (1, 1, 1),
            (2, 2, 4),
        ]


def test_what_duckdb_finds_wrong_is_a_query_error(release: OpenedRelease) -> None:
    with pytest.raises(QueryError, match=r"cannot be computed: .* Check the types"):
        ask(release, "SELECT COUNT(*) FROM release WHERE age + 1 = 'old'")
    with pytest.raises(QueryError, match="cannot be computed"):
        ask(release, "SELECT SUM(CAST(disease AS INTEGER)) FROM release")
    with pytest.raises(QueryError, match="SUM needs a number; it was given VARCHAR"):
        ask(release, "SELECT SUM(city) FROM release")


def test_wrong_parameters_are_refused(release: OpenedRelease) -> None:
    sql = "SELECT COUNT(*) FROM release"
    for confidence in (0.0, 1.0, 95, float("nan")):
        with pytest.raises(UsageError, match="The 'confidence' parameter must be"):
            ask(release, sql, confidence=confidence)
    with pytest.raises(UsageError, match="The 'threads' parameter must be"):
        ask(release, sql, threads=0)
    with pytest.raises(QueryError, match=r"no estimator 'magic'\. .* shrunk, inverse"):
        ask(release, sql, estimator="magic")
    assert ask(release, sql, estimator="inverse", threads=1).value == 10


def test_too_many_cells_are_refused_before_memory_is_gone(
    make_release: MakeRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"age": list(range(4_001)), "s": [str(n) for n in range(4_001)]})
    operator = FineGrain.of([Fraction(1, 2)] * 4_001)
    release = make_release(table, ["s"], {"s": operator})
    assert ask(release, "SELECT COUNT(*) FROM release WHERE age < 10 AND s = '1'").stderr > 0
    monkeypatch.setattr(question_plan, "MOST_CELLS", 100_000)
    mixed = "SELECT COUNT(*) FROM release WHERE age % 40 = length(s)"
    with pytest.raises(QueryError, match="ties 40 combinations of quasi values to 4,001 sensitive"):
        ask(release, mixed)
    assert ask(release, "SELECT COUNT(*) FROM release WHERE age < 10 AND s = '1'").stderr > 0
