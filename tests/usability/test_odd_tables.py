"""Odd tables that are taken as they come: huge domains, instants, files without names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize(
    ("mechanism", "promise"),
    [("uniform", "rho-privacy(0.3, 0.6)"), ("heterogeneous", "l-diversity(3)")],
)
def test_a_range_of_huge_numbers_opens_again(
    cli: Any, tmp_path: Path, people_file: Path, mechanism: str, promise: str
) -> None:
    """JSON holds 1e300 as a float; as a whole number DuckDB could not compare with it."""
    out = tmp_path / "release"
    promised = ("--guarantee", promise, "--mechanism", mechanism, "--out", out)
    done = cli("publish", people_file, *ROLES, *promised, "--domain", "age=-1e300..1e300")
    assert done.code == 0, done.err
    asked = cli("query", out, "SELECT COUNT(*) FROM release WHERE age > 30")
    assert asked.code == 0, asked.err


def test_a_kdd_file_with_flags_alone(cli: Any, tmp_path: Path) -> None:
    """No names, leading blanks, `?`, Latin-1, semicolons: published and audited as it comes."""
    path, out = tmp_path / "census.data", tmp_path / "release"
    ills = ["grippe", "rhume", "fi\u00e8vre", "toux", "otite"]
    lines = [
        f" {20 + n % 50}; {'MF'[n % 2] if n % 9 else '?'}; {ills[n % 5]}; x" for n in range(500)
    ]
    path.write_text("\n".join(lines), encoding="latin-1")
    written = ("--columns", "age,sex,ill,rest", "--encoding", "latin-1",
               "--missing-markers", "?", "--separator", ";")  # fmt: skip
    roles = ("--quasi", "age,sex", "--sensitive", "ill", "--drop-rest")
    promise = ("--guarantee", "l-diversity(3)", "--out", out)
    done = cli("publish", path, *written, *roles, *promise)
    assert done.code == 0, done.err
    assert cli("audit", path, out, *written).code == 0
    asked = cli("query", out, "SELECT COUNT(*) FROM release WHERE sex IS NULL", "--json")
    assert '"count": 56' in asked.out
    assert "fi\u00e8vre" in cli("query", out, "SELECT ill, COUNT(*) FROM release GROUP BY ill").out


def test_the_job_file_may_stand_anywhere(cli: Any, tmp_path: Path, people_file: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[table]\nquasi = ["age"]\nsensitive = "disease"\ndrop-rest = true\n')
    first = cli("--job", job, "describe", people_file)
    last = cli("describe", people_file, "--job", job)
    assert first.code == last.code == 0
    assert first.out == last.out
    assert "Histogram. disease" in last.out


def test_uncovered_values_are_named_to_the_steward(cli: Any, tmp_path: Path) -> None:
    """Every one of them, however many there are; the manifest, which is public, states the rule."""
    common = [f"common{i:02d}" for i in range(60)]
    path, out = tmp_path / "people.parquet", tmp_path / "release"
    pq.write_table(pa.table({"disease": common * 20 + ["rare"]}), path)
    promise = ("--sensitive", "disease", "--guarantee", "rho-privacy(0.01, 0.3)", "--out", out)
    outcome = cli("publish", path, *promise)
    assert outcome.code == 0, outcome.err
    statement = " ".join(json.loads((out / "manifest.json").read_text())["statement"])
    assert "A value that more than 0.01 of the people have is not covered" in statement
    assert "common00" not in statement
    expected = "nothing is promised about 1,200 of 1,201 people, those with " + ", ".join(
        repr(name) for name in common
    )
    assert f"{expected}." in outcome.out
