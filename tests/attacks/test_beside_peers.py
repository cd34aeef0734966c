"""The benchmark of peers, on a table that is small enough for every test run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from benchmarks.peers import __main__ as peers
from benchmarks.peers import tables
from benchmarks.peers.chart import CHART, PAGE, points, svg
from benchmarks.peers.homogeneous import FullDomain, Mondrian
from benchmarks.peers.questions import Accuracy, Asked, ask_records
from benchmarks.peers.synthetic import DPMM, Synthesizer, domains_of
from sfumato.errors import DataError
from sfumato.release import Release


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "DATA", tmp_path_factory.mktemp("no data"))
        title, found = tables.records("census", 500)
    assert "generated" in title
    return found.select(["age", "gender", "education", "marital", tables.SENSITIVE])


def test_every_line_is_measured_and_the_others_are_skipped_by_name(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DPMM.variable, raising=False)
    monkeypatch.setattr(peers, "OURS", peers.OURS[3:4])
    monkeypatch.setattr(peers, "THEIRS", peers.THEIRS[1:2])
    found = list(peers.measured(table, questions=24, targets=100))
    lines = [each for each in found if not isinstance(each, str)]
    skipped = [each for each in found if isinstance(each, str)]
    ways = [mechanism for _, mechanism in (*peers.OURS, *peers.THEIRS)]
    assert [line.title.split(", ")[-1] for line in lines] == ways
    assert len(skipped) == len(peers.SYNTHETIC)
    assert all(DPMM.variable in text for text in skipped)
    for line in lines:
        assert len(line.accuracy.ranges) == 4  # the table has four quasi columns
        assert 0 <= line.risk.right <= 1
        assert line.risk.own[0] <= line.risk.own[1] <= line.risk.own[2]
        assert line.risk.own[1] == pytest.approx(line.risk.right - line.risk.without)
    assert "| `l-diversity(5)`, mondrian |" in peers.brief(lines)
    assert "The commonest value has" in peers.whole("people", 500, lines)


def test_the_raw_table_answers_exactly(table: pa.Table) -> None:
    asked = Asked.of(tables.declared(table), 24)
    exact = Accuracy.of(asked, ask_records(asked, table))
    assert max(exact.by_class[:2]) == 0
    assert max(exact.ranges) == 0
    assert exact.held is None
    wrong = replace(asked, truth=asked.truth * 2)
    assert Accuracy.of(wrong, ask_records(asked, table)).ranges == (0.5,) * 4


@pytest.mark.parametrize("way", [Mondrian(), FullDomain()])
def test_groups_keep_the_promise(
    table: pa.Table, way: Mondrian | FullDomain, tmp_path: Path
) -> None:
    people = tables.declared(table)
    place = tmp_path / "release"
    sf.publish(people, "l-diversity(4)", to=place, mechanism=way, seed=1)
    groups: dict[str, list[object]] = {}
    for row in pq.read_table(Release(place).records[0]).to_pylist():
        value = row.pop(tables.SENSITIVE)
        groups.setdefault(repr(row), []).append(value)
    assert len(groups) > 3
    for values in groups.values():
        commonest = max(map(values.count, values))
        assert 4 * commonest <= len(values)


def test_synthesis_says_what_it_needs(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DPMM.variable, raising=False)
    made = Synthesizer("MST", 1.0, domains_of(table))
    with pytest.raises(DataError, match=DPMM.variable):
        made(table)


def test_synthesis_makes_records(table: pa.Table) -> None:
    if not DPMM.available():
        pytest.skip(f"MST: {DPMM.missing}")
    few = table.select(["gender", tables.SENSITIVE])
    made = Synthesizer("MST", 100.0, domains_of(few))(few)
    assert made.schema.equals(few.schema)
    women = [np.count_nonzero(each["gender"].to_numpy() == "female") for each in (few, made)]
    assert abs(women[0] - women[1]) < 50  # ε = 100: the noise is below one record


def test_the_chart_is_drawn_from_the_tables_beside_it() -> None:
    found = points(PAGE.read_text("utf-8"))
    assert set(found) == set(tables.NAMES)
    assert CHART.read_text("utf-8") == svg(found)
