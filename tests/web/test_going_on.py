"""Jobs and tables over reloads and tabs: time left, drafts, numbered questions, forgetting."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.conftest import ROLES, Site, some_people


def uploaded(site: Site, name: str, rows: int = 300) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.csv

    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(some_people(rows), sink)
    sent = site.client.put(
        "/api/uploads", params={"name": name}, content=sink.getvalue().to_pybytes()
    )
    answer = site.post("/api/tables", **sent.json())
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_second_tab_knows_the_roles(site: Site) -> None:
    table = site.table("people.parquet")["table"]
    draft = {"roles": {"age": "quasi", "__proto__": "drop"}, "missing": "drop", "at": 7}
    assert site.post(f"/api/tables/{table}/draft", draft=draft).status_code == 200
    assert site.client.get(f"/api/tables/{table}").json()["draft"] == draft
    listed = site.client.get("/api/tables").json()
    assert listed[0]["table"] == table
    assert listed[0]["roles"] == 2
    # read in another way, the same roles stand
    again = site.post("/api/tables", table=table, missing_markers="?").json()["table"]
    assert site.client.get(f"/api/tables/{again}").json()["draft"] == draft
    assert site.post(f"/api/tables/{table}/draft", draft=[1]).status_code == 400


def test_an_answer_carries_its_question(site: Site, release: dict[str, Any]) -> None:
    for number, confidence in ((4, 0.9), (5, 0.99)):
        found = site.post(
            "/api/query",
            job=release["id"],
            sql=f"SELECT COUNT(*) FROM release WHERE age > {number}",
            confidence=confidence,
            number=number,
        ).json()
        assert found["asked"]["number"] == number
        assert found["asked"]["confidence"] == confidence
        assert found["asked"]["sql"].endswith(f"> {number}")
    refused = site.post("/api/query", job=release["id"], sql="SELECT 1", number=-1)
    assert refused.status_code == 400


def test_questions_can_name_an_estimator(site: Site, release: dict[str, Any]) -> None:
    names = [each["name"] for each in release["summary"]["estimators"]]
    assert "inverse" in names
    sql = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"
    asked = {"job": release["id"], "sql": sql}
    usual = site.post("/api/query", **asked).json()["rows"]
    unbiased = site.post("/api/query", **asked, estimator="inverse")
    assert unbiased.status_code == 200, unbiased.text
    assert len(unbiased.json()["rows"]) == len(usual)
    assert site.post("/api/query", **asked, estimator="magic").status_code == 400


@pytest.mark.slow
def test_forgetting_a_table_stops_what_works_with_it(site: Site) -> None:
    """Upload, table, counts and what workers remember go; the release of it stays."""
    table = uploaded(site, "forget me.csv")
    profile = site.counted(table["table"], ROLES)["profile"]
    done = site.wait(site.start(kind="publish", profile=profile, guarantee="l-diversity(2)"))
    predicted = site.post("/api/predict", profile=profile, guarantee="l-diversity(2)")
    assert predicted.json()["feasible"]
    running = site.start(kind="evidence", job=done["id"])
    assert site.client.delete(f"/api/tables/{table['table']}").status_code == 200
    assert site.job(running["id"])["state"] == "cancelled"
    assert site.job(done["id"])["state"] == "done"
    assert site.client.get(f"/api/tables/{table['table']}").status_code == 404
    assert site.post("/api/predict", profile=profile, guarantee="l-diversity(2)").status_code == 404
    labels = [one["label"] for one in site.client.get("/api/tables").json()]
    assert "forget me.csv" not in labels
    left = [path for room in ("uploads", "tables", "profiles") for path in _files(site, room)]
    assert not any(b"forget me" in path.read_bytes() for path in left)


def _files(site: Site, room: str) -> list[Any]:
    return [path for path in (site.state / room).rglob("*") if path.is_file()]
