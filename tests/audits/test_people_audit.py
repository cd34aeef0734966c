"""An audit holds a release to its promise for people, and finds releases that break it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audits import audit
from sfumato.datasets import hospital
from sfumato.engines.publishing import publish
from sfumato.errors import DataError
from sfumato.operators import Uniform
from tests import tables

ROLES = {"quasi": "row,age,sex", "sensitive": "admission", "person": "patient"}
WAYS = {
    "uniform": "rho-privacy(0.35, 0.7)",
    "optimal": "l-diversity(2)",
    "optimal(objective=two-size, fakes=1)": "l-diversity(2)",
}


@pytest.fixture(scope="module")
def stays() -> pa.Table:
    made = hospital(4000, seed=8, stays=20).drop_columns(["region", "diagnosis"])
    return made.append_column("row", pa.array(range(made.num_rows)))


def published(stays: pa.Table, way: str, to: Path) -> Path:
    sf.publish(stays, WAYS[way], mechanism=way, to=to, **ROLES)
    return to


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


def test_limits_that_follow_the_shares_of_drawn_rows_fail_no_honest_release(
    stays: pa.Table, tmp_path: Path
) -> None:
    """The shares that a limit follows are those of the rows that were drawn, not of all."""
    for number, way in enumerate(["fine-grain(objective=counts)", "fine-grain(p_min=1)"]):
        release, receipt = tmp_path / f"release {number}", tmp_path / f"{number}.receipt"
        promise = "fine-rho-privacy(theta=2.5)"
        sf.publish(stays, promise, mechanism=way, to=release, receipt=receipt, **ROLES)
        assert sf.audit(stays, release).holds is not False
        assert sf.audit(stays, release, receipt=receipt).holds


def test_two_sensitive_columns_of_people_fail_no_honest_release(tmp_path: Path) -> None:
    """What columns tell together was counted of all rows, and of drawn ones: 23 of 37 failed."""
    table, roles = tables.table("stays-two"), tables.TABLES["stays-two"].roles
    for number in range(12):
        release = tmp_path / str(number)
        sf.publish(table, "rho-privacy(0.3, 0.6)", mechanism="uniform", to=release, **roles)
        report = sf.audit(table, release)
        assert report.holds, report


def test_the_person_column_is_needed(stays: pa.Table, tmp_path: Path) -> None:
    release = published(stays, "uniform", tmp_path / "release")
    with pytest.raises(DataError, match="has no column 'patient', which says whose rows they are"):
        sf.audit(stays.drop_columns(["patient"]), release)


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
