"""The notebooks run from top to bottom, and show tables and charts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
CHART = "image/svg+xml"
SHOWN = {
    "steward": {"tables": 3, "charts": 0},
    "analyst": {"tables": 2, "charts": 1},
    "researcher": {"tables": 1, "charts": 1},
}


def read(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own about folders
        jupytext = pytest.importorskip("jupytext", reason="jupytext is not installed")
        return jupytext.reads(path.read_text("utf-8"), fmt="py:percent")


def outputs(notebook: Any) -> list[Any]:
    return [out for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]


def test_there_is_one_for_each_reader() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
    index = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert all(f"../notebooks/{path.name}" in index for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_begins_with_words_and_has_no_outputs(path: Path) -> None:
    notebook = read(path)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert not outputs(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_tables_and_charts(path: Path) -> None:
    notebook = read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
        pytest.importorskip("ipykernel", reason="ipykernel is not installed")
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = outputs(notebook)
    tables = [out for out in shown if "<table" in out["data"].get("text/html", "")]
    charts = [out for out in shown if CHART in out["data"]]
    assert len(tables) >= SHOWN[path.stem]["tables"]
    assert len(charts) >= SHOWN[path.stem]["charts"]
