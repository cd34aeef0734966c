"""An audit holds a release to its promise for people, and finds releases that break it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
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


def test_the_person_column_is_needed(stays: pa.Table, tmp_path: Path) -> None:
    release = published(stays, "uniform", tmp_path / "release")
    with pytest.raises(DataError, match="has no column 'patient', which says whose rows they are"):
        sf.audit(stays.drop_columns(["patient"]), release)
