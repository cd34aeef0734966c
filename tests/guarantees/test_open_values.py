"""Values that need no protection, and how many people a promise leaves out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import BetaLikeness, FPrivacy, LDiversity
from sfumato.profile import Histogram

WORK = Histogram("work", ("none", "farmer", "judge", None), np.array([60, 16, 14, 10]))


def test_open_values_have_no_ceiling() -> None:
    fifth = Fraction(1, 5)
    assert LDiversity(5, "none").ceilings(WORK) == [Fraction(1), fifth, fifth, fifth]
    assert LDiversity(5, ["none", None]).ceilings(WORK) == [1, fifth, fifth, 1]
    assert BetaLikeness(1, "none").ceilings(WORK)[0] == 1
    assert FPrivacy(theta=Fraction(3, 2), open="none").ceilings(WORK)[:2] == [1, Fraction(6, 25)]
    for promise in (LDiversity(5, "none"), BetaLikeness("0.5", "none")):
        promise.require_feasible(WORK)
        assert promise.left_out(WORK) == promise.open_codes(WORK) == [0]
        assert "need no protection: 'none'" in promise.statement(WORK)


@pytest.mark.parametrize("bad", ["", "a;a", "a;;b", ()])
def test_bad_open_values(bad: Any) -> None:
    with pytest.raises(UsageError, match="'open' names the values"):
        LDiversity(3, open=bad)


def test_a_value_that_is_not_there() -> None:
    with pytest.raises(DataError, match="has no value 'None', which the promise names as open"):
        LDiversity(3, open="None").ceilings(WORK)


def test_what_cannot_be_kept_points_to_open_values() -> None:
    with pytest.raises(InfeasibleGuarantee, match=r"say so: \"l-diversity\(5, open='none'\)\""):
        LDiversity(5).require_feasible(WORK)
    with pytest.raises(InfeasibleGuarantee) as refused:
        LDiversity(8, "none").require_feasible(WORK)
    assert refused.value.nearest == "l-diversity(6, open='none')"


def test_advice_takes_a_ceiling_of_one_for_open() -> None:
    steps = LDiversity.ladder(WORK, {"none": Fraction(1)})
    assert [str(step) for step in steps][:2] == [
        "l-diversity(6, open='none')",
        "l-diversity(5, open='none')",
    ]


def people(rows: int = 1000) -> pa.Table:
    rng = np.random.default_rng(31)
    work = rng.choice(np.array(["none", "farmer", "judge", "baker", "smith", "nurse"]), rows,
                      p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])  # fmt: skip
    return pa.table({"age": rng.integers(18, 90, rows), "work": work})


ROLES: dict[str, Any] = {"quasi": "age", "sensitive": "work"}


@pytest.mark.parametrize(
    "mechanism",
    ["optimal", "optimal(objective=multi-size)", "optimal(objective=two-size)", "heterogeneous"],
)
def test_open_releases_pass_their_audit(tmp_path: Path, mechanism: str) -> None:
    trace = tmp_path / "trace" if mechanism == "heterogeneous" else None
    promise = "l-diversity(5, open='none')"
    made = sf.publish(
        people(), promise, to=tmp_path / "r", mechanism=mechanism, receipt=trace, **ROLES
    )
    assert sf.audit(people(), made.release, receipt=trace).holds
    assert made.manifest.guarantee == promise


def test_an_open_value_does_not_open_the_others(tmp_path: Path) -> None:
    """A release under the open promise, told to keep a stricter one, fails."""
    made = sf.publish(people(), "l-diversity(3, open='none')", to=tmp_path / "r", **ROLES)
    path = made.release / "manifest.json"
    path.write_text(path.read_text().replace("l-diversity(3, open='none')", "l-diversity(3)"))
    verdict = sf.audit(people(), made.release)
    failed = {finding.check.name for finding in verdict.findings if finding.holds is False}
    assert "ceilings" in failed


def test_rings_have_no_open_values(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'ring' does not keep"):
        sf.publish(
            people(), "l-diversity(3, open='none')", to=tmp_path / "r", mechanism="ring", **ROLES
        )


def allowed_by(said: str) -> str:
    """The share of people that a refusal says would be enough."""
    return said.replace("--left-out ", "left_out=").rsplit("left_out=", 1)[1].strip(" .'")


@pytest.mark.parametrize("promise", ["f-privacy(theta=2, floor=0.05)", "beta-likeness(3)"])
def test_promises_that_leave_out_many_are_refused(tmp_path: Path, promise: str) -> None:
    with pytest.raises(UsageError) as refused:
        sf.publish(people(), promise, to=tmp_path / "r", **ROLES)
    number = int((np.array(people()["work"]) == "none").sum())
    said = str(refused.value)
    assert f"promises nothing about {number} of 1,000 people" in said
    assert "open='none'" in said
    assert not (tmp_path / "r").exists()
    allowed = allowed_by(said)
    made = sf.publish(people(), promise, to=tmp_path / "r", left_out=allowed, **ROLES)
    assert made.manifest.statement[0].startswith(
        f"Column 'work': nothing is promised about {number} of 1,000 people, those with 'none'. "
    )
    opened = promise.replace(")", ", open='none')")
    sf.publish(people(), opened, to=tmp_path / "open", **ROLES)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 99))
def test_the_share_that_is_named_is_enough(common: int) -> None:
    from sfumato.engines.choosing import left_out_share, refuse_left_out
    from sfumato.profile import Profile

    profile = Profile(100, {"s": Histogram("s", ("a", "b"), np.array([common, 100 - common]))})
    promise = BetaLikeness(1)
    try:
        refuse_left_out(profile, promise, Fraction(0))
    except UsageError as refused:
        share = left_out_share(allowed_by(str(refused)))
        refuse_left_out(profile, promise, share)
        with pytest.raises(UsageError):
            refuse_left_out(profile, promise, share - Fraction(1, 100))


def test_the_flag(cli: Any, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "people.parquet")
    line = ("publish", tmp_path / "people.parquet", "--quasi", "age", "--sensitive", "work",
            "--guarantee", "beta-likeness(3)", "--out", tmp_path / "r")  # fmt: skip
    assert cli(*line).code == 2
    outcome = cli(*line, "--left-out", "2")
    assert outcome.code == 2
    assert "'left_out' is a share of the people, from 0 to 1. Got 2 instead." in outcome.err
    assert cli(*line, "--left-out", "0.6").code == 0
