"""Limits on time, memory, disk and output: one sentence, exit code 6, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.limits import (
    MAX_ROWS,
    current_limits,
    database_memory,
    limit_behind,
    memory_of_machine,
)
from sfumato.outlook.survey import survey
from sfumato.scratch import scratch_database

GROUPS = "SELECT name, COUNT(*) FROM release WHERE ill = 'd3' GROUP BY name"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of people with long names, a table of 120 columns, and a place for spilling."""
    place = tmp_path_factory.mktemp("limits")
    draw = np.random.default_rng(1)
    people = pa.table(
        {
            "name": [f"{row:06d}" + "x" * 150 for row in range(60_000)],
            "ill": [f"d{value}" for value in draw.integers(0, 50, 60_000)],
        }
    )
    sf.publish(
        people,
        "l-diversity(5)",
        mechanism="optimal",
        quasi="name",
        sensitive="ill",
        to=place / "release",
    )
    wide = {f"q{column}": draw.integers(0, 1500, 2_000) for column in range(119)}
    texts = {name: pa.array(values).cast(pa.string()) for name, values in wide.items()}
    pq.write_table(pa.table({**texts, "ill": draw.integers(0, 20, 2_000)}), place / "wide.parquet")
    (place / "temporary").mkdir()
    return place


def run(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from sfumato.cli import main; main()", *given],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--timeout", "1.5"], "This took longer than 1.5 seconds and was stopped. Ask for less"),
        (["--memory-limit", "150MB"], "This needs more memory, or disk for passing data, than"),
        (["--max-rows", "1000"], "The answer has 60,000 rows, more than 1,000. Ask for larger"),
    ],
)
def test_a_question_that_asks_too_much(folder: Path, flags: list[str], sentence: str) -> None:
    asked = run(folder, "query", "release", GROUPS, *flags)
    assert asked.returncode == 6, asked.stderr
    assert asked.stderr.startswith(f"sfumato: {sentence}")
    assert len(asked.stderr.splitlines()) == 1
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.parametrize("flag", [["--timeout", "-1"], ["--memory-limit", "much"]])
def test_a_limit_that_is_none(folder: Path, flag: list[str]) -> None:
    asked = run(folder, "query", "release", "SELECT COUNT(*) FROM release", *flag)
    assert asked.returncode == 2
    assert "takes" in asked.stderr


def test_a_timeout_in_any_thread(folder: Path) -> None:
    release = sf.open(folder / "release")
    said = []

    def ask() -> None:
        with pytest.raises(sf.LimitReached, match=r"longer than 0\.2 seconds") as raised:  # noqa: SIM117
            with sf.limited(timeout=0.2):
                release.sql(GROUPS)
        said.append(raised.value.exit_code)

    ask()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert said == [6, 6]
    assert release.sql("SELECT COUNT(*) FROM release").value == 60_000  # the session lives on


def test_a_publication_in_time(folder: Path) -> None:
    with pytest.raises(sf.LimitReached), sf.limited(timeout=1e-6):
        sf.publish(folder / "wide.parquet", "l-diversity(2)", sensitive="ill", to=folder / "late")
    assert not [path for path in folder.iterdir() if "late" in path.name]


def test_databases_are_interrupted_and_limited() -> None:
    endless = "SELECT count(*) FROM range(10_000_000) a, range(10_000_000) b WHERE a.range % 7 = 3"
    with sf.limited(timeout=0.2), pytest.raises(duckdb.InterruptException):
        scratch_database().sql(endless).fetchall()
    large = "SELECT range || repeat('x', 200) AS t FROM range(2_000_000) ORDER BY t"
    with sf.limited(memory="100MB", spill="1MB"), pytest.raises(duckdb.OutOfMemoryException) as out:
        scratch_database().sql(large).fetchall()
    assert "spill_limit=" in str(limit_behind(out.value))


def test_memory_follows_the_machine_and_the_table() -> None:
    usual = database_memory()
    assert usual < database_memory(columns=120) <= memory_of_machine() // 4
    with sf.limited(memory="400MB"):
        assert database_memory(columns=120) == 200_000_000
        with sf.limited(rows=7) as inner:
            assert (inner.memory, inner.rows) == (400_000_000, 7)
    assert (current_limits().memory, current_limits().rows) == (None, MAX_ROWS)
    assert database_memory() == usual


@pytest.mark.slow
def test_a_wide_table_is_looked_at_published_and_opened(folder: Path) -> None:
    """512 MB were not enough to count 120 columns of 2,000 rows."""
    looked = survey(folder / "wide.parquet")
    assert (looked.rows, len(looked.columns)) == (2_000, 120)
    quasi = [f"q{column}" for column in range(119)]
    made = sf.publish(
        folder / "wide.parquet",
        "l-diversity(5)",
        mechanism="optimal",
        quasi=quasi,
        sensitive="ill",
        to=folder / "wide",
    )
    assert sf.open(made.release).sql("SELECT COUNT(*) FROM release").value == 2_000
