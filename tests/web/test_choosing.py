"""Choosing files: nothing outside the folders given with --data can be listed or read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

OUTSIDE = [
    "../secret/secret.parquet",
    "more/../../secret/secret.parquet",
    "/etc/passwd",
    "//etc/passwd",
    "out.parquet",  # a link out
    "outside/secret.parquet",  # through a folder that is a link out
    "people.parquet\x00.csv",
    "..\\secret\\secret.parquet",
    "%2e%2e/secret/secret.parquet",
    "..%2fsecret%2fsecret.parquet",
    "more/%2e%2e/%2e%2e/secret/secret.parquet",
    "~/people.parquet",
    "file:///etc/passwd",
    "postgresql://localhost/people",
    "http://127.0.0.1/people.parquet",
    "*.parquet",
    "people.p?rquet",
    "a*b.parquet",
    ".hidden.parquet",
    "notes.docx",
    "more",
    "",
    "x" * 5000,
    None,
    7,
    ["people.parquet"],
    {"path": "people.parquet"},
]


@pytest.mark.parametrize("path", OUTSIDE, ids=repr)
def test_paths_that_lead_elsewhere(site: Any, path: object) -> None:
    answer = site.post("/api/tables", source={"root": "0", "path": path})
    assert answer.status_code == 400
    sentence = answer.json()["error"]
    assert sentence.endswith(".")
    assert "secret" not in sentence
    assert str(site.data) not in answer.text


@pytest.mark.parametrize(
    "folder", ["..", "../secret", "/etc", "outside", "more/..", "\x00", "%2e%2e"]
)
def test_folders_that_lead_elsewhere(site: Any, folder: str) -> None:
    answer = site.client.get("/api/files", params={"root": "0", "folder": folder})
    assert answer.status_code == 400
    assert "secret" not in answer.json()["error"]


@pytest.mark.parametrize("root", [None, "1", "-1", "", "..", "/", 0, ["0"]], ids=repr)
def test_roots_that_are_none(site: Any, root: object) -> None:
    answer = site.post("/api/tables", source={"root": root, "path": "people.parquet"})
    assert answer.status_code == 400


def test_the_list_shows_tables_only(site: Any) -> None:
    listing = site.client.get("/api/files", params={"root": "0"}).json()
    assert listing["folders"] == ["more"]
    names = [file["name"] for file in listing["files"]]  # other tests put more tables there
    assert {"broken.parquet", "inside.parquet", "people.parquet"} <= set(names)
    assert not {"out.parquet", ".hidden.parquet", "a*b.parquet", "notes.docx"} & set(names)
    assert {Path(name).suffix for name in names} <= {".parquet", ".csv"}
    assert names == sorted(names)
    more = site.client.get("/api/files", params={"root": "0", "folder": "more"}).json()
    assert [file["name"] for file in more["files"]] == ["others.parquet"]


def test_a_broken_file_is_told_in_a_sentence(site: Any) -> None:
    answer = site.post("/api/tables", source={"root": "0", "path": "broken.parquet"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Cannot read broken.parquet as Parquet")
    assert str(site.data) not in answer.text


@pytest.mark.parametrize("identifier", ["..", "0123456789abcdef", "..%2f..%2fx", "%00", "x" * 300])
def test_made_up_identifiers(site: Any, identifier: str) -> None:
    for path in ("tables/{}", "profiles/{}", "jobs/{}", "jobs/{}/release.zip", "jobs/{}/report",
                 "jobs/{}/events"):  # fmt: skip
        assert site.client.get(f"/api/{path.format(identifier)}").status_code == 404
    assert site.post("/api/jobs", kind="counts", table=identifier, roles={}).status_code == 404
    assert (
        site.post("/api/predict", profile=identifier, guarantee="l-diversity(2)").status_code == 404
    )
    assert site.post("/api/query", job=identifier, sql="SELECT 1").status_code == 404
    assert site.post("/api/jobs", kind="evidence", job=identifier).status_code == 404
