"""The audit of perturbed releases: honest ones hold, each way to cheat is found."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato.audits import AuditCase
from sfumato.audits.draws import check_draws
from sfumato.errors import WeakPromiseWarning
from sfumato.release import Release

PROMISE = "rho-privacy(0.3, 0.6)"
QUASI = ["age", "sex", "region"]


def table_of(data: pa.Table) -> sf.Table:
    return sf.read(data, quasi=QUASI, sensitive="disease")


def test_retention_raised_by_a_hair(tmp_path: Path, people: Any, mutate: Any) -> None:
    """The amplification is compared exactly, not in floating point."""
    data, place = people(3000), tmp_path / "release"
    sf.publish(table_of(data), PROMISE, to=place, mechanism="uniform")
    honest = sf.audit(data, place)
    assert honest.holds
    assert set(honest.to_json()) == {
        *("holds", "headline", "tested", "unseen", "findings", "exposure")
    }
    assert "<table>" in honest._repr_html_()

    def raise_it(described: dict[str, Any]) -> None:
        operator = described["plan"]["operators"]["disease"]
        gamma = sf.RhoPrivacy("0.3", "0.6").gamma
        exact = (gamma - 1) / (operator["values"] - 1 + gamma)
        operator["retention"] = str(exact + Fraction(1, 10**30))

    bad = mutate(place, tmp_path / "bad", manifest=raise_it)
    failed = {finding.check.name for finding in sf.audit(data, bad).findings if not finding.holds}
    assert failed == {"amplification", "operators"}


def test_missing_quasi_values_are_compared_too(tmp_path: Path, people: Any, mutate: Any) -> None:
    data = people(900)
    masked = pc.if_else(pc.equal(data.column("sex"), "F"), None, data.column("sex"))
    data = data.set_column(1, "sex", masked)
    sf.publish(table_of(data), PROMISE, to=tmp_path / "release", mechanism="uniform")
    assert sf.audit(data, tmp_path / "release").holds

    def fill(table: pa.Table) -> pa.Table:
        values = table.column("sex").to_pylist()
        values[values.index(None)] = "M"
        return table.set_column(table.schema.get_field_index("sex"), "sex", pa.array(values))

    bad = mutate(tmp_path / "release", tmp_path / "bad", records=fill)
    verdict = sf.audit(data, bad)
    told = {f.check.name: f.witness for f in verdict.findings if not f.holds}
    assert told.keys() == {"quasi-columns", "spelling"}
    assert told["quasi-columns"] == (
        "1 published records match no raw record, 1 raw records are not there")  # fmt: skip


def test_a_joint_promise_is_planned_again_as_one(tmp_path: Path) -> None:
    """What fits into a floor follows from the limit of all columns together: honest releases by
    fine-grain failed, whose floors were looked for under the limit of each."""
    rows = 1500
    data = pa.table(
        {
            "age": [20 + i % 40 for i in range(rows)],
            "ill": [str(0 if i % 3 else i % 5) for i in range(rows)],
            "job": [str(i % 7) for i in range(rows)],
        }
    )
    table = sf.read(data, quasi="age", sensitive=["ill", "job"])
    promise = "rho-privacy(0.2, 0.5)"
    asked = {"mechanism": "fine-grain", "joint": True, "left_out": 1}
    with pytest.warns(WeakPromiseWarning, match="p_min keeps them"):
        done = sf.publish(table, promise, to=tmp_path / "release", **asked)
    assert done.manifest.plan.floors
    with pytest.warns(WeakPromiseWarning, match="p_min keeps them"):
        verdict = sf.audit(data, tmp_path / "release")
    assert verdict.holds


def test_columns_with_many_values_are_compared(tmp_path: Path) -> None:
    """No m × m matrix for 1,200 values; an honest release fits, one with other values does not."""
    rng = np.random.default_rng(3)
    shares = 1 / np.arange(1, 1201)
    drawn = rng.choice(1200, 20_000, p=shares / shares.sum())
    raw = pa.table({"a": rng.integers(0, 50, 20_000), "s": [f"D{k:04}" for k in drawn]})
    table = sf.read(raw, quasi="a", sensitive="s")
    way = "fine-grain(objective=counts)"
    sf.publish(table, "rho-privacy(0.01, 0.95)", to=tmp_path / "r", mechanism=way, seed=1)
    release = Release(tmp_path / "r")
    assert all(finding.holds for finding in check_draws(AuditCase(table, release)))
    there = np.unique(drawn)
    swapped = there[::-1][np.searchsorted(there, drawn)]
    other = raw.set_column(1, "s", pa.array([f"D{k:04}" for k in swapped]))
    mixed = sf.read(other, quasi="a", sensitive="s")
    assert not all(finding.holds for finding in check_draws(AuditCase(mixed, release)))
