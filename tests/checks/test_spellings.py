"""Values that look alike: named, in every column that is checked, and left as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from sfumato.checks import check

ALIKE = [
    ("F", "f"),
    ("two  words", "two words"),
    ("Ａ", "a"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
@pytest.mark.parametrize("role", ["quasi", "sensitive"])
def test_spellings_are_named(one: str, other: str, role: str) -> None:
    columns = {"quasi": ["x", "y", "x", "y"], "sensitive": ["a1", "b1", "a1", "b1"]}
    columns[role] = [one, other, one, "else"]
    found = check(pa.table(columns), quasi="quasi", sensitive="sensitive")
    (note,) = found.notes
    assert f"Column {role!r} has values that differ only by case, blanks or Unicode form" in note
    assert repr(one) in note
    assert repr(other) in note
    assert note in str(found)
    assert found.to_json()["notes"] == [note]


@pytest.mark.parametrize("mark", ["", "NA", "?", "n/a", "null"])
def test_marks_beside_missing_values(mark: str) -> None:
    columns = {"q": [1, 2, 3, 4], "s": ["flu", None, mark, "gout"]}
    (note,) = check(pa.table(columns), quasi="q", sensitive="s").notes
    assert note.startswith(f"Column 's' has missing values and also {mark!r}.")
    columns["s"][1] = "flu"
    assert check(pa.table(columns), quasi="q", sensitive="s").notes == ()


def test_clean_tables_have_no_notes() -> None:
    columns = {"q": [1, 2, 2, None], "s": ["flu", "fluo", "gout", None]}
    assert check(pa.table(columns), quasi="q", sensitive="s").notes == ()


def test_the_command_shows_them(cli: Any, tmp_path: Path) -> None:
    csv.write_csv(pa.table({"q": ["M", "m", "F"], "s": ["x", "y", "z"]}), tmp_path / "t.csv")
    line = ("check", tmp_path / "t.csv", "--quasi", "q", "--sensitive", "s")
    assert "differ only by case, blanks or Unicode form: 'M' and 'm'" in cli(*line).out
    assert len(json.loads(cli(*line, "--json").out)["notes"]) == 1
