"""`publish --engine spark`, and what it says where Spark cannot start or read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.spark import session
from sfumato.engines.spark.session import translated

FLAGS = ("--quasi", "age,sex,region", "--sensitive", "disease")


@pytest.fixture
def warehouse(tmp_path: Path, people: Callable[..., pa.Table]) -> Path:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    for number in range(3):
        pq.write_table(people(400, seed=number), folder / f"{number}.parquet")
    return folder


def test_files_are_published_by_glob(spark: Any, cli: Any, warehouse: Path, tmp_path: Path) -> None:
    out = tmp_path / "release"
    done = cli(
        "publish", "--engine", "spark", f"{warehouse}/*.parquet", *FLAGS, "--guarantee",
        "small-sum(groups=3)", "--out", out, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["rows_published"] == 1200
    assert "(missing)" not in done.err
    assert cli("audit", f"{warehouse}/*.parquet", out).code == 0


@pytest.mark.parametrize("name", ["people.csv", "nowhere/*.parquet"])
def test_what_spark_cannot_read_is_one_sentence(
    spark: Any, cli: Any, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "release"
    done = cli(
        "publish", "--engine", "spark", tmp_path / name, *FLAGS, "--guarantee",
        "small-sum(groups=3)", "--out", out,
    )  # fmt: skip
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert not out.exists()


def test_without_java_it_says_so(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark_sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    monkeypatch.setattr(pyspark_sql.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli(
        "publish", "--engine", "spark", "people.parquet", *FLAGS, "--guarantee",
        "small-sum(groups=3)", "--out", tmp_path / "release",
    )  # fmt: skip
    assert done.code == 2
    assert done.err == (
        "sfumato: The Spark engine needs Java 17 or newer, and there is none: install it, or set "
        "JAVA_HOME to where it is.\n"
    )


def test_without_pyspark_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(sf.UsageError, match=r"pip install 'sfumato\[spark\]'"):
        session.spark_session()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "Job aborted.\n ModuleNotFoundError: No module named 'sfumato'\n",
            sf.UsageError,
            "import",
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has …", sf.UsageError, "another Python"),
        (
            "Job aborted\nCaused by: a\nCaused by: java.io.IOException: disk full",
            sf.DataError,
            "disk",
        ),
        ("", sf.DataError, "no reason given"),
    ],
)
def test_spark_errors_in_our_words(text: str, kind: type, said: str) -> None:
    error = translated(text, "people")
    assert type(error) is kind
    assert said in str(error)
    assert "\n" not in str(error)
