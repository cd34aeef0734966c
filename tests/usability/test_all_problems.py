"""A refused command says all that is wrong at once, and the command it offers works."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 400
PEOPLE = pa.table(
    {
        "age": [20 + k % 50 for k in range(ROWS)],
        "sex": ["F", "M"] * (ROWS // 2),
        "ill": [None if k % 10 == 0 else "abcd"[k % 4] for k in range(ROWS)],
        "again": ["NO" if k % 3 else "yes" for k in range(ROWS)],
        "note": [f"n{k}" for k in range(ROWS)],
    }
)


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "problems", "code"),
    [
        (("--quasi", "age,sexx", "--sensitive", "ill", "--guarantee", "l-diversity(2)"), 3, 2),
        (("--quasi", "age,sex", "--sensitive", "ill,again", "--guarantee", "l-diversity(3)"), 3, 3),
        (("--quasi", "age,sex", "--sensitive", "again", "--drop-rest", "--guarantee",
          "beta-likeness(2)"), 1, 2),
    ],
)  # fmt: skip
def test_the_offered_command_works(
    cli: Any, people: Path, flags: tuple[str, ...], problems: int, code: int
) -> None:
    refused = cli("publish", "people.parquet", *flags, "--out", "release")
    assert refused.code == code, refused.err
    assert not (people / "release").exists()
    numbered = [line for line in refused.err.splitlines() if line[:2].rstrip(".").isdigit()]
    assert len(numbered) == (problems if problems > 1 else 0), refused.err
    offered = shlex.split(refused.err.splitlines()[-1])
    assert offered[:2] == ["sfumato", "publish"]
    done = cli(*offered[1:])
    assert done.code == 0, done.err
    assert (people / "release" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("table", "flags", "said"),
    [
        ("nobody.parquet", ("--guarantee", "l-diversity(2)"), "There is no file 'nobody.parquet'."),
        ("people.parquet", ("--guarantee", "beta-likeness(2)", "--mechanism", "sps"),
         "The mechanism 'sps' does not keep 'beta-likeness(2)'. Mechanisms that do:"),
    ],
)  # fmt: skip
def test_what_cannot_be_repaired_is_said_once(
    cli: Any, people: Path, table: str, flags: tuple[str, ...], said: str
) -> None:
    roles = ("--quasi", "age", "--sensitive", "again", "--drop-rest")
    refused = cli("publish", table, *roles, *flags, "--out", "release")
    assert refused.code == 2
    assert refused.err.startswith(f"sfumato: {said}")
    assert len(refused.err.splitlines()) == 1
