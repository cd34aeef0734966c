"""Records in many files: the same release, asked, audited and attacked alike."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.columns import Column, Values
from sfumato.errors import BundleError
from sfumato.evidence.penalty import release_penalty
from sfumato.public import from_quasi, from_stated
from sfumato.release import BundleWriter, Manifest, Release

WAYS = {
    "uniform": "rho-privacy(0.2, 0.5)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "l-diversity(3)",
    "heterogeneous": "l-diversity(3)",
}
USUAL = (
    "SELECT disease, COUNT(*), AVG(age) FROM release WHERE age > 30 GROUP BY disease",
    "SELECT sex, COUNT(*) FILTER (WHERE disease = 'd01') FROM release GROUP BY sex",
)
QUESTIONS = {
    "sps": (
        "SELECT disease, COUNT(*) FROM release GROUP BY disease",
        "SELECT age, COUNT(*) FILTER (WHERE disease = 'd01') FROM release GROUP BY age",
    ),
    "heterogeneous": (
        "SELECT disease, COUNT(*) FROM release WHERE age > 30 GROUP BY disease",
        "SELECT COUNT(*) FROM release WHERE sex = 'F' AND disease = 'd01'",
    ),
}

Published = Callable[[str], tuple[sf.Table, Path, Path]]


def people() -> sf.Table:
    rng = np.random.default_rng(3)
    data = pa.table(
        {
            "age": rng.integers(20, 50, 600),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, 600)],
            "disease": np.array([f"d{i:02d}" for i in rng.integers(0, 12, 600)]),
        }
    )
    return sf.read(data, quasi="age,sex", sensitive="disease")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, split: Any) -> Published:
    """A table, its release by a mechanism, and the same release in parts."""
    made: dict[str, tuple[sf.Table, Path, Path]] = {}

    def publish(way: str) -> tuple[sf.Table, Path, Path]:
        if way not in made:
            folder = tmp_path_factory.mktemp(way)
            sf.publish(people(), WAYS[way], to=folder / "whole", mechanism=way)
            parts = split(folder / "whole", folder / "split")
            made[way] = people(), folder / "whole", parts
        return made[way]

    return publish


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize("way", WAYS)
def test_parts_are_asked_audited_and_attacked_like_the_whole(
    published: Published, way: str
) -> None:
    table, whole, parts = published(way)
    one, other = sf.open(whole), sf.open(parts)
    assert len(other.records) == 4
    for sql in QUESTIONS.get(way, USUAL):
        assert_alike(one.sql(sql).table, other.sql(sql).table)
    assert told(sf.audit(table, other)) == told(sf.audit(table, one))
    attacks = [sf.attack(table, each, targets=50, fresh=False) for each in (one, other)]
    assert repr(attacks[0]) == repr(attacks[1])


def assert_alike(expected: pa.Table, found: pa.Table) -> None:
    """The same but for the order in which numbers were added."""
    assert expected.schema == found.schema
    assert expected.num_rows == found.num_rows > 0
    for name in expected.column_names:
        columns = [table.column(name).combine_chunks() for table in (expected, found)]
        if pa.types.is_floating(columns[0].type):
            assert columns[0].is_null().equals(columns[1].is_null())
            np.testing.assert_allclose(*columns, rtol=1e-9, atol=1e-6)
        else:
            assert columns[0].equals(columns[1])


def told(verdict: Any) -> list[tuple[str, bool]]:
    """Not the numbers and witnesses, which follow from the order of adding up."""
    # smaller parts than `publish` writes are another spelling, which the audit says
    return [(f.check.name, f.holds) for f in verdict.findings if f.check.name != "spelling"]


def test_penalty_of_parts(published: Published) -> None:
    _, whole, parts = published("heterogeneous")
    assert release_penalty(parts).whole == pytest.approx(release_penalty(whole).whole)


# -- writing ------------------------------------------------------------------------------------

RECORDS = pa.table({"sex": ["F", "M", "M", "F", "F"], "disease": ["a", "b", "a", "b", "a"]})


def small_manifest(rows: int = 5) -> Manifest:
    columns = (
        Column("sex", "quasi", "categorical", "string", Values(("F", "M"))),
        Column("disease", "sensitive", "categorical", "string", Values(("a", "b"))),
    )
    operators = {"disease": {"form": "uniform", "values": 2, "retention": "1/2"}}
    return Manifest.of(
        "perturbed", {"operators": from_stated(operators)}, [from_quasi(c) for c in columns],
        sfumato="0", mechanism="uniform", guarantee="none", rows=rows, suppressed=0,
        missing="refuse", randomness="seeded",
        statement=(), does_not_protect=(), caveats=(),
    )  # fmt: skip


def written(place: Path, names: list[str], litter: tuple[str, ...] = ()) -> Release:
    with BundleWriter(place) as bundle:
        folder = bundle.folder / "records"
        folder.mkdir()
        for number, name in enumerate(names):
            pq.write_table(RECORDS.slice(number, 1), folder / name)
        for name in litter:
            (folder / name).write_text("left by a cluster")
        bundle.finish(small_manifest(len(names)))
    return Release(place)


def test_parts_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    release = written(tmp_path / "release", ["part-99999.parquet", "part-100000.parquet"])
    shown = [pq.read_table(path).column("sex").to_pylist() for path in release.records]
    assert shown == [["F"], ["M"]]


def test_a_run_that_fails_leaves_no_parts(tmp_path: Path, leftovers: Any) -> None:
    with contextlib.suppress(RuntimeError), BundleWriter(tmp_path / "release") as bundle:
        (bundle.folder / "records").mkdir()
        pq.write_table(RECORDS, bundle.folder / "records" / "part-00000.parquet")
        raise RuntimeError
    assert leftovers(tmp_path) == []


# -- folders that nobody vouches for ------------------------------------------------------------

Change = Callable[[Path], None]


def rewrite(place: Path, name: str, table: pa.Table) -> None:
    """Change a part and make its hash right again."""
    path = place / name
    pq.write_table(table, path, store_schema=False)
    described = json.loads((place / "manifest.json").read_text())
    described["files"][name] = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": path.stat().st_size,
    }
    (place / "manifest.json").write_text(json.dumps(described, indent=2) + "\n")


def swap(place: Path) -> None:
    one, other = place / "records/part-00000.parquet", place / "records/part-00003.parquet"
    one.rename(place / "x")
    other.rename(one)
    (place / "x").rename(other)


def link_folder(place: Path) -> None:
    (place / "records").rename(place.parent / "elsewhere")
    (place / "records").symlink_to(place.parent / "elsewhere")


def other_type(place: Path) -> None:
    name = "records/part-00001.parquet"
    table = pq.read_table(place / name)
    rewrite(place, name, table.set_column(0, "age", table.column("age").cast(pa.int32())))


def fewer_rows(place: Path) -> None:
    name = "records/part-00003.parquet"
    rewrite(place, name, pq.read_table(place / name).slice(1))


def foreign_value(place: Path) -> None:
    name = "records/part-00003.parquet"
    table = pq.read_table(place / name)
    rewrite(place, name, table.set_column(2, "disease", pa.array(["plague"] * table.num_rows)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: shutil.copy(p / "records/part-00000.parquet", p / "records/part-00004.parquet"),
         r"does not name: records/part-00004\.parquet"),
        (lambda p: (p / "records/_SUCCESS").write_text(""), "does not name: records/_SUCCESS"),
        (swap, r"records/part-0000.\.parquet of .* is not the file that was published"),
        (link_folder, "lacks records/part-00000"),
        (other_type, "part-00001.parquet of .* has other columns or types than part-00000.parquet"),
        (fewer_rows, "have 599 rows; the manifest says 600"),
        (foreign_value, "1 values outside the domain"),
    ],
)  # fmt: skip
def test_wrong_parts(tmp_path: Path, published: Published, change: Change, words: str) -> None:
    place = shutil.copytree(published("uniform")[2], tmp_path / "r")
    change(place)
    with pytest.raises(BundleError, match=words):
        Release(place)


HASH = {"sha256": "0" * 64, "bytes": 1}


@pytest.mark.parametrize(
    "name",
    [
        "records.parquet",  # both ways at once
        "records/../records/part-00007.parquet",
        "records/part-00007-of-9.parquet",
        "records/x.parquet",
        "records/part-00007.parquet/part-00007.parquet",
        "sensitive/part-00007.parquet",
    ],
)
def test_names_that_no_part_has(tmp_path: Path, published: Published, name: str) -> None:
    place = shutil.copytree(published("uniform")[2], tmp_path / "r")
    described = json.loads((place / "manifest.json").read_text())
    described["files"][name] = HASH
    (place / "manifest.json").write_text(json.dumps(described, indent=2) + "\n")
    with pytest.raises(BundleError, match="is wrong: "):
        Release(place)


def test_a_folder_that_looks_like_a_pattern(tmp_path: Path, published: Published) -> None:
    """Brackets, stars and `name=value` in a path are letters, not patterns or columns."""
    table, whole, _ = published("optimal")
    place = tmp_path / "sex=F" / "a[b]*"
    shutil.copytree(whole, place)
    assert sf.open(place).sql("SELECT COUNT(*) FROM release").value == 600
    assert sf.audit(table, place).holds
