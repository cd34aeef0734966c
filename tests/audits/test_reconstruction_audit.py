"""The audit of sampled releases: honest ones pass, mutants do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audits import audit
from sfumato.engines.publishing import publish
from sfumato.operators import Uniform

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


def edit(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    change(manifest)
    (place / "manifest.json").write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )


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


def test_releases_with_broken_sampling_do_not_open(tmp_path: Path) -> None:
    place = release(tmp_path / "r")
    for scales in ("x", [0.5, 2.0], [1.0], [1.0, None]):
        edit(place, lambda m, s=scales: m["plan"]["sampling"].update(scales=s))
        with pytest.raises(sf.BundleError, match="scale"):
            sf.open(place)
