"""The thesis rerun: the tolerances of the issue, and the pages."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from papers import PAPERS, reproduce
from papers.tables import Reproduction
from sfumato.errors import UsageError

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def report(pages: Path) -> Reproduction:
    """CENSUS where it is, generated data where it is not."""
    steps: list[float] = []
    found = reproduce(
        "perturbation",
        out=pages,
        quick=True,
        data_dir=DATA if DATA.is_dir() else None,
        progress=lambda what, share: steps.append(share),
    )
    assert steps == sorted(steps)
    assert steps[-1] == 1.0
    return found


def column(report: Reproduction, table: str, name: str) -> list[float]:
    found = report.table(table)
    index = found.columns.index(name)
    return [float(row[index]) for row in found.rows]  # type: ignore[arg-type]


def test_table_1(report: Reproduction) -> None:
    for name in ("p", "q"):
        ours = column(report, "Table 1", name)
        assert [round(our) for our in ours] == column(report, "Table 1", f"{name} (paper)")


def test_table_3(report: Reproduction) -> None:
    if not DATA.is_dir():
        pytest.skip("CENSUS occ100k.parquet is not here (SFUMATO_DATA)")
    assert [round(p, 1) for p in column(report, "Table 3", "uniform")] == [2.9, 4.0, 5.9, 9.4]
    ours = column(report, "Table 3", "partitioned")
    assert np.abs(np.subtract(ours, [9.0, 12.3, 17.3, 25.7])).max() <= 1.0


def test_table_5(report: Reproduction) -> None:
    ours = column(report, "Table 5", "partitioned")
    printed = column(report, "Table 5", "partitioned (paper)")
    ratio = np.divide(ours, printed)
    assert ratio[1:] == pytest.approx(1, abs=0.25)
    # the printed 36.5 at m = 50 is an accident of one arrangement, see the table's note
    assert ratio[0] < 1
    low, high = (float(end) for end in str(report.table("Table 5").rows[0][3]).split(" … "))
    assert low < 36.5 < 1.25 * high


def test_table_10(report: Reproduction) -> None:
    for name, printed in (
        ("fine-grain, thesis", "fine-grain (paper)"),
        ("uniform", "uniform (paper)"),
    ):
        ratio = np.divide(column(report, "Table 10", name), column(report, "Table 10", printed))
        assert ratio == pytest.approx(1, abs=0.25)


def test_partitioned_beats_uniform_and_anatomy(report: Reproduction) -> None:
    """Figure 17's claim: less error than both, at every selectivity and L."""
    charts = [s for s in report.series if s.name == "Figure 17" and s.x == "L"]
    assert len(charts) == 3
    for chart in charts:
        for ours, uniform in zip(chart.lines["partitioned"], chart.lines["uniform"], strict=True):
            assert ours[1] < uniform[1]


def test_every_table_and_figure_is_there(report: Reproduction) -> None:
    tables = {table.name for table in report.tables}
    assert {f"Table {k}" for k in (1, 3, 4, 5, 6, 8, 9, 10)} <= tables
    figures = {series.name for series in report.series}
    assert {f"Figure {k}" for k in (*range(15, 21), *range(24, 31))} == figures


def test_pages_are_whole_and_self_contained(report: Reproduction, pages: Path) -> None:
    described = json.loads((pages / "perturbation.json").read_text())
    assert described["tables"][0]["name"] == "Table 1"
    page = (pages / "perturbation.html").read_text()
    assert all(series.name in page for series in report.series)
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert not re.search(r'<(script|img|link)[^>]* (src|href)="(?!data:)', tags)
    assert "nan" not in tags.lower()


def test_unknown_papers_are_refused() -> None:
    with pytest.raises(UsageError, match="There is no reproduction 'x'"):
        reproduce("x")
    assert "perturbation" in PAPERS
