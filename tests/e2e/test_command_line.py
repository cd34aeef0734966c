"""The whole round on the command line: describe, publish, query, audit, generate, keygen, demo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

PROMISE = "rho-privacy(0.08, 1/3)"


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    from sfumato.datasets import GENERATORS, write_dataset

    path = tmp_path_factory.mktemp("census") / "people.parquet"
    write_dataset("census", 5000, path, 0)
    roles = GENERATORS["census"]
    return path, ("--quasi", ",".join(roles.quasi), "--sensitive", roles.sensitive)


def test_publish_query_audit(
    cli: Any, tmp_path: Path, census: tuple[Path, tuple[str, ...]]
) -> None:
    path, roles = census
    release = tmp_path / "release"
    outcome = cli("publish", path, *roles, "--guarantee", PROMISE, "--out", release, "--json")
    assert outcome.code == 0, outcome.err
    assert set(outcome.json) == {
        "release", "kind", "mechanism", "guarantee", "rows", "rows_published", "suppressed",
        "seconds", "plan", "notes", "exposure", "meanings",
    }  # fmt: skip
    assert outcome.json["release"] == str(release)
    assert outcome.json["rows"] == outcome.json["rows_published"] == 5000
    assert outcome.json["guarantee"] == PROMISE

    sql = "SELECT gender, COUNT(*) FROM release WHERE age < 40 GROUP BY gender"
    outcome = cli("query", release, sql, "--json")
    assert outcome.code == 0, outcome.err
    assert set(outcome.json) == {"columns", "rows", "estimator"}
    assert outcome.json["columns"] == ["gender", "count", "count_stderr", "count_low", "count_high"]
    assert all(set(row) == set(outcome.json["columns"]) for row in outcome.json["rows"])
    # quasi columns are published as they are: the counts are exact
    truth = pq.read_table(path).to_pylist()
    for row in outcome.json["rows"]:
        true = sum(1 for t in truth if t["gender"] == row["gender"] and t["age"] < 40)
        assert row["count"] == pytest.approx(true)
    assert cli("query", release, sql).code == 0

    outcome = cli("audit", path, release, "--json")
    assert outcome.code == 0, outcome.err
    assert set(outcome.json) == {"holds", "headline", "tested", "unseen", "findings", "exposure"}
    assert outcome.json["holds"] is True
    for finding in outcome.json["findings"]:
        assert {"check", "title", "column", "result", "holds", "value", "limit"} <= set(finding)
        assert (finding["limit"] is None) == (finding["direction"] is None)
    assert "keeps its promise" in cli("audit", path, release).out


@pytest.mark.parametrize("name", ["census", "hospital"])
def test_generate(cli: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "people.parquet"
    outcome = cli("generate", name, "--rows", 500, "--out", path, "--seed", 2, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["rows"] == 500
    names = pq.read_schema(path).names
    assert names == [*outcome.json["quasi"], *outcome.json["sensitive"]]
    outcome = cli("generate", name, "--rows", 500, "--out", path)
    assert outcome.code == 2
    assert "exists already" in outcome.err
    assert "Wrote 500 rows" in cli("generate", name, "--rows", 500, "--out", tmp_path / "b").out


def program(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The program itself, in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", "from sfumato.cli import main; main()"]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=300,
        env=environment,
    )  # fmt: skip


def test_an_error_from_the_database_is_one_line(
    census: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    """An error that is held at exit would hold its database, which then complains at length."""
    path, _ = census
    quasi = ("age", "gender")
    drop = [n for n in pq.read_schema(path).names if n not in (*quasi, "occupation")]
    done = program(
        "publish", path, "--quasi", ",".join(quasi), "--sensitive", "occupation", "--drop",
        ",".join(drop), "--guarantee", PROMISE, "--out", "release", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    question = (
        "SELECT COUNT(*) FROM release WHERE CAST(gender AS INTEGER) = 1 AND occupation = 'cook'"
    )
    done = program("query", "release", question, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("sfumato: The question cannot be computed: ")
    assert done.stderr.count("\n") == 1


def test_starting_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['sfumato', '--help']\n"
        "from sfumato.cli.app import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pyarrow', 'duckdb', 'scipy', 'sqlglot', 'cryptography'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code = "import sys, sfumato; assert not {'numpy', 'pyarrow', 'duckdb'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_demo_is_five_commands(tmp_path: Path) -> None:
    def demo(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from sfumato.cli import main; main()", "demo"]
        asked = [*command, "--rows", "5000", "--out", str(folder)]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    done = demo(tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    names = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("$ sfumato ")]
    assert names == ["init", "publish", "query", "audit", "report"]
    assert "The release keeps its promise" in done.stdout
    assert (tmp_path / "demo" / "report" / "report.html").is_file()
    (tmp_path / "mine").mkdir()
    assert demo(tmp_path / "mine").returncode == 2
