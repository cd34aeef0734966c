"""The page shows, predicts, publishes and checks a guarantee that no module of sfumato knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contracts import toy

pytestmark = pytest.mark.slow

PROMISE = "coin-toss(0.5)"


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the server starts its workers: they are processes of their own."""
    toy.known_to_processes(tmp_path / "site", monkeypatch)


def test_the_page_walks_with_a_toy(toys: None, locked: Any) -> None:
    site = locked
    assert site.enter(site.sessions.token).status_code == 200
    site.client.headers.update(site.own)

    promises = {told["name"]: told for told in site.client.get("/api/state").json()["promises"]}
    told = promises["coin-toss"]
    assert told["sentence"] == toy.CoinToss.sentence
    assert told["parameters"][0]["more"] == "A larger chance protects less."
    assert [(way["name"], way["chosen"]) for way in told["mechanisms"]] == [("coin", True)]
    assert told["does_not_protect"] == ["whoever looks at the coin"]

    profile = site.profile("people.parquet")
    shown = site.client.get(f"/api/profiles/{profile}").json()
    allowed = {each["promise"]: each for each in shown["allowed"]}
    assert allowed["coin-toss"]["example"] == PROMISE

    predicted = site.post("/api/predict", profile=profile, guarantee=PROMISE).json()
    assert predicted["feasible"]
    assert predicted["mechanism"] == "coin"
    assert len(predicted["ceilings"]) == 6
    assert all(each["error"] > 0 for each in predicted["by_value"])

    job = site.wait(site.start(kind="publish", profile=profile, guarantee=PROMISE))
    assert job["state"] == "done", job
    asked = site.post("/api/query", job=job["id"], sql="SELECT COUNT(*) FROM release").json()
    assert asked["estimates"][0]["value"] == 2000

    candidates = [{"guarantee": PROMISE, "mechanism": "coin"}]
    compared = site.wait(site.start(kind="compare", profile=profile, candidates=candidates))
    assert compared["state"] == "done", compared
    assert compared["summary"]["candidates"][0]["kept"] is True

    checked = site.wait(site.start(kind="evidence", job=job["id"]))
    assert checked["state"] == "done", checked
    assert checked["summary"]["holds"] is True
    page = site.client.get(f"/api/jobs/{job['id']}/report").text
    assert "Pr(kept) ≤ 0.5" in page
