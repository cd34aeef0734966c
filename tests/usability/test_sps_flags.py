"""The flags of reconstruction privacy on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def roles(people: Path) -> list[str]:
    return [str(people), "--quasi", "sex,age", "--sensitive", "ill"]


@pytest.mark.slow
def test_publish_audit_and_attack(cli: Any, people: Path, tmp_path: Path) -> None:
    out, csv = tmp_path / "release", tmp_path / "merges.csv"
    flags = ["--guarantee", PROMISE, "--out", out, "--merges", csv, "--significance", "0.01"]
    done = cli("publish", *roles(people), *flags, "--json")
    assert done.code == 0, done.err
    published = done.json
    assert published["mechanism"] == "sps(significance=0.01)"
    assert set(published["plan"]) == {"operators", "sampling", "merges"}
    assert csv.read_text().startswith("column,value,published_as\nage,20,")
    audited = cli("audit", people, out, "--json")
    assert audited.code == 0, audited.out
    found = cli("attack", people, out, "--attack", "ratio", "--epsilon", "5", "--json")
    assert found.json["outcomes"][0]["attack"] == "ratio"


def test_describe_says_who_would_be_exposed(cli: Any, people: Path) -> None:
    done = cli("describe", *roles(people), "--guarantee", PROMISE, "--merge", "none", "--json")
    assert done.code == 0, done.err
    tables = {table["name"]: table for table in done.json["tables"]}
    assert tables["Exposed"]["columns"][:4] == ["error", "chance", "groups", "people"]
    assert len(tables["Exposed"]["rows"]) == 9
    assert tables["Levels"]["rows"]


def test_flags_beside_a_mechanism_are_refused(cli: Any, people: Path, tmp_path: Path) -> None:
    flags = ["--guarantee", PROMISE, "--out", tmp_path / "r", "--mechanism", "sps"]
    done = cli("publish", *roles(people), *flags, "--merge", "none")
    assert done.code == 2
    assert "--mechanism 'sps(merge=none)'" in done.err


def test_what_cannot_be_kept_ends_with_3(cli: Any, people: Path, tmp_path: Path) -> None:
    flags = ["--guarantee", "reconstruction-privacy(0.3, 0.7)", "--out", tmp_path / "r"]
    done = cli("publish", *roles(people), *flags)
    assert done.code == 3
    assert "Nearest that can be kept: 'reconstruction-privacy(0.3, 0." in done.err
    assert not (tmp_path / "r").exists()


def test_an_attack_on_a_release_needs_one(cli: Any, people: Path) -> None:
    done = cli("attack", people, "--attack", "naive-bayes")
    assert done.code == 2
    assert "Name the release to attack" in done.err
