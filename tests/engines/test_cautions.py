"""What publish tells a steward besides the promise: identifiers, telling columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

ROWS = 1500
PROMISE = "rho-privacy(0.4, 0.7)"


def visits(each: int = 3) -> pa.Table:
    """Stays of patients; the education is told by its number, the zip code by nothing."""
    rng = np.random.default_rng(2)
    level = rng.integers(0, 5, ROWS)
    return pa.table(
        {
            "patient": rng.permutation(np.arange(ROWS) // each) + 70_000,
            "stay": rng.permutation(ROWS),
            "age": rng.integers(18, 90, ROWS),
            "level": level,
            "education": np.array(["none", "school", "college", "master", "doctor"])[level],
            "ill": rng.choice(np.array(["flu", "gout", "ulcer"]), ROWS),
        }
    )


def notes(to: Path, table: pa.Table, **roles: Any) -> str:
    return " ".join(sf.publish(table, PROMISE, to=to, mechanism="uniform", **roles).notes)


@pytest.mark.parametrize("role", ["drop", "quasi"])
@pytest.mark.parametrize("text", [False, True])
def test_an_identifier_that_repeats_is_named(tmp_path: Path, role: str, text: bool) -> None:
    table = visits()
    if text:
        named = pa.array([f"P{number}" for number in table["patient"].to_pylist()])
        table = table.set_column(0, "patient", named)
    roles = {"quasi": ["age"], "drop": ["stay", "level", "education"], "sensitive": "ill"}
    roles[role] = [*roles[role], "patient"]
    told = notes(tmp_path / "r", table, **roles)
    assert (
        "Column 'patient' repeats like an identifier: 500 different values in 1,500 rows." in told
    )
    assert "'stay'" not in told  # every row its own
    assert "'age'" not in told


def test_no_word_where_the_key_is_named_or_nothing_repeats(tmp_path: Path) -> None:
    rest = {"quasi": "age", "sensitive": "ill"}
    drop = ["stay", "level", "education"]
    keyed = notes(tmp_path / "r", visits(), person="patient", drop=drop, **rest)
    assert "identifier" not in keyed
    assert "identifier" not in notes(tmp_path / "s", visits(1), drop=[*drop, "patient"], **rest)
    assert "identifier" not in notes(tmp_path / "t", visits(100), drop=[*drop, "patient"], **rest)


@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.3])
def test_a_column_that_tells_the_sensitive_one_is_named(tmp_path: Path, wrong: float) -> None:
    table, rng = visits(1), np.random.default_rng(8)
    level = table["level"].to_numpy().copy()
    moved = rng.random(ROWS) < wrong
    level[moved] = rng.integers(0, 5, int(moved.sum()))
    table = table.set_column(3, "level", pa.array(level))
    told = notes(
        tmp_path / "r", table, quasi="age,level", sensitive="education",
        drop="patient,stay,ill",
    )  # fmt: skip
    assert ("Column 'level' all but tells 'education'" in told) == (wrong < 0.1)
    assert "'age'" not in told
