"""How a text file is written: its first rows as they are cut, lines of other lengths, markers."""

from __future__ import annotations

from typing import Any

from tests.web.conftest import Site


def sent(site: Site, text: str | bytes, name: str = "people.csv") -> dict[str, Any]:
    content = text if isinstance(text, bytes) else text.encode()
    answer = site.client.put("/api/uploads", params={"name": name}, content=content)
    return dict(answer.json())


def seen(site: Site, source: dict[str, Any], **said: Any) -> dict[str, Any]:
    answer = site.post("/api/preview", **source, **said)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["csv"]
    return found


def test_the_first_rows_are_shown_as_they_are_cut(site: Site) -> None:
    source = sent(site, "name;age\nZoë;41\n'a;b';50\n".encode("latin-1"))
    usual = seen(site, source)
    assert (usual["encoding"], usual["separator"], usual["header"]) == ("cp1252", ";", True)
    assert usual["names"] == ["name", "age"]
    assert usual["rows"][0] == ["Zoë", "41"]
    assert usual["ragged"] == [{"line": 3, "cells": 3}]
    said = seen(site, source, quote="'", encoding="latin-1", header="no")
    assert said["ragged"] == []
    assert said["names"] == ["column1", "column2"]
    assert said["rows"][2] == ["a;b", "50"]
    assert seen(site, source, columns=["a", "b"])["names"] == ["a", "b"]


def test_a_ragged_file_is_refused_with_its_line_and_can_be_looked_at(site: Site) -> None:
    source = sent(site, "a,b\n1,2\n3,4,5\n6,7\n")
    refused = site.post("/api/tables", **source)
    assert refused.status_code == 400
    assert "Line 3 of people.csv has 3 cells" in refused.json()["error"]
    assert seen(site, source)["ragged"] == [{"line": 3, "cells": 3}]


def test_markers_are_counted_wherever_they_stand(site: Site) -> None:
    """Also in a column of numbers, where they are no bar of a histogram."""
    lines = "".join(f"{n if n % 50 else '?'},{'N/A' if n % 70 == 0 else 'x'}\n" for n in range(500))
    source = sent(site, "cost,ill\n" + lines)
    assert seen(site, source)["markers"] == [
        {"text": "?", "count": 10},
        {"text": "N/A", "count": 8},
    ]
    table = site.post("/api/tables", **source).json()
    assert {one["name"]: one["markers"] for one in table["columns"]} == {
        "cost": ["?"],
        "ill": ["N/A"],
    }
    again = site.post("/api/tables", table=table["table"], missing_markers="?,N/A").json()
    cost = next(one for one in again["columns"] if one["name"] == "cost")
    assert (cost["nulls"], cost["type"], cost["markers"]) == (10, "int64", [])


def test_files_of_other_kinds_have_no_lines(site: Site) -> None:
    assert seen(site, {"source": {"root": "0", "path": "people.parquet"}}) is None


def test_wrong_ways_are_told(site: Site) -> None:
    source = sent(site, "a,b\n1,2\n")
    refused = site.post("/api/preview", **source, encoding="klingon")
    assert refused.status_code == 400
    assert "There is no encoding 'klingon'" in refused.json()["error"]
