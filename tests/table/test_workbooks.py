"""Workbooks and files of statistics programs."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfumato.errors import DataError, UsageError
from sfumato.table.reading import Reading
from sfumato.table.sources import find_source


def whole(path: Path, **said: Any) -> pa.Table:
    source = find_source(path, Reading.of(**said))
    return pa.Table.from_batches(source.batches(source.schema.names, 2), source.schema)


def workbook(path: Path, rows: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.active.title = "people"
    for row in rows:
        book.active.append(row)
    book.create_sheet("notes").append(["nothing"])
    book.save(path)
    return path


ROWS = [
    ["age", "zip", "ill", "since", "share"],
    [30, "01234", " flu", datetime.date(2026, 1, 2), 0.5],
    [41, 1235, "?", datetime.date(2026, 1, 3), 1],
    ["?", "x", "HIV", None, 2],
]


def test_a_sheet_is_a_table(tmp_path: Path) -> None:
    path = workbook(tmp_path / "people.xlsx", ROWS)
    found = whole(path, missing_markers="?")
    assert found.to_pydict() == {
        "age": [30, 41, None],
        "zip": ["01234", "1235", "x"],
        "ill": ["flu", None, "HIV"],
        "since": [datetime.date(2026, 1, 2), datetime.date(2026, 1, 3), None],
        "share": [0.5, 1.0, 2.0],
    }


def test_sheets_and_headers(tmp_path: Path) -> None:
    path = workbook(tmp_path / "people.xlsx", ROWS[1:3])
    with pytest.raises(DataError, match="The sheets are: people, notes"):
        whole(path, sheet="persons")
    with pytest.raises(DataError, match="looks like data, not like the names") as caught:
        whole(path)
    assert "01234" not in str(caught.value)
    assert whole(path, columns="a,b,c,d,e").column("a").to_pylist() == [30, 41]
    with pytest.raises(UsageError, match="is a workbook: 'encoding' has no meaning"):
        whole(path, encoding="latin-1")


def test_what_is_no_workbook_says_so(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "letter.xlsx"
    path.write_text("Dear all")
    with pytest.raises(DataError, match=r"Cannot read '.*letter.xlsx' as a workbook"):
        whole(path)


@pytest.mark.parametrize(("ending", "write"), [("sav", "write_sav"), ("dta", "write_dta")])
def test_statistics_files_show_their_labels(tmp_path: Path, ending: str, write: str) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"people.{ending}"
    frame = pandas.DataFrame({"sex": [1, 2, 2], "age": [30.0, None, 41.5], "ill": ["flu", "?", ""]})
    getattr(pyreadstat, write)(
        frame, str(path), variable_value_labels={"sex": {1: "male", 2: "female"}}
    )
    found = whole(path, missing_markers="?")
    assert found.to_pydict() == {
        "sex": ["male", "female", "female"],
        "age": [30.0, None, 41.5],
        "ill": ["flu", None, None],
    }


def test_damaged_statistics_files(tmp_path: Path) -> None:
    pytest.importorskip("pyreadstat")
    path = tmp_path / "letter.sav"
    path.write_text("Dear all")
    with pytest.raises(DataError, match="damaged, or not what its ending says"):
        whole(path)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    path = tmp_path / "people.xlsx"
    path.write_text("x")
    with pytest.raises(UsageError, match=r"pip install 'sfumato\[files\]'"):
        whole(path)


def test_a_glob_of_several_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.parquet").write_text("x")
    with pytest.raises(DataError, match=r"files of several kinds: .* Name files of one kind."):
        find_source(f"{tmp_path}/*")
