"""What is deleted is gone: raw copies, tables and counts, at once."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

CSV = "age,disease\n" + "".join(f"{k % 4},raw-value-{k % 7}\n" for k in range(400))
ROLES = {"age": "quasi", "disease": "sensitive"}


def uploaded(site: Any) -> dict[str, Any]:
    sent = site.client.put("/api/uploads", params={"name": "people.csv"}, content=CSV.encode())
    assert sent.status_code == 200, sent.text
    found: dict[str, Any] = site.post("/api/tables", source=sent.json()["source"]).json()
    return found


def holding(state: Path, text: bytes) -> list[str]:
    """Files outside jobs that hold a raw value."""
    rooms = ("uploads", "tables", "profiles", "temp")
    files = [file for room in rooms for file in (state / room).rglob("*") if file.is_file()]
    return [str(file) for file in files if text in file.read_bytes()]


def test_uploads_are_private(site: Any) -> None:
    table = uploaded(site)
    files = [file for file in (site.state / "uploads").rglob("*") if file.is_file()]
    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    site.client.delete(f"/api/tables/{table['table']}")


def test_a_table_is_forgotten_at_once(site: Any) -> None:
    table = uploaded(site)
    profile = site.counted(table["table"], ROLES)["profile"]
    assert holding(site.state, b"raw-value-3")
    assert site.client.delete(f"/api/tables/{table['table']}").status_code == 200
    assert holding(site.state, b"raw-value-3") == []
    assert site.client.get(f"/api/tables/{table['table']}").status_code == 404
    assert site.client.get(f"/api/profiles/{profile}").status_code == 404


@pytest.mark.slow
def test_the_last_job_of_an_upload_takes_it_along(site: Any) -> None:
    table = uploaded(site)
    profile = site.counted(table["table"], ROLES)["profile"]
    asked = {"kind": "publish", "profile": profile, "guarantee": "l-diversity(2)"}
    jobs = [site.wait(site.start(**asked)) for _ in range(2)]
    assert site.client.delete(f"/api/jobs/{jobs[0]['id']}").status_code == 200
    assert holding(site.state, b"raw-value-3")  # the other one may still be audited
    assert site.client.delete(f"/api/jobs/{jobs[1]['id']}").status_code == 200
    assert holding(site.state, b"raw-value-3") == []


@pytest.mark.slow
def test_cards_keep_no_raw_copy_and_go_with_it(site: Any) -> None:
    """What three cards say are counts: they are forgotten with the table, and hold nothing back."""
    table = uploaded(site)
    profile = site.counted(table["table"], ROLES)["profile"]
    raw = holding(site.state, b"raw-value-3")
    first = site.wait(site.start(kind="cards", profile=profile, error=0.3))
    assert first["state"] == "done", first["error"]
    site.client.delete(f"/api/jobs/{first['id']}")
    assert holding(site.state, b"raw-value-3") == raw, "somebody still chooses a promise for it"
    # one that failed has counted too, and goes as one that found something does
    second = site.wait(site.start(kind="cards", profile=profile, protected=["plague"]))
    assert site.client.delete(f"/api/tables/{table['table']}").status_code == 200
    assert not (site.state / "jobs" / second["id"]).exists()
    assert holding(site.state, b"raw-value-3") == []


def test_an_upload_that_was_never_opened_is_listed_and_goes(site: Any) -> None:
    sent = site.client.put("/api/uploads", params={"name": "lost.csv"}, content=CSV.encode())
    upload = sent.json()["source"]["upload"]
    listed = site.client.get("/api/tables").json()
    (lost,) = [one for one in listed if one.get("upload") == upload]
    assert (lost["label"], lost["bytes"]) == ("lost.csv", len(CSV))
    assert site.client.delete(f"/api/uploads/{upload}").status_code == 200
    assert holding(site.state, b"raw-value-3") == []
    assert site.client.delete(f"/api/uploads/{upload}").status_code == 404
