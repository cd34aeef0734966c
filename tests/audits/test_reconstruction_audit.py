"""The audit of sampled releases: honest ones pass, mutants do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audits import CheckResult, audit
from sfumato.engines.publishing import publish
from sfumato.operators import Uniform
from sfumato.release.manifest import FileEntry

PROMISE = "reconstruction-privacy(0.3, 0.3)"


def raw_table(rows: int = 6000, zones: int = 12) -> pa.Table:
    generator = np.random.default_rng(11)
    sex = generator.choice(["F", "M"], rows)
    zone = generator.integers(0, zones, rows)
    disease = np.where(
        generator.random(rows) < 0.3 + 0.03 * (zone % 12),
        np.where(sex == "F", "flu", "cold"),
        generator.choice(["flu", "cold", "HIV", "asthma", "gout"], rows),
    )
    return pa.table({"sex": sex, "zone": zone, "disease": disease})


RAW = raw_table()


def release(place: Path, mechanism: str = "sps(merge=none)", promise: str = PROMISE) -> Path:
    table = sf.read(RAW, quasi=["sex", "zone"], sensitive="disease")
    publish(table, promise, to=place, mechanism=mechanism)
    return place


def rewrite(place: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the records and put the manifest right, as a careful forger would."""
    path = place / "records/part-00000.parquet"
    changed = change(pq.read_table(path))
    pq.write_table(changed, path, store_schema=False)
    manifest = json.loads((place / "manifest.json").read_text())
    entry = FileEntry.of(path)
    manifest["files"]["records/part-00000.parquet"] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (place / "manifest.json").write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )


def edit(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    change(manifest)
    (place / "manifest.json").write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )


def failing(place: Path) -> set[str]:
    return {finding.check.name for finding in audit(RAW, place).findings if not finding.holds}


@pytest.mark.parametrize("mechanism", ["sps", "sps(merge=none)", "sps(merge=complete)"])
def test_honest_releases_pass(tmp_path: Path, mechanism: str) -> None:
    verdict = audit(RAW, release(tmp_path / "r", mechanism))
    assert verdict.holds, str(verdict)


def test_the_exact_tails_are_told(tmp_path: Path) -> None:
    verdict = audit(RAW, release(tmp_path / "r", "sps(merge=none)"))
    found = {finding.title: finding for finding in verdict.findings}
    after = found["exact tails of disease"]
    assert after.result is CheckResult.OK
    assert float(after.value or 0) >= 0.3


def replaced(table: pa.Table, column: str, values: list[Any]) -> pa.Table:
    index = table.schema.get_field_index(column)
    kind = table.schema.field(index).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    array = pa.array(values, plain)
    return table.set_column(index, column, array.cast(kind) if kind != plain else array)


def test_perturbing_every_record_instead_of_a_sample_is_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r")
    generator = np.random.default_rng(0)

    def perturb_all(table: pa.Table) -> pa.Table:
        values = generator.choice(["flu", "cold", "HIV", "asthma", "gout"], table.num_rows)
        return replaced(table, "disease", values.tolist())

    rewrite(place, perturb_all)
    assert "copies" in failing(place)


def test_one_changed_value_is_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r")

    def change(table: pa.Table) -> pa.Table:
        values = table["disease"].to_pylist()
        values[0] = "HIV" if values[0] != "HIV" else "gout"
        return replaced(table, "disease", values)

    rewrite(place, change)
    assert "copies" in failing(place)


def test_a_record_moved_to_another_group_is_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r")

    def change(table: pa.Table) -> pa.Table:
        values = table["zone"].to_pylist()
        values[0] = (values[0] + 1) % 12
        return replaced(table, "zone", values)

    rewrite(place, change)
    assert "group-sizes" in failing(place)


def test_a_part_that_hides_copies_is_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r")
    rewrite(place, lambda table: replaced(table, "part", [0] * table.num_rows))
    assert failing(place) & {"scales", "plan-part"}


def test_another_operator_is_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r")
    edit(place, lambda m: m["plan"]["operators"]["disease"].update(retention="3/4"))
    assert "plan-part" in failing(place)


def test_merges_that_the_table_does_not_give_are_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r", "sps(merge=complete)")
    edit(place, lambda m: m.update(mechanism="sps(merge=complete, significance=0.5)"))
    assert "plan-part" in failing(place)


def test_a_promise_that_was_not_planned_for_is_caught(tmp_path: Path) -> None:
    place = release(tmp_path / "r", promise="reconstruction-privacy(0.1, 0.1)")
    edit(place, lambda m: m.update(guarantee=PROMISE))
    assert "plan-part" in failing(place)
    edit(place, lambda m: m.update(guarantee="reconstruction-privacy(0.3, 0.6)"))
    assert "plan" in failing(place)
    edit(place, lambda m: m.update(guarantee=PROMISE, mechanism="uniform"))
    assert "plan" in failing(place)


def test_showing_the_samples_unperturbed_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1,200 groups: of a few groups with two draws each nobody could tell
    many = raw_table(zones=600)
    table = sf.read(many, quasi=["sex", "zone"], sensitive="disease")
    mechanism = "sps(merge=none)"
    check = "draws"
    for name in ("honest", "not"):
        publish(table, PROMISE, to=tmp_path / name, mechanism=mechanism)
        verdict = audit(many, tmp_path / name)
        found = {finding.check.name: finding.holds for finding in verdict.findings}
        assert found[check] == (name == "honest"), str(verdict)
        monkeypatch.setattr(Uniform, "apply", lambda self, codes, *_: codes)


def test_a_seeded_release_fails(tmp_path: Path) -> None:
    table = sf.read(RAW, quasi=["sex", "zone"], sensitive="disease")
    publish(table, PROMISE, to=tmp_path / "r", seed=1)
    assert failing(tmp_path / "r") == {"randomness"}


def test_releases_with_broken_sampling_do_not_open(tmp_path: Path) -> None:
    place = release(tmp_path / "r")
    for scales in ("x", [0.5, 2.0], [1.0], [1.0, None]):
        edit(place, lambda m, s=scales: m["plan"]["sampling"].update(scales=s))
        with pytest.raises(sf.BundleError, match="scale"):
            sf.open(place)


def test_a_release_without_scales_fails(tmp_path: Path) -> None:
    place = release(tmp_path / "r")
    edit(place, lambda m: m["plan"].pop("sampling"))
    assert failing(place) & {"scales", "plan-part"}
