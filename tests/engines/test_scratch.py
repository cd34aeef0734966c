"""Spilled data stay in a private folder and go away."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import scratch
from sfumato.engines import counting
from sfumato.scratch import scratch_database


def test_the_spill_folder_is_private_and_goes_away_with_the_connection() -> None:
    connection = scratch_database()
    place = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]
    assert Path(place).is_dir()
    assert Path(place).stat().st_mode & 0o077 == 0
    del connection
    gc.collect()
    assert not Path(place).exists()


def test_counting_more_than_fits_leaves_nothing_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sfumato.scratch.database_memory", lambda columns: 16_000_000)
    rows = 400_000
    people = pa.table(
        {"id": [f"person number {i:09}" for i in range(rows)], "s": ["a", "b"] * (rows // 2)}
    )
    table = sf.read(people, quasi=[], sensitive="s", key="id")
    assert counting.check_keys(table) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("promise", ["l-diversity(2)", "reconstruction-privacy(0.3, 0.3)"])
def test_an_audit_lets_go_of_its_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promise: str
) -> None:
    """A case that held its connections would never be freed: they hold its stream."""
    made: list[weakref.ref[object]] = []

    def watched() -> object:
        connection = scratch_database()
        made.append(weakref.ref(connection))
        return connection

    monkeypatch.setattr("sfumato.audits.case.scratch_database", watched)
    people = pa.table({"age": list(range(40)) * 5, "s": ["a", "b", "c", "d"] * 50})
    table = sf.read(people, quasi="age", sensitive="s")
    sf.publish(table, promise, to=tmp_path / "release")
    assert sf.audit(table, tmp_path / "release").holds
    gc.collect()
    assert made
    assert all(reference() is None for reference in made)


def test_a_database_is_taken_again_with_nothing_of_its_last_user() -> None:
    first = scratch_database(threads=1, columns=50, without=("filter_pushdown",))
    first.execute("CREATE TABLE people AS SELECT 1 AS a; SET TimeZone = 'Asia/Tokyo'")
    first.register("shown", pa.table({"a": [1]}))
    del first
    gc.collect()
    with sf.limited(memory="400MB", spill="3MB"):
        second = scratch_database()
    names = (
        "memory_limit",
        "max_temp_directory_size",
        "threads",
        "disabled_optimizers",
        "TimeZone",
    )
    fresh = duckdb.connect(config={"memory_limit": "200MB", "max_temp_directory_size": "3MB"})
    asked = ", ".join(f"current_setting('{name}')" for name in names)
    assert second.sql(f"SELECT {asked}").fetchall() == fresh.sql(f"SELECT {asked}").fetchall()
    for name in ("people", "shown"):
        with pytest.raises(duckdb.CatalogException, match="does not exist"):
            second.sql(f"SELECT * FROM {name}")
    second.execute("CREATE TABLE people AS SELECT 2 AS a")
    beside = scratch_database()  # two at once do not see each other either
    with pytest.raises(duckdb.CatalogException, match="does not exist"):
        beside.sql("SELECT * FROM people")


def test_a_database_that_wrote_beside_it_is_not_taken_again() -> None:
    scratch._idle.clear()
    with sf.limited(memory="60MB"):
        connection = scratch_database()
    place = Path(connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0])
    connection.execute("CREATE TABLE large AS SELECT range, hash(range) FROM range(6_000_000)")
    assert list(place.iterdir())
    del connection
    gc.collect()
    assert not place.exists()
    assert not scratch._idle
    assert scratch_database().sql("SELECT 1").fetchall() == [(1,)]


def test_one_that_counted_whole_tables_is_not_kept() -> None:
    """DuckDB keeps the memory that it once needed as long as it is open."""
    scratch._idle.clear()
    for counting_all in (True, False):
        connection = scratch_database(counting=counting_all)
        connection.execute("SELECT 1")
        del connection
        gc.collect()
        assert bool(scratch._idle) is not counting_all


KILLED = """
import os, signal, sys
import pyarrow as pa
from sfumato.table import spool
spooled = spool.Spool()
for _ in range(20):
    spooled.add(pa.record_batch({"ill": pa.array(["flu"] * 200_000)}))
assert spooled._files and sum(batch.num_rows for batch in spooled) == 4_000_000
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_nothing_of_the_table(tmp_path: Path) -> None:
    """What was staged lies in files without a name: the system takes them with the process."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False
    )
    assert ended.returncode == -9
    assert list(tmp_path.iterdir()) == []


WORKER = """
import queue
from sfumato import processes
from sfumato.scratch import scratch_folder
class Owner: ...
owner = Owner()
(scratch_folder(owner) / "raw").write_text("of people")
print("there", flush=True)
processes._watch(queue.Queue())
"""


def test_a_process_whose_parent_is_killed_leaves_no_folder(tmp_path: Path) -> None:
    """It ends without what Python does at exit."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(temporary)}, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.stdin.close()
        assert process.wait(30) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
