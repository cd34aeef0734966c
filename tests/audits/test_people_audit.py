"""An audit holds a release to its promise for people, and finds releases that break it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.datasets import hospital
from sfumato.errors import DataError

ROLES = {"quasi": "row,age,sex", "sensitive": "admission", "person": "patient"}
WAYS = {
    "uniform": ("rho-privacy(0.35, 0.7)", 2),
    "general": ("rho-privacy(0.35, 0.7)", 3),
    "optimal": ("l-diversity(2)", 1),
    "two-size(fakes=1)": ("l-diversity(2)", 1),
}


@pytest.fixture(scope="module")
def stays() -> pa.Table:
    made = hospital(4000, seed=8, stays=20).drop_columns(["region", "diagnosis"])
    return made.append_column("row", pa.array(range(made.num_rows)))


def published(stays: pa.Table, way: str, to: Path) -> Path:
    promise, rows = WAYS[way]
    sf.publish(stays, promise, mechanism=way, to=to, rows_per_person=rows, **ROLES)
    return to


def signed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, and make hashes, sizes and row counts right again."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        entry.update(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    (folder / "manifest.json").write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )


def failed(stays: pa.Table, folder: Path) -> set[str]:
    return {f.check.name for f in sf.audit(stays, folder).findings if f.holds is False}


@pytest.mark.parametrize("way", WAYS)
def test_honest_releases_pass(stays: pa.Table, way: str, tmp_path: Path) -> None:
    verdict = sf.audit(stays, published(stays, way, tmp_path / "release"))
    assert verdict.holds, str(verdict)
    assert "the people of 4,000 rows" in str(verdict)


def test_a_receipt_repeats_the_choice_of_rows(stays: pa.Table, tmp_path: Path) -> None:
    ways = {
        "splu": "small-sum(2)",
        "partitioned": "rho-privacy(0.35, 0.7)",
        "sps": "reconstruction-privacy(0.3, 0.3)",
        "burel": "l-diversity(2)",
    }
    for way, promise in ways.items():
        release, receipt = tmp_path / way, tmp_path / f"{way}.receipt"
        sf.publish(stays, promise, mechanism=way, to=release, receipt=receipt, **ROLES)
        assert sf.audit(stays, release, receipt=receipt).holds
        blind = sf.audit(stays, release)  # which rows were withheld, nobody says: not looked at
        assert blind.holds is None
        assert "audit with --receipt" in str(blind)


def test_more_rows_of_a_person_than_promised_are_found(stays: pa.Table, tmp_path: Path) -> None:
    """All rows are published, and the manifest says that it is two of each person."""
    release = tmp_path / "release"
    sf.publish(stays, "rho-privacy(0.35, 0.7)", mechanism="uniform", to=release,
               rows_per_person=20, **ROLES)  # fmt: skip
    signed(release, lambda manifest: manifest["person"].update(rows=2))
    assert failed(stays, release) >= {"person-rows", "person-most"}


def test_one_person_with_too_many_rows_is_found(stays: pa.Table, tmp_path: Path) -> None:
    """The number of rows is right: one more of a person, one less of another."""
    release = published(stays, "uniform", tmp_path / "release")
    records = pq.read_table(release / "records")
    whose = dict(zip(stays["row"].to_pylist(), stays["patient"].to_pylist(), strict=True))
    shown = set(records["row"].to_pylist())
    counted = [whose[row] for row in shown]
    spare = next(row for row in whose if row not in shown)
    lost = next(index for index, row in enumerate(records["row"].to_pylist())
                if whose[row] != whose[spare] and counted.count(whose[row]) == 1)  # fmt: skip
    changed = records.to_pylist()
    raw = stays.slice(spare, 1).to_pylist()[0]
    changed[lost].update(row=spare, age=raw["age"], sex=raw["sex"])
    pq.write_table(
        pa.Table.from_pylist(changed, records.schema), release / "records/part-00000.parquet"
    )
    signed(release, lambda manifest: None)
    assert "person-most" in failed(stays, release)


def test_an_operator_for_fewer_rows_is_found(stays: pa.Table, tmp_path: Path) -> None:
    release = tmp_path / "release"
    sf.publish(stays, "rho-privacy(0.35, 0.7)", mechanism="uniform", to=release, **ROLES,
               rows_per_person=20)  # fmt: skip
    signed(release, lambda manifest: manifest.update(guarantee="rho-privacy(0.35, 0.6)"))
    assert "amplification" in failed(stays, release)


def test_buckets_that_list_what_nobody_has_are_found(stays: pa.Table, tmp_path: Path) -> None:
    """More of a rare value than people have it: its share, and so its ceiling, would rise."""
    release = published(stays, "optimal", tmp_path / "release")
    listed = pq.read_table(release / "sensitive.parquet")
    rare = [{**row, "admission": "birth"} if row["admission"] == "emergency" else row
            for row in listed.to_pylist()]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rare, listed.schema), release / "sensitive.parquet")
    signed(release, lambda manifest: None)
    assert "bucket-histogram" in failed(stays, release)


def test_the_person_column_is_needed(stays: pa.Table, tmp_path: Path) -> None:
    release = published(stays, "uniform", tmp_path / "release")
    with pytest.raises(DataError, match="has no column 'patient', which says whose rows they are"):
        sf.audit(stays.drop_columns(["patient"]), release)
