"""What a steward sees of a release's evidence: adversaries, the promised ceiling, coverage."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from sfumato.attacks import ATTACKS
from sfumato.guarantees import GUARANTEES
from sfumato.guarantees.words import Known
from sfumato.version import __version__
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
    found = site.client.get(f"/api/jobs/{job['id']}/evidence").json()
    return {"job": job, "told": told, **found}


@pytest.mark.slow
def test_evidence_tells_how_far_it_is_and_how_long_it_takes(evidence: dict[str, Any]) -> None:
    """It stood at one of four steps for minutes: every check and every attack counts now."""
    running = [job for job in evidence["told"] if job["state"] == "running"]
    shares = {job["done"] / job["total"] for job in running if job["total"]}
    assert len({share for share in shares if 0 < share < 1}) >= 4, shares
    assert any(job["stage"].startswith("attacking: ") for job in running)
    assert any(job["left"] is not None for job in running)
    assert evidence["job"]["left"] is None


def test_every_adversary_is_a_sentence_inside_or_outside_the_promise(
    evidence: dict[str, Any],
) -> None:
    """l-diversity speaks of readers who know no link: linkage is one, the others know more."""
    standings = {one["attack"]: one["standing"] for one in evidence["attacks"]}
    assert standings["linkage"] == "inside"
    assert {standings[name] for name in WHO[1:]} == {"outside"}
    for one in evidence["attacks"]:
        assert one["sentence"].endswith(".")
        assert one["ceiling"] == 0.5  # l-diversity(2)
    inside = next(one for one in evidence["attacks"] if one["standing"] == "inside")
    assert inside["success"]["low"] <= inside["ceiling"]


def test_intervals_are_counted_and_the_limit_is_told(evidence: dict[str, Any]) -> None:
    assert evidence["covered_from"] == 0.93
    assert 0.8 < evidence["utility"]["covered"] <= 1
    assert all(one["questions"] >= 10 for one in evidence["utility"]["by_count"])


def test_the_ceiling_is_for_the_steward_alone(site: Site, evidence: dict[str, Any]) -> None:
    """Ceilings of some promises follow from counts: the report, which is given out, has none."""
    report = (site.state / "jobs" / evidence["job"]["id"] / "report" / "report.json").read_text()
    assert '"ceiling"' not in report
    assert '"standing"' in report


def test_a_report_says_which_one_it_is(
    site: Site, release: dict[str, Any], evidence: dict[str, Any]
) -> None:
    """Table and author in the steward's words; release, day, version and hash."""
    folder = site.state / "jobs" / evidence["job"]["id"] / "report"
    about = json.loads((folder / "report.json").read_text())["about"]
    manifest = site.state / "jobs" / release["id"] / "release" / "manifest.json"
    assert about["manifest"] == hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert (about["table"], about["release"]) == ("Stays of 2025", release["name"])
    assert about["version"] == __version__
    page = (folder / "report.html").read_text()
    for text in ("Stays of 2025", "&lt;i&gt;Registry", about["date"], about["manifest"][:12]):
        assert text in page
    assert "people.parquet" not in page.replace(release["name"], "")
    assert "prefers-color-scheme: dark" in page
    assert "of honest releases look no better" in page  # was: fit 0.12, limit 1e-06
    assert "at least 1e-06" not in page


def test_who_stands_inside_which_promise() -> None:
    """By what an adversary knows; a promise that limits no belief has nobody inside."""
    inside = {
        name: {
            attack
            for attack, cls in ATTACKS.items()
            if guarantee.holds_against.standing(cls.knows) == "inside"
        }
        for name, guarantee in GUARANTEES.items()
    }
    assert inside["l-diversity"] == inside["rho-privacy"] == {"linkage"}
    assert inside["small-sum"] == inside["reconstruction-privacy"] == set()
    anybody = GUARANTEES["rho-privacy"].holds_against
    assert anybody.standing(Known.LINKS) == "partly"
    assert anybody.standing(Known.RELEASES) == "outside"


@pytest.mark.parametrize(
    "asked", [{"attacks": "all"}, {"attacks": [1]}, {"targets": 0.5}, {"targets": True}]
)
def test_attack_settings_are_checked(
    site: Site, release: dict[str, Any], asked: dict[str, Any]
) -> None:
    refused = site.post("/api/jobs", kind="evidence", job=release["id"], **asked)
    assert refused.status_code == 400
