"""What met a newcomer in the first hour, case by case, in the order of the issue that told it.

1 exposure, 2 misspelt values, 3 roles and repeated keys, 4 the adversary of a default, 5 wide
tables and job files, 6 bins keep their order, 7 hierarchies, 8 no silence, 9 advice and verdicts,
10 signposts. `test_signposts.py`, `test_refusals.py` and `tests/queries/test_spelling.py` go
deeper.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.show import progress_line
from sfumato.datasets import hospital
from sfumato.evidence.report.expected import expected_errors
from sfumato.release import Release

ROLES = ("--quasi", "age,sex,region,admission", "--sensitive", "diagnosis")
STAYS = 1500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hospital stays of patients with several, and a release that took every stay for somebody."""
    place = tmp_path_factory.mktemp("hour")
    stays = hospital(STAYS, seed=8, stays=20)
    pq.write_table(stays, place / "stays.parquet")
    sf.publish(
        stays,
        "l-diversity(5)",
        to=place / "release",
        mechanism="optimal",
        quasi="age,sex,region,admission",
        sensitive="diagnosis",
        drop="patient",
    )
    return place


def finding(told: Any, name: str = "person-together") -> dict[str, Any]:
    (found,) = [each for each in told["findings"] if each["check"] == name]
    return dict(found)


def test_1_exposure_is_told_everywhere(cli: Any, tmp_path: Path) -> None:
    """Half of the people have one value, about which the promise says nothing."""
    ill = ["none"] * 500 + [f"d{k % 20}" for k in range(499)] + [None]
    table = pa.table({"age": [k % 7 for k in range(1000)], "ill": ill})
    pq.write_table(table, tmp_path / "t.parquet")
    flags = ("--quasi", "age", "--sensitive", "ill", "--missing", "drop")
    publish = ("publish", tmp_path / "t.parquet", *flags, "--out", tmp_path / "r")
    promise = ("--guarantee", "f-privacy(theta=2, floor=0.05)", "--mechanism", "optimal")
    refused = cli(*publish, *promise)
    assert refused.code != 0
    assert "promises nothing about 500 of 999 people" in refused.err
    made = cli(*publish, *promise, "--left-out", "0.6")
    assert "Published 999 of 1,000 rows" in made.out
    assert "nothing is promised about 500 of 999 people, those with 'none'." in made.out
    shown = [line for line in made.out.splitlines() if "smallest bucket" in line]
    assert shown, made.out
    audited = cli("audit", tmp_path / "t.parquet", tmp_path / "r")
    described = cli("describe", tmp_path / "r")
    for told in (audited, described):
        assert shown[0].strip() in told.out
        assert "Nothing is promised about the value of 'ill' of 500 people." in told.out
    assert "1 row without a sensitive value was dropped." in audited.out


def test_3_an_audit_says_what_several_records_tell_together(cli: Any, folder: Path) -> None:
    audit = ("audit", folder / "stays.parquet", folder / "release")
    told = cli(*audit, "--key", "patient", "--json")
    assert told.code == 4
    people = hospital(STAYS, seed=8, stays=20).column("patient").value_counts()
    several = sum(person["counts"].as_py() > 1 for person in people)
    found = finding(told.json)
    assert found["value"] == several
    assert "have a posterior of 0.2 at most, two alike allow" in found["witness"]
    assert found["witness"].endswith("publish with --person patient")
    assert "keeps its promise" not in told.json["headline"]


def test_3_a_dropped_identifier_is_noticed_by_the_audit(tmp_path: Path) -> None:
    stays = hospital(STAYS, seed=9, stays=3)
    roles = {"quasi": "age,sex", "sensitive": "admission", "drop": "patient,region,diagnosis"}
    to = tmp_path / "r"
    sf.publish(stays, "rho-privacy(0.35, 0.7)", to=to, mechanism="uniform", **roles)
    verdict = sf.audit(stays, to)
    assert verdict.holds
    assert verdict.headline.startswith("Each record keeps the promise")
    assert "audit with --key patient" in str(verdict)
    once = stays.drop_columns(["patient"])
    sf.publish(
        once, "rho-privacy(0.35, 0.7)", to=tmp_path / "s", mechanism="uniform",
        quasi="age,sex", sensitive="admission", drop="region,diagnosis",
    )  # fmt: skip
    assert sf.audit(once, tmp_path / "s").headline.startswith("The release keeps its promise")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_8_a_step_without_news_still_shows_that_time_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_line("planning"):
        until = time.monotonic() + 20
        while "1 s" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.05)
    assert "planning" in terminal.getvalue()
    assert "1 s" in terminal.getvalue()


def test_8_planning_advice_and_audits_say_how_far_they_are(folder: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    people = pa.table({"sex": ["F", "M"] * 300, "ill": ["a", "b", "c"] * 200})
    roles = {"quasi": "sex", "sensitive": "ill"}

    def progress(stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))

    sf.publish(people, "l-diversity(3)", to=tmp_path / "r", progress=progress, **roles)
    assert any(stage.startswith("planning ") and total for stage, _, total in told)
    told.clear()
    sf.describe(people, "l-diversity(3)", progress=progress, **roles)
    assert any(stage.startswith("planning ") for stage, _, _ in told)
    told.clear()
    sf.advise(people, min_count=50, progress=progress, **roles)
    (total,) = {total for _, _, total in told if total}
    assert {done for _, done, of in told if of} == set(range(total))
    told.clear()
    sf.audit(people, tmp_path / "r", progress=progress)
    shares = [done / total for stage, done, total in told if stage == "auditing"]
    assert len(shares) > 5
    assert shares == sorted(shares)


def test_9_a_count_of_a_size_is_one_of_a_value_that_so_many_have(tmp_path: Path) -> None:
    """The best of the values was one that a single person has: never wrong, and never asked."""
    ill = [f"d{k % 6}" for k in range(2999)] + ["alone"]
    table = pa.table({"age": [k % 11 for k in range(3000)], "ill": ill})
    sf.publish(
        table, "f-privacy(theta=3, floor=0.001)", to=tmp_path / "r", mechanism="optimal",
        quasi="age", sensitive="ill",
    )  # fmt: skip
    expected = expected_errors(Release(tmp_path / "r"), "ill")
    assert not isinstance(expected, str)
    assert "'alone'" not in expected.by_value
    assert [size.count for size in expected.by_count] == [10, 30, 100, 300]
    assert all(0.01 < size.best <= size.worst for size in expected.by_count)
