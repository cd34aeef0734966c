"""Releases that were changed, and SQL outside the dialect: message and exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from tests.tables import first_problem


@pytest.fixture
def release(tmp_path: Path, people: Any) -> Path:
    table = sf.read(people(300), quasi="age,sex,region", sensitive="disease")
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=tmp_path / "release", mechanism="uniform")
    return tmp_path / "release"


def message_of(outcome: Any) -> str:
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
    return first_problem(outcome.err)


COUNT = "SELECT COUNT(*) FROM release"


@pytest.mark.parametrize("command", ["query", "audit"])
def test_changed_byte(cli: Any, tmp_path: Path, people: Any, release: Path, command: str) -> None:
    path = release / "records/part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    raw = tmp_path / "people.parquet"
    pq.write_table(people(300), raw)
    arguments = (release, COUNT) if command == "query" else (raw, release)
    outcome = cli(command, *arguments)
    assert outcome.code == 2
    assert message_of(outcome) == (
        f"records/part-00000.parquet of '{release}' is not the file that was published: its "
        "SHA-256 or size differs from the manifest. Fetch the release again."
    )


def test_no_release(cli: Any, tmp_path: Path) -> None:
    outcome = cli("query", tmp_path / "nowhere", COUNT)
    assert outcome.code == 2
    assert message_of(outcome) == f"There is no release folder '{tmp_path}/nowhere'."
    outcome = cli("query", tmp_path, COUNT)
    assert outcome.code == 2
    assert message_of(outcome) == f"'{tmp_path}' is not a release: it has no manifest.json."


def test_audit_with_the_wrong_table(cli: Any, tmp_path: Path, people: Any, release: Path) -> None:
    raw = tmp_path / "people.parquet"
    pq.write_table(people(300).drop_columns(["sex"]), raw)
    outcome = cli("audit", raw, release)
    assert outcome.code == 2
    assert message_of(outcome) == (
        f"{raw} has no column 'sex', which the release publishes. Is it the table behind "
        f"'{release}'?"
    )


COLUMNS = "The release has no column 'height'. Columns there are: age, sex, region, disease."
JOIN = "The dialect does not support a join. A release is one table, `release`; ask it alone."


@pytest.mark.parametrize(
    ("sql", "start"),
    [
        ("SELECT COUNT(*) FROM release WHERE height > 3", COLUMNS),
        ("SELECT height, COUNT(*) FROM release GROUP BY height", COLUMNS),
        ("SELECT COUNT(*) FROM release JOIN release AS other ON TRUE", JOIN),
        ("SELECT COUNT(*) FROM release, release AS other", JOIN),
        ("SELECT COUNT(*) FROM people", "There is no table 'people'. A question reads one table"),
        ("SELECT * FROM release", "The dialect does not support SELECT *. "),
        ("DROP TABLE release", "The dialect does not support a statement that starts with DROP."),
        ("SELECT COUNT(*) FROM release; SELECT 1", "The dialect does not support several"),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "There is no table "),
        (
            "SELECT COUNT(*) FROM release WHERE getenv('HOME') = sex",
            "The dialect does not support the function getenv. Functions there are: ",
        ),
        ("counting people", "The dialect does not support a statement that starts with COUNTING."),
    ],
)
def test_sql_outside_the_dialect(cli: Any, release: Path, sql: str, start: str) -> None:
    outcome = cli("query", release, sql, "--json")
    assert outcome.code == 2, outcome
    assert message_of(outcome).startswith(start)
