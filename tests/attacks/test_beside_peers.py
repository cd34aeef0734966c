"""The benchmark of peers, on a table that is small enough for every test run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from benchmarks import peers
from benchmarks.other_programs import PYTHON, FullDomain, Mondrian
from sfumato.release import Release


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "DATA", tmp_path_factory.mktemp("no data"))
        title, records = peers.records("census", 500)
    assert "generated" in title
    return records.select(["age", "gender", "education", "marital", peers.SENSITIVE])


def test_every_line_is_measured_and_the_others_are_skipped_by_name(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    monkeypatch.setattr(peers, "OURS", peers.OURS[3:4])
    monkeypatch.setattr(peers, "THEIRS", peers.THEIRS[:1])
    lines = list(peers.measured(table, questions=24, targets=100))
    assert [len(line) for line in lines] == [len(peers.HEADS)] * 4
    assert [line[0].split(", ")[-1] for line in lines[:2]] == ["uniform", "mondrian"]
    assert all(PYTHON in line[1] for line in lines[2:])


@pytest.mark.parametrize("mechanism", [Mondrian(), FullDomain()])
def test_groups_keep_the_promise(
    table: pa.Table, mechanism: Mondrian | FullDomain, tmp_path: Path
) -> None:
    sf.publish(peers.declared(table), "l-diversity(4)", to=tmp_path / "r", mechanism=mechanism)
    groups: dict[str, list[object]] = {}
    for row in pq.read_table(Release(tmp_path / "r").records[0]).to_pylist():
        value = row.pop(peers.SENSITIVE)
        groups.setdefault(repr(row), []).append(value)
    assert len(groups) > 3
    for values in groups.values():
        assert 4 * max(map(values.count, values)) <= len(values)
