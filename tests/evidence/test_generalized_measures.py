"""GCP of a release, what a description shows, and range counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.publishing import publish
from sfumato.errors import UsageError
from sfumato.evidence.penalty import release_penalty
from sfumato.table import Table, read


@pytest.fixture
def table(people: Callable[..., pa.Table]) -> Table:
    domain = {"age": "18..89", "region": "north,south,west", "sex": "F,M"}
    return read(people(300), quasi="age,sex,region", sensitive="disease", domain=domain)


def test_penalty_is_the_mean_width_over_the_domain(table: Table, tmp_path: Path) -> None:
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="heterogeneous")
    found = release_penalty(tmp_path / "r")
    records = pq.read_table(tmp_path / "r" / "records")
    widths = records["age_high"].to_numpy() - records["age_low"].to_numpy()
    assert found.columns["age"] == pytest.approx(widths.mean() / 71)
    sizes = np.array([len(row) for row in records["region"].to_pylist()])
    assert found.columns["region"] == pytest.approx((sizes - 1).mean() / 2)
    assert found.whole == pytest.approx(sum(found.columns.values()) / 3)


def test_only_ranges_have_a_penalty(table: Table, tmp_path: Path) -> None:
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="optimal")
    with pytest.raises(UsageError, match="Only a generalized release has ranges"):
        release_penalty(tmp_path / "r")
