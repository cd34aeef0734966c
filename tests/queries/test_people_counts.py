"""COUNT_PEOPLE(*): people where a release tells which rows are theirs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import QueryError


@pytest.fixture(scope="module")
def stays() -> pd.DataFrame:
    """120 people, every third with two stays; sex is a person's, the ward a stay's."""
    rows = [
        (f"p{person}", "FM"[person % 2], "AB"[(person + stay) % 2], f"v{(person // 7 + stay) % 6}")
        for person in range(120)
        for stay in range(1 + (person % 3 == 0))
    ]
    return pd.DataFrame(rows, columns=["person", "sex", "ward", "ill"])


def _published(stays: pd.DataFrame, to: Path, promise: str, **options: object) -> sf.Release:
    sf.publish(stays, promise, to=to, quasi=["sex", "ward"], sensitive="ill", left_out=1, **options)
    return sf.open(to)


def test_one_row_a_person_is_a_person(stays: pd.DataFrame, tmp_path: Path) -> None:
    release = _published(stays, tmp_path / "r", "l-diversity(2)", person="person",
                         rows_per_person=1)  # fmt: skip
    found = release.sql("SELECT sex, COUNT_PEOPLE(*) FROM release GROUP BY sex ORDER BY sex")
    assert [row["count_people"] for row in found.rows()] == [60, 60]


def test_several_rows_are_not_told_apart(stays, tmp_path: Path) -> None:
    release = _published(stays, tmp_path / "r", "rho-privacy(0.3, 0.6)", mechanism="uniform",
                         person="person", rows_per_person=2)  # fmt: skip
    with pytest.raises(QueryError, match="which belong together"):
        release.sql("SELECT COUNT(*) / COUNT_PEOPLE(*) AS each FROM release")


def test_people_have_no_arguments(stays: pd.DataFrame, tmp_path: Path) -> None:
    release = _published(stays, tmp_path / "r", "l-diversity(2)", person="person",
                         rows_per_person=1)  # fmt: skip
    with pytest.raises(QueryError, match=r"Write COUNT_PEOPLE\(\*\)"):
        release.sql("SELECT COUNT_PEOPLE(sex) FROM release")


def test_without_person_it_is_said(stays: pd.DataFrame, tmp_path: Path) -> None:
    release = _published(stays, tmp_path / "r", "l-diversity(2)", drop=["person"])
    with pytest.raises(QueryError, match="without person="):
        release.sql("SELECT COUNT_PEOPLE(*) FROM release")
