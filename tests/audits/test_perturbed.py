"""The audit of perturbed releases: honest ones hold, each way to cheat is found."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf

PROMISE = "rho-privacy(0.3, 0.6)"
QUASI = ["age", "sex", "region"]


def table_of(data: pa.Table) -> sf.Table:
    return sf.read(data, quasi=QUASI, sensitive="disease")


def failed(data: Any, release: Path) -> set[str]:
    return {finding.check.name for finding in sf.audit(data, release).findings if not finding.holds}


# -- mutants: the hashes are made right again, so that only the audit can see them -----------------


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Path]:
    """A release in the order of its table, with a sensitive column that depends on the quasi."""
    rng = np.random.default_rng(2)
    rows = 12_000
    age = rng.integers(20, 30, rows)
    disease = np.where(rng.random(rows) < 0.5, age % 8, rng.integers(0, 8, rows))
    data = pa.table(
        {
            "age": age,
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "region": np.array(["north", "south"])[rng.integers(0, 2, rows)],
            "disease": np.array([f"d{i}" for i in range(8)])[disease],
        }
    )
    place = tmp_path_factory.mktemp("honest") / "release"
    # a high retention, so that what is published depends on what is true
    sf.publish(table_of(data), "rho-privacy(0.2, 0.9)", to=place, mechanism="uniform")
    assert sf.audit(data, place).holds
    return data, place


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))


def test_a_constant_value(tmp_path: Path, honest: tuple[pa.Table, Path], mutate: Any) -> None:
    data, place = honest
    bad = mutate(
        place, tmp_path / "bad",
        records=lambda table: replaced(table, "disease", ["d0"] * table.num_rows),
    )  # fmt: skip
    verdict = sf.audit(data, bad)
    finding = next(f for f in verdict.findings if f.check.name == "draws")
    assert not finding.holds
    assert "true value 'd0' (1355 shown truly of 1355" in str(finding)


def test_retention_raised_by_a_hair(
    tmp_path: Path, honest: tuple[pa.Table, Path], mutate: Any
) -> None:
    """The amplification is compared exactly, not in floating point."""
    data, place = honest

    def raise_it(described: dict[str, Any]) -> None:
        operator = described["plan"]["operators"]["disease"]
        gamma = sf.RhoPrivacy("0.2", "0.9").gamma
        exact = (gamma - 1) / (operator["values"] - 1 + gamma)
        operator["retention"] = str(exact + Fraction(1, 10**30))

    bad = mutate(place, tmp_path / "bad", manifest=raise_it)
    assert failed(data, bad) == {"amplification"}


def test_another_table(tmp_path: Path, honest: tuple[pa.Table, Path]) -> None:
    """The raw table itself was changed after publishing."""
    data, place = honest
    other = replaced(data, "disease", np.roll(data.column("disease").to_numpy(), 1))
    assert failed(other, place) >= {"draws"}


def test_missing_quasi_values_are_compared_too(tmp_path: Path, people: Any, mutate: Any) -> None:
    data = people(900)
    masked = pc.if_else(pc.equal(data.column("sex"), "F"), None, data.column("sex"))
    data = data.set_column(1, "sex", masked)
    sf.publish(table_of(data), PROMISE, to=tmp_path / "release", mechanism="uniform")
    assert sf.audit(data, tmp_path / "release").holds

    def fill(table: pa.Table) -> pa.Table:
        values = table.column("sex").to_pylist()
        values[values.index(None)] = "M"
        return replaced(table, "sex", values)

    bad = mutate(tmp_path / "release", tmp_path / "bad", records=fill)
    verdict = sf.audit(data, bad)
    told = {f.check.name: f.witness for f in verdict.findings if not f.holds}
    assert told.keys() == {"quasi-columns", "spelling"}
    assert told["quasi-columns"] == (
        "1 published records match no raw record, 1 raw records are not there")  # fmt: skip


def test_verdicts_show_themselves(honest: tuple[pa.Table, Path]) -> None:
    data, place = honest
    verdict = sf.audit(data, place)
    assert set(verdict.to_json()) == {
        *("holds", "headline", "tested", "unseen", "findings", "exposure")
    }
    assert "<table>" in verdict._repr_html_()
    assert pq.read_metadata(place / "records/part-00000.parquet").num_rows == data.num_rows
