"""Spilled data stay in a private folder and go away."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
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
