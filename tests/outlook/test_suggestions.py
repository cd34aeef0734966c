"""Suggested roles on three tables: nine in ten columns right, and nothing dangerous.

What is right was written down from the columns' meaning, not from what the program says.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sfumato.datasets import hospital
from sfumato.outlook.survey import survey
from sfumato.table.reading import Reading

ADULT = {
    "age": "quasi", "workclass": "quasi", "fnlwgt": "drop", "education": "quasi",
    "education_num": "quasi", "marital_status": "quasi", "occupation": "sensitive",
    "relationship": "quasi", "race": "quasi", "sex": "quasi", "capital_gain": "drop",
    "capital_loss": "drop", "hours_per_week": "drop", "native_country": "quasi",
    "income": "sensitive",
}  # fmt: skip
HOSPITAL = {
    "patient": "person", "age": "quasi", "sex": "quasi", "region": "quasi", "admission": "quasi",
    "diagnosis": "sensitive",
}  # fmt: skip
# codes whose names say nothing: of 87 columns the paper publishes four and hides one
COIL = {"MAANTHUI": "quasi", "MGEMOMV": "quasi", "MGEMLEEF": "quasi", "MOSHOOFD": "quasi"}
COIL |= {"MOSTYPE": "sensitive"}


def wrong(found: dict[str, str], right: dict[str, str]) -> list[str]:
    return [name for name, role in found.items() if role != right.get(name, "drop")]


def dangerous(found: dict[str, str], right: dict[str, str]) -> list[str]:
    """Identifiers and sensitive columns that would be given out as they are."""
    hidden = {name for name, role in right.items() if role in ("person", "key", "sensitive")}
    return [name for name in hidden if found[name] == "quasi"]


def suggested(origin: Any, reading: Reading | None = None) -> dict[str, str]:
    return {column.name: column.suggestion.role for column in survey(origin, reading).columns}


def test_hospital_stays() -> None:
    found = suggested(hospital(3000, seed=4, stays=20))
    assert not wrong(found, HOSPITAL)


def test_adult(public_file: Any) -> None:
    reading = Reading.of(columns=list(ADULT), missing_markers=["?"])
    found = suggested(public_file("adult.data"), reading)
    assert not wrong(found, ADULT)


def test_coil(public_file: Any) -> None:
    found = suggested(public_file("coil2000.parquet"))
    assert not dangerous(found, COIL)
    assert found["MOSTYPE"] == "sensitive"
    assert len(wrong(found, COIL)) <= 0.1 * len(found)


@pytest.mark.parametrize("kind", ["text", "number"])
def test_an_identifier_is_never_offered_as_quasi(kind: str) -> None:
    """Whatever its name, and however often it repeats."""
    for name in ("age_id", "zip", "x", "patient"):
        for each in (1, 2, 3):
            numbers = [10_007 * (row // each) + 5 for row in range(900)]
            values = pa.array([f"P{n}" for n in numbers]) if kind == "text" else pa.array(numbers)
            table = pa.table({name: values, "ill": ["a", "b", "c"] * 300})
            assert suggested(table)[name] != "quasi", (name, each)
