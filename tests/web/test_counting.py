"""Counts that the page keeps: later ones are of the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.counting import count_cells
from sfumato.web.jobs import COUNTS
from sfumato.web.places import stamp
from sfumato.web.state import read_json
from sfumato.web.tasks import TASKS, _counts


def test_later_counts_are_of_the_rows_that_were_counted_first(tmp_path: Path) -> None:
    """One row of each person is drawn once: a promise that asks for cells sees the same rows."""
    people = pa.table(
        {
            "who": [k // 4 for k in range(800)],
            "age": [k // 100 for k in range(800)],
            "disease": ["a", "b", "c", "d"] * 200,
        }
    )
    path, out = tmp_path / "people.parquet", tmp_path / "profile.json"
    pq.write_table(people, path)
    roles = {"who": "person", "age": "quasi", "disease": "sensitive"}
    table = {"path": str(path), "label": "people", "stamp": stamp(path), "options": {}}
    asked = {"table": {**table, "roles": roles}, "out": str(out)}
    TASKS[COUNTS](progress=lambda *_: None, seen={"table": "t", "rows": 800}, **asked)
    shown = read_json(out)["shown"]["histogram"][0]
    counted, _ = _counts(str(out))
    cells = count_cells(counted, "disease")
    counts = np.bincount(cells.values, cells.counts, minlength=4)
    told = {bar["label"]: bar["count"] for bar in shown["bars"]}
    assert dict(zip("abcd", counts.tolist(), strict=True)) == told
