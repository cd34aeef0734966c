"""The notebook stands there with what it shows, and runs from top to bottom."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "analyst.ipynb"


def shown(notebook: Any) -> tuple[int, int]:
    """How many tables and charts."""
    outputs = [out["data"] for cell in notebook.cells for out in cell.get("outputs", [])]
    tables = sum("<table" in out.get("text/html", "") for out in outputs)
    return tables, sum("image/svg+xml" in out for out in outputs)


@pytest.mark.slow
def test_it_runs_and_shows_what_it_shows() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own about folders
        nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
        nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
        pytest.importorskip("ipykernel", reason="ipykernel is not installed")
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        before = shown(notebook)
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert shown(notebook) == before
    assert min(before) >= 1
