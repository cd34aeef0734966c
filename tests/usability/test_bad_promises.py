"""Promises that make no sense or cannot be kept: message, exit code, witness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import InfeasibleGuarantee
from tests.tables import first_problem

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")


def refused(cli: Any, tmp_path: Path, leftovers: Any, *arguments: object, code: int = 2) -> str:
    before = leftovers(tmp_path)
    outcome = cli("publish", *arguments, "--out", tmp_path / "release")
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    assert leftovers(tmp_path) == before
    assert "Traceback" not in outcome.err
    return first_problem(outcome.err)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rho-privacy(1/6, 1/13)",
            "rho-privacy needs rho1 < rho2 (chance before, chance after). "
            "Got rho1 = 1/6, rho2 = 1/13.",
        ),
        (
            "rho-privacy(0.3, 0.3)",
            "rho-privacy needs rho1 < rho2 (chance before, chance after). "
            "Got rho1 = 0.3, rho2 = 0.3.",
        ),
        (
            "rho-privacy(0, 0.3)",
            "The 'rho1' parameter of rho-privacy must be a number between 0 and 1, both excluded. "
            "Got 0 instead.",
        ),
        (
            "rho-privacy(0.1, 1)",
            "The 'rho2' parameter of rho-privacy must be a number between 0 and 1, both excluded. "
            "Got 1 instead.",
        ),
        (
            "rho-privacy(-0.1, 0.3)",
            "The 'rho1' parameter of rho-privacy must be a number between 0 and 1, both excluded. "
            "Got -0.1 instead.",
        ),
        (
            "rho-privacy(0.1, 7/2)",
            "The 'rho2' parameter of rho-privacy must be a number between 0 and 1, both excluded. "
            "Got 3.5 instead.",
        ),
        (
            "rho-privacy(often, 0.3)",
            "The 'rho1' parameter of rho-privacy must be a number such as 0.3 or 1/13. "
            "Got 'often' instead.",
        ),
        (
            "rho-privacy(1/0, 0.3)",
            "The 'rho1' parameter of rho-privacy must be a number such as 0.3 or 1/13. "
            "Got '1/0' instead.",
        ),
        (
            "rho-privacy(1e-999999999, 0.3)",
            "The 'rho1' parameter of rho-privacy must be a number such as 0.3 or 1/13. "
            "Got '1e-999999999' instead.",
        ),
        (
            "rho-privacy(nan, 0.3)",
            "The 'rho1' parameter of rho-privacy must be a number such as 0.3 or 1/13. "
            "Got 'nan' instead.",
        ),
        (
            "rho-privacy(0.1)",
            "rho-privacy needs rho2. Write rho-privacy(rho1, rho2, reader).",
        ),
        (
            "rho-privacy(0.1, 0.2, 0.3)",
            "The 'reader' parameter of rho-privacy must be one of anybody, shares. "
            "Got '0.3' instead.",
        ),
        (
            "rho-privacy(0.1, sigma=0.2)",
            "rho-privacy has no parameter 'sigma'. Write rho-privacy(rho1, rho2, reader).",
        ),
        (
            "rho-privacy(0.1, rho1=0.2)",
            "rho-privacy gets 'rho1' twice. Write rho-privacy(rho1, rho2, reader).",
        ),
        (
            "rho-privacy(rho2=0.2, rho2=0.3)",
            "The guarantee 'rho-privacy(rho2=0.2, rho2=0.3)' gives 'rho2' twice.",
        ),
        (
            "rho-privacy(rho1=0.2, 0.3)",
            "The guarantee 'rho-privacy(rho1=0.2, 0.3)' has the plain value '0.3' after a "
            "key=value pair. Put plain values first.",
        ),
        (
            "rho-privacy(0.1,, 0.2)",
            "The guarantee 'rho-privacy(0.1,, 0.2)' has an empty place between two commas.",
        ),
        (
            "rho-privacy(0.1, 0.2",
            "Cannot read the guarantee 'rho-privacy(0.1, 0.2'. Write name(value, key=value), for "
            "example 'rho-privacy(1/13, 1/6)'.",
        ),
        (
            "",
            "Cannot read the guarantee ''. Write name(value, key=value), for example "
            "'rho-privacy(1/13, 1/6)'.",
        ),
    ],
)  # fmt: skip
def test_unreadable_promises(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path, text: str, message: str
) -> None:
    found = refused(cli, tmp_path, leftovers, people_file, *ROLES, "--guarantee", text)
    assert found == message


def test_unknown_guarantee(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    from sfumato.guarantees import GUARANTEES

    found = refused(cli, tmp_path, leftovers, people_file, *ROLES, "--guarantee", "secrecy(3)")
    assert found == (
        f"There is no guarantee 'secrecy'. Choose one of: {', '.join(sorted(GUARANTEES))}."
    )


def test_unknown_mechanism(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    from sfumato.mechanisms import MECHANISMS

    promise = ("--guarantee", "rho-privacy(0.3, 0.6)")
    found = refused(cli, tmp_path, leftovers, people_file, *ROLES, *promise, "--mechanism", "magic")
    assert found == (
        f"There is no mechanism 'magic'. Choose one of: {', '.join(sorted(MECHANISMS))}."
    )
    found = refused(
        cli, tmp_path, leftovers, people_file, *ROLES, *promise, "--mechanism", "uniform(3)"
    )
    assert found == "uniform takes at most 0 values, got 1. Write uniform."


def test_one_sensitive_value_only(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "all-ill.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3], "disease": ["flu"] * 3}), path)
    flags = (path, "--quasi", "age", "--sensitive", "disease")
    # a wider domain does not help either: everybody has the same value
    found = refused(
        cli, tmp_path, leftovers, *flags,
        "--guarantee", "rho-privacy(0.3, 0.6)", "--domain", "disease=flu,HIV", code=3,
    )  # fmt: skip
    assert found == (
        "'rho-privacy(0.3, 0.6)' would protect nobody: every value of column 'disease' has a share "
        "above rho1 = 0.3; the rarest, 'flu', has 1. Nothing can: choose another sensitive column."
    )


def test_no_value_with_a_share_up_to_rho1(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "coin.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3, 4], "side": ["head", "head", "head", "tail"]}), path)
    flags = (path, "--quasi", "age", "--sensitive", "side")
    found = refused(
        cli, tmp_path, leftovers, *flags, "--guarantee", "rho-privacy(0.1, 0.6)", code=3
    )
    assert found == (
        "'rho-privacy(0.1, 0.6)' would protect nobody: every value of column 'side' has a share "
        "above rho1 = 0.1; the rarest, 'tail', has 0.25. Nearest that protects something: "
        "'rho-privacy(0.25, 0.6)'."
    )


@pytest.mark.parametrize(
    ("rho1", "rho2", "nearest"),
    [("0.1", "0.6", "rho-privacy(0.25, 0.6)"), ("0.1", "0.2", "rho-privacy(0.25, 3/7)")],
)
def test_the_nearest_promise_can_be_kept(
    tmp_path: Path, rho1: str, rho2: str, nearest: str
) -> None:
    data = pa.table({"age": [1, 2, 3, 4], "side": ["head", "head", "head", "tail"]})
    table = sf.read(data, quasi="age", sensitive="side")
    with pytest.raises(InfeasibleGuarantee) as caught:
        sf.publish(table, sf.RhoPrivacy(rho1, rho2), to=tmp_path / "release")
    assert caught.value.witness == "'tail'"
    assert caught.value.nearest == nearest
    sf.publish(table, nearest, to=tmp_path / "release")


def test_uncovered_values_are_named_to_the_steward(cli: Any, tmp_path: Path) -> None:
    """Every one of them, however many there are; the manifest, which is public, states the rule."""
    common = [f"common{i:02d}" for i in range(60)]
    data = pa.table({"disease": common * 20 + ["rare"]})
    path = tmp_path / "people.parquet"
    pq.write_table(data, path)
    outcome = cli(
        "publish", path, "--sensitive", "disease", "--guarantee", "rho-privacy(0.01, 0.3)",
        "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    statement = " ".join(json.loads((tmp_path / "release/manifest.json").read_text())["statement"])
    assert "A value that more than 0.01 of the people have is not covered" in statement
    assert "common00" not in statement
    expected = "nothing is promised about 1,200 of 1,201 people, those with " + ", ".join(
        repr(name) for name in common
    )
    assert f"{expected}." in outcome.out


def test_the_exit_code_of_an_infeasible_describe(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    outcome = cli(
        "describe", people_file, *ROLES, "--guarantee", "rho-privacy(0.0001, 0.3)", "--json"
    )
    assert outcome.code == 3
    assert outcome.out == ""
    assert "would protect nobody" in outcome.err
