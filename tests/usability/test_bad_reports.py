"""Comparisons and reports that cannot be made: one message, an exit code, nothing left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")
SMALL = ("--questions", 20, "--targets", 20, "--no-fresh", "--jobs", 1)


@pytest.fixture
def gap_file(tmp_path: Path, people: Callable[..., pa.Table]) -> Path:
    """People of whom one has no disease."""
    table = people(300)
    diseases: list[str | None] = table["disease"].to_pylist()
    diseases[3] = None
    pq.write_table(table.set_column(3, "disease", pa.array(diseases)), tmp_path / "gap.parquet")
    return tmp_path / "gap.parquet"


@pytest.fixture
def release(tmp_path: Path, people_file: Path) -> Path:
    table = sf.read(people_file, quasi="age,sex,region", sensitive="disease")
    sf.publish(table, "l-diversity(3)", to=tmp_path / "release")
    return tmp_path / "release"


def test_a_table_that_cannot_be_compared_leaves_nothing(
    cli: Any, gap_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "comparison"
    outcome = cli(
        "compare", gap_file, *ROLES, "--candidate", "l-diversity(3)", "--out", out, *SMALL
    )
    assert outcome.code == 2
    assert "--missing" in outcome.err
    assert not out.exists()


def test_a_comparison_without_any_release_says_so(
    cli: Any, people_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "comparison"
    outcome = cli(
        "compare", people_file, *ROLES, "--candidate", "l-diversity(40)", "--out", out, *SMALL
    )
    assert outcome.code == 3
    assert "was not published" in outcome.out
    assert (out / "report.html").is_file()


@pytest.mark.parametrize("named", ["nowhere.parquet", "gap.parquet"])
def test_a_report_without_its_table_leaves_nothing(
    cli: Any, release: Path, gap_file: Path, tmp_path: Path, named: str
) -> None:
    out = tmp_path / "evidence"
    outcome = cli("report", release, "--table", tmp_path / named, "--out", out)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert not out.exists()


def test_a_report_stays_out_of_releases_of_many_files(
    cli: Any, release: Path, split: Callable[[Path, Path], Path], tmp_path: Path
) -> None:
    parts = split(release, tmp_path / "parts")
    outcome = cli("report", release, "--out", parts / "evidence")
    assert outcome.code == 2
    assert "inside a release" in outcome.err
    assert sf.open(parts).sql("SELECT COUNT(*) FROM release").rows()
