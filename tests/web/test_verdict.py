"""What a steward sees of a release's evidence: the verdict of audit and attacks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.conftest import Site

WHO = ["linkage", "linked", "definetti", "corruption(known=2)"]


@pytest.fixture(scope="module")
def evidence(site: Site, release: dict[str, Any]) -> dict[str, Any]:
    """The evidence, and what was told while it was collected."""
    told: list[dict[str, Any]] = []

    def ended(job: dict[str, Any]) -> bool:
        told.append(job)
        return job["state"] in ("done", "failed")

    asked = {"kind": "evidence", "job": release["id"], "targets": 100, "attacks": WHO}
    asked |= {"table_name": "Stays of 2025", "author": "<i>Registry</i>"}
    job = site.wait(site.start(**asked), ended)
    assert job["state"] == "done", job
    return {"job": job, "told": told, **job["summary"]}


@pytest.mark.slow
def test_evidence_tells_how_far_it_is_and_how_long_it_takes(evidence: dict[str, Any]) -> None:
    """It stood at one of four steps for minutes: every check and every attack counts now."""
    running = [job for job in evidence["told"] if job["state"] == "running"]
    shares = {job["done"] / job["total"] for job in running if job["total"]}
    assert len({share for share in shares if 0 < share < 1}) >= 4, shares
    assert any(job["stage"].startswith("attacking: ") for job in running)
    assert any(job["left"] is not None for job in running)
    assert evidence["job"]["left"] is None


def test_the_verdict_joins_audit_and_attacks(evidence: dict[str, Any]) -> None:
    """l-diversity speaks of readers who know no link: linkage is one, the others know more."""
    assert evidence["holds"] is True
    assert evidence["findings"] == []
    strongest, inside, own = evidence["verdict"]
    assert strongest.startswith("The strongest attack, ")
    assert "linkage on 'disease' is the strongest" in inside
    assert "the promise allows at most 50.0 %" in inside  # l-diversity(2)
    assert own.startswith("Over ")
