"""Every sensitive column may have a promise of its own."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import BetaLikeness, LDiversity, jointly, parse_guarantee
from sfumato.profile import Histogram

BOTH = "ill: beta-likeness(2) and job: f-privacy(theta=1.5)"
ILL = Histogram("ill", ("flu", "HIV", "cold"), np.array([50, 10, 40]))
JOB = Histogram("job", ("cook", "nurse"), np.array([60, 40]))
ROLES = {"quasi": "age", "sensitive": "ill,job"}


def people(rows: int = 2000) -> pa.Table:
    draw = np.random.default_rng(1)
    ill = draw.choice(["flu", "HIV", "cold", "cancer"], rows, p=[0.3, 0.15, 0.3, 0.25])
    job = draw.choice(["cook", "nurse"], rows, p=[0.6, 0.4])
    return pa.table({"age": draw.integers(20, 60, rows), "ill": ill, "job": job})


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ({"my job": "l-diversity(3)"}, "'my job': l-diversity(3)"),
        ({"it's": "l-diversity(3)"}, "'it''s': l-diversity(3)"),
        ("my job : l-diversity(3)", "'my job': l-diversity(3)"),
        (
            "a: f-privacy(limits='x:0.5;*:0.6') and b: l-diversity(2, open='c) and d: e(')",
            "a: f-privacy(limits='x:0.5;*:0.6') and b: l-diversity(2, open='c) and d%3A e(')",
        ),
        ("a: rho-privacy(0.1, 0.3) and b: rho-privacy(0.2, 0.3)",) * 2,
    ],
)
def test_texts_and_mappings_are_read_and_written(stated: str | dict[str, str], text: str) -> None:
    promise = parse_guarantee(stated)
    assert str(promise) == text
    assert parse_guarantee(text) == promise


def test_a_column_has_its_own_ceilings() -> None:
    promise = parse_guarantee("job: beta-likeness(0.1) and ill: l-diversity(2)")
    assert promise.ceilings(ILL) == [Fraction(1, 2)] * 3
    assert promise.ceilings(JOB) == [Fraction(33, 50), Fraction(11, 25)]
    apart = promise.for_columns(["ill", "job"])
    assert apart.stated() == {"ill": "l-diversity(2)", "job": "beta-likeness(0.1)"}
    assert parse_guarantee(apart.stated()) == apart


def test_the_same_for_all_columns_is_one_promise() -> None:
    promise = parse_guarantee({"ill": "l-diversity(2)", "job": "l-diversity(2)"})
    assert promise.for_columns(["ill", "job"]) == LDiversity(2)
    assert parse_guarantee("ill: beta-likeness(3)").for_columns(["ill"]) == BetaLikeness(3)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ("ill: l-diversity(2)", "promises nothing about the sensitive column 'job'"),
        (
            f"{BOTH} and jobs: l-diversity(2)",
            "promises something about jobs. Sensitive columns: ill",
        ),
    ],
)
def test_every_column_needs_a_promise_and_every_promise_a_column(stated: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_guarantee(stated).for_columns(["ill", "job"])


def test_the_nearest_keeps_what_the_other_columns_have() -> None:
    promise = parse_guarantee("job: l-diversity(4, open=cook) and ill: l-diversity(3)")
    with pytest.raises(InfeasibleGuarantee) as refused:
        promise.require_feasible(ILL)
    nearest = "job: l-diversity(4, open='cook') and ill: l-diversity(2)"
    assert refused.value.nearest == nearest
    assert f"Nearest that can be kept: '{nearest}'" in str(refused.value)


def test_combinations_need_one_promise_for_all() -> None:
    with pytest.raises(UsageError, match="says nothing of combinations"):
        jointly(parse_guarantee(BOTH), {"ill": ILL, "job": JOB})


@pytest.mark.parametrize(
    ("stated", "mechanism", "broken"),
    [
        (BOTH, "optimal", ("theta=1.5", "theta=1.01")),
        (BOTH, "local", ("beta-likeness(2)", "beta-likeness(0.2)")),
        (
            "ill: rho-privacy(0.4, 0.7) and job: fine-rho-privacy(limits='*:0.6:0.85')",
            "uniform",
            ("*:0.6:0.85", "*:0.6:0.65"),
        ),
        (
            "ill: fine-rho-privacy(theta=2) and job: rho-privacy(0.6, 0.8)",
            "fine-grain(objective=counts)",
            ("0.6, 0.8", "0.6, 0.65"),
        ),
    ],
)
def test_published_asked_and_audited(
    stated: str, mechanism: str, broken: tuple[str, str], tmp_path: Path
) -> None:
    """The release keeps both promises; one whose manifest promises more in one column does not."""
    to = tmp_path / "release"
    by_column = parse_guarantee(stated).stated()
    assert isinstance(by_column, dict)
    table = sf.read(people(), **ROLES)
    sf.publish(table, by_column, to=to, mechanism=mechanism, left_out=1)
    written = json.loads((to / "manifest.json").read_text())
    assert written["guarantee"] == by_column
    release = sf.open(to)
    assert release.manifest.guarantee == str(parse_guarantee(stated))
    told = " ".join(release.manifest.statement)
    assert "'ill'" in told
    assert "'job'" in told
    answer = release.sql("SELECT job, COUNT(*) FROM release WHERE ill = 'flu' GROUP BY job")
    assert len(answer.to_pandas()) == 2
    assert sf.audit(table, to).holds
    changed = (to / "manifest.json").read_text().replace(*broken)
    (to / "manifest.json").write_text(changed)
    found = [finding for finding in sf.audit(table, to).findings if finding.holds is False]
    assert {finding.column for finding in found if finding.column} == {
        "job" if broken[0] in by_column["job"] else "ill"
    }


@pytest.mark.parametrize(
    "text", ["a: l-diversity(3) and " + 30_000 * " " + "x", 30_000 * ") and '"]
)
def test_a_strangers_text_is_read_in_one_pass(text: str) -> None:
    """In a manifest that nobody vouches for; with backtracking this took hours."""
    with pytest.raises(UsageError):
        parse_guarantee(text)
