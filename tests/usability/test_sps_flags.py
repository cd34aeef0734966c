"""The flags of reconstruction privacy on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROMISE = "reconstruction-privacy(0.3, 0.3, retention=0.5)"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(5)
    sex = generator.choice(["F", "M"], 2000)
    ill = np.where(generator.random(2000) < np.where(sex == "F", 0.7, 0.3), "yes", "no")
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    ages = generator.integers(20, 30, 2000)
    pq.write_table(pa.table({"sex": sex, "age": ages, "ill": ill}), path)
    return path


def sfumato(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = "from sfumato.cli import main; main()"
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def roles(people: Path) -> list[str]:
    return [str(people), "--quasi", "sex,age", "--sensitive", "ill"]


@pytest.mark.slow
def test_publish_audit_and_attack(people: Path, tmp_path: Path) -> None:
    out, csv = tmp_path / "release", tmp_path / "merges.csv"
    flags = ["--guarantee", PROMISE, "--out", out, "--merges", csv, "--significance", "0.01"]
    done = sfumato("publish", *roles(people), *flags, "--bound", "exact", "--json")
    assert done.returncode == 0, done.stderr
    published = json.loads(done.stdout)
    assert published["mechanism"] == "sps(significance=0.01)"
    assert set(published["plan"]) == {"operators", "sampling", "merges"}
    assert csv.read_text().startswith("column,value,published_as\nage,20,")
    audited = sfumato("audit", people, out, "--json")
    assert audited.returncode == 0, audited.stdout
    found = sfumato("attack", people, out, "--attack", "ratio", "--epsilon", "5", "--json")
    assert json.loads(found.stdout)["outcomes"][0]["attack"] == "ratio"


def test_describe_says_who_would_be_exposed(people: Path) -> None:
    done = sfumato("describe", *roles(people), "--guarantee", PROMISE, "--merge", "none", "--json")
    assert done.returncode == 0, done.stderr
    tables = {table["name"]: table for table in json.loads(done.stdout)["tables"]}
    assert tables["Exposed"]["columns"][:4] == ["error", "chance", "groups", "people"]
    assert len(tables["Exposed"]["rows"]) == 9
    assert tables["Levels"]["rows"]


def test_flags_beside_a_mechanism_are_refused(people: Path, tmp_path: Path) -> None:
    flags = ["--guarantee", PROMISE, "--out", tmp_path / "r", "--mechanism", "sps"]
    done = sfumato("publish", *roles(people), *flags, "--bound", "chernoff")
    assert done.returncode == 2
    assert "--mechanism 'sps(bound=chernoff)'" in done.stderr


def test_what_cannot_be_kept_ends_with_3(people: Path, tmp_path: Path) -> None:
    flags = ["--guarantee", "reconstruction-privacy(0.3, 0.7)", "--out", tmp_path / "r"]
    done = sfumato("publish", *roles(people), *flags)
    assert done.returncode == 3
    assert "Nearest that can be kept: 'reconstruction-privacy(0.3, 0." in done.stderr
    assert not (tmp_path / "r").exists()


def test_an_attack_on_a_release_needs_one(people: Path) -> None:
    done = sfumato("attack", people, "--attack", "naive-bayes")
    assert done.returncode == 2
    assert "Name the release to attack" in done.stderr
