"""Published values agree with the true ones as the operator lets them; nothing passes unjudged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audits
from sfumato.audits.agreement import check_agreement
from sfumato.audits.case import AuditCase, raw_table
from sfumato.audits.perturbed import check_amplification
from sfumato.release import PerturbedRelease, Release


def published(table: pa.Table, to: Path, mechanism: str, guarantee: str) -> AuditCase:
    declared = sf.read(table, quasi="age,sex,region", sensitive="disease")
    sf.publish(declared, guarantee, to=to, mechanism=mechanism)
    release = Release(to)
    return AuditCase(raw_table(table, release), release)


@pytest.mark.parametrize("rows", [8, 12, 30, 120])
def test_honest_releases_of_small_tables_pass(people: Any, tmp_path: Path, rows: int) -> None:
    """The limit is Bernstein's, so it is never too small: 40 releases, a chance below 4e-5."""
    for seed in range(10):
        case = published(
            people(rows, seed), tmp_path / f"{seed}", "uniform", "fine-rho-privacy(theta=1.5)"
        )
        (finding,) = check_agreement(case)
        assert finding.holds, finding


@pytest.mark.parametrize(
    ("mechanism", "guarantee"),
    [
        ("uniform", "rho-privacy(1/4, 1/2)"),
        ("partitioned", "rho-privacy(1/4, 1/2)"),
        ("splu", "small-sum(groups=3)"),
        ("resample", "rho-privacy(1/4, 1/2)"),
    ],
)
def test_people_who_look_alike_count_together(
    people: Any, tmp_path: Path, mechanism: str, guarantee: str
) -> None:
    """Six classes of 500 people each: nobody stands alone, and the truth is found all the same."""
    table = people(3000, 4)
    table = table.set_column(0, "age", pa.array([30] * 3000))
    case = published(table, tmp_path / "r", mechanism, guarantee)
    assert all(finding.holds for finding in check_agreement(case))


def test_a_promise_that_nothing_judged_does_not_pass(
    people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people(300)
    published(table, tmp_path / "r", "uniform", "rho-privacy(1/4, 1/2)")
    assert audits.audit(table, tmp_path / "r").holds
    shape = [check for check in audits.CHECKS[PerturbedRelease] if check is not check_amplification]
    monkeypatch.setitem(audits.CHECKS, PerturbedRelease, shape)
    verdict = audits.audit(table, tmp_path / "r")
    assert verdict.holds is None
    failing = [finding for finding in verdict.findings if not finding.holds]
    assert [finding.check.name for finding in failing] == ["promise"]
    assert "no audit knows" in str(failing[0].witness)
    monkeypatch.delitem(audits.CHECKS, PerturbedRelease)
    assert not audits.audit(table, tmp_path / "r").holds
