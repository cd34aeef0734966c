"""The benchmark of peers, on a table that is small enough for every test run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from benchmarks import peers
from benchmarks.other_programs import PYTHON, FullDomain, Mondrian, Synthesizer, domains_of
from sfumato.errors import DataError
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


def test_the_raw_table_answers_exactly(table: pa.Table) -> None:
    asked = peers.Asked.of(peers.declared(table), 24)
    *errors, held = peers.accuracy(asked, peers.ask_records(asked, table))
    assert [error for error in errors if error == error and error] == []
    assert held != held
    wrong = replace(asked, truth=asked.truth * 2)
    assert peers.accuracy(wrong, peers.ask_records(asked, table))[3] == 0.5


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


def test_synthesis_says_what_it_needs(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    with pytest.raises(DataError, match=PYTHON):
        Synthesizer("MST", 1.0, domains_of(table))(table)
