"""What the page asks for somebody who is no expert: cards, markers, people and rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest


@pytest.fixture(scope="module")
def stays(site: Any) -> Any:
    """A CSV file with `?`, and people with two rows each."""
    rows = 600
    table = pa.table(
        {
            "patient_nbr": [7919 * (n // 2) + 100_003 for n in range(rows)],
            "sex": ["?" if n % 50 == 0 else "fm"[n % 2] for n in range(rows)],
            "ward": [f"w{n % 5}" for n in range(rows)],
            "diagnosis": [f"d{n * n % 7}" for n in range(rows)],
        }
    )
    pc.write_csv(table, site.data / "stays.csv")
    return site.table("stays.csv")


def test_a_table_is_read_again_with_its_markers(site: Any, stays: dict[str, Any]) -> None:
    nulls = {column["name"]: column["nulls"] for column in stays["columns"]}
    assert nulls["sex"] == 0
    again = site.post("/api/tables", table=stays["table"], missing_markers="?")
    assert again.status_code == 200, again.text
    told = again.json()
    assert told["table"] != stays["table"]
    assert {column["name"]: column["nulls"] for column in told["columns"]}["sex"] == 12
    assert site.post("/api/tables", table="0" * 16, missing_markers="?").status_code == 404


def test_people_and_rows_are_counted_apart(site: Any, stays: dict[str, Any]) -> None:
    suggested = {each["name"]: each["suggestion"]["role"] for each in stays["columns"]}
    assert suggested == {
        "patient_nbr": "person", "sex": "quasi", "ward": "quasi", "diagnosis": "sensitive",
    }  # fmt: skip
    found = site.counted(stays["table"], suggested)
    assert (found["rows"], found["table_rows"], found["person"]) == (300, 600, "patient_nbr")


@pytest.mark.slow
def test_three_cards(site: Any) -> None:
    """A job, so that a reload finds it; the next one on the same counts takes its place."""
    profile = site.profile("people.parquet")
    job = site.wait(site.start(kind="cards", profile=profile, error=0.3))
    assert job["state"] == "done", job
    assert (job["wished"], job["profile"]) == (0.3, profile)
    cards = job["summary"]["cards"]
    assert [card["way"] for card in cards] == ["safer", "balanced", "sharper"]
    kept = [card for card in cards if card["guarantee"]]
    assert kept
    for card in kept:
        assert card["error"] <= card["wished"]
        assert card["without_promise"] == 0
    unknown = site.wait(site.start(kind="cards", profile=profile, delicate=["plague"]))
    assert unknown["state"] == "failed"
    assert "plague" in unknown["error"]
    kinds = [each["id"] for each in site.client.get("/api/jobs").json() if each["kind"] == "cards"]
    assert kinds == [unknown["id"]]


@pytest.mark.parametrize("wrong", [10**400, -1, 0, 1, True, "much", None])
def test_numbers_that_are_no_share(site: Any, release: dict[str, Any], wrong: object) -> None:
    """10^400 was a server error: it is no float."""
    asked = site.post("/api/query", job=release["id"], sql="SELECT COUNT(*) FROM release",
                      confidence=wrong)  # fmt: skip
    assert asked.status_code == 400
    profile = release["profile"]
    refused = site.post("/api/jobs", kind="cards", profile=profile, error=wrong)
    assert refused.status_code == 400
