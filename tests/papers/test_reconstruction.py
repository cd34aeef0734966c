"""Rerunning the paper: its tables where they hold, and what we find instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from papers import reproduce
from papers.reconstruction.data import adult
from papers.reconstruction.figures import PRINTED_ADULT, merging
from papers.tables import Reproduction

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    return reproduce("reconstruction", quick=True, out=tmp_path_factory.mktemp("reproduce"))


def test_table_2_is_the_paper_s(report: Reproduction) -> None:
    assert [row[-1] for row in report.table("Table 2").rows] == ["yes"] * 4


def test_table_1_stands_beside_what_the_noise_would_give(report: Reproduction) -> None:
    row = report.table("Table 1").rows[2]
    assert row[1] == pytest.approx(420 / 501, abs=1e-3)
    assert row[6] == pytest.approx(4 / 501)


def test_all_tables_and_figures_are_there(report: Reproduction) -> None:
    names = {table.name for table in report.tables}
    assert {"Table 1", "Table 2", "Table 4", "Table 5"} <= names
    figures = {series.name.split(",")[0] for series in report.series}
    assert figures == {f"Figure {number}" for number in range(1, 6)}


def test_sampling_costs_accuracy_in_the_order_of_its_samples(report: Reproduction) -> None:
    for name in ("ADULT, defaults", "CENSUS, defaults"):
        errors = [float(row[1] or 0) for row in report.table(name).rows]
        assert errors[0] < errors[1] < errors[3]
        assert errors[2] < errors[3]


def test_adult_merges_as_printed() -> None:
    if not (DATA / "adult.data").is_file():
        pytest.skip("adult.data is not there")
    study, _ = adult(DATA)
    rows = {row[0]: row for row in merging(study, "Table 4", PRINTED_ADULT).rows}
    assert rows["before"][1:6] == (16, 14, 5, 2, 2240)
    assert rows["after, components"][1:6] == (7, 4, 2, 2, 112)
