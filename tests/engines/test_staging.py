"""The staged table: what counting it leaves behind."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sfumato.table import staging


@pytest.mark.parametrize("taken", [0, 1, 9])
def test_a_count_leaves_no_database_to_the_collector(
    monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """`attack` and `compare` crashed at their end, after everything was written."""
    opened: list[duckdb.DuckDBPyConnection] = []

    def remembered(**options: Any) -> duckdb.DuckDBPyConnection:
        opened.append(duckdb.connect())
        return opened[-1]

    monkeypatch.setattr(staging, "scratch_database", remembered)
    batch = pa.record_batch({"q0": [1, 2, 2]})
    people = staging.LocalPeople(batch.schema, lambda columns: iter([batch]), 3)
    batches = people.counted("q0")
    list(itertools.islice(batches, taken))
    batches.close()
    for connection in opened:
        with pytest.raises(duckdb.ConnectionException):
            connection.execute("SELECT 1")
    assert len(opened) == min(taken, 1)
