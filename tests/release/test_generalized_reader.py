"""Generalized releases that nobody vouches for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import ValidationError, convert

from sfumato.columns import Column, Range, Values
from sfumato.engines.publishing import publish
from sfumato.errors import BundleError
from sfumato.release import Release
from sfumato.release.manifest import MarginalPart
from sfumato.release.marginals import in_cells, places, read_marginals, to_json
from sfumato.table import read


def replaced(name: str, change: Callable[[pa.ChunkedArray], Any]) -> Callable[..., pa.Table]:
    def apply(table: pa.Table) -> pa.Table:
        index = table.column_names.index(name)
        return table.set_column(index, name, change(table.column(name)))

    return apply


MUTATIONS: dict[str, tuple[Callable[..., pa.Table], str]] = {
    "range upside down": (
        replaced("age_low", lambda c: pc.add(c, 200)),
        "end before they begin",
    ),
    "outside the domain": (
        replaced("age_high", lambda c: pc.add(c, 1000)),
        "outside the domain",
    ),
    "empty set": (
        replaced("sex", lambda c: pa.array([[]] * len(c), pa.list_(pa.string()))),
        "empty or name a value twice",
    ),
    "no list": (replaced("sex", lambda c: pa.array(["F"] * len(c))), "not a list"),
}


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_mutated_releases_are_refused(
    people: Callable[..., pa.Table], mutate: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    table = read(people(120), quasi="age,sex,region", sensitive="disease")
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="ring")
    change, message = MUTATIONS[name]
    broken = mutate(tmp_path / "r", tmp_path / "broken", records=change)
    with pytest.raises(BundleError, match=message):
        Release(broken)


def test_a_file_that_lies_about_its_least_value(
    people: Callable[..., pa.Table], mutate: Callable[..., Path], tmp_path: Path
) -> None:
    """DuckDB would skip a comparison that the file's own statistics rule out."""
    table = read(people(120), quasi="age,sex,region", sensitive="disease")
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="ring")
    path = tmp_path / "r" / "records/part-00000.parquet"
    records = pq.read_table(path)
    pq.write_table(records, path, compression="none", use_dictionary=False, store_schema=False)
    column = pq.read_metadata(path).row_group(0).column(0)
    assert column.path_in_schema == "age_low"
    assert column.statistics.has_min_max
    values = np.asarray(records["age_low"].to_numpy())
    width = {"INT32": "<i4", "INT64": "<i8"}[column.physical_type]
    data = path.read_bytes()
    index = data.index(values.astype(width).tobytes(), column.data_page_offset)
    far = np.array([-5000], width).tobytes()
    path.write_bytes(data[:index] + far + data[index + len(far) :])
    assert pq.read_table(path)["age_low"][0].as_py() == -5000
    with pytest.raises(BundleError, match="1 ranges that end before they begin, or lie outside"):
        Release(mutate(tmp_path / "r", tmp_path / "broken"))


AGE = Column("age", "quasi", "numeric", "int64", Range(20, 27))
CITY = Column("city", "quasi", "categorical", "string", Values(tuple("abcdefgh")))
WEIGHT = Column("weight", "quasi", "numeric", "double", Range(40.0, 90.0))


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([AGE, CITY]),
    st.lists(st.integers(0, 12), min_size=8, max_size=8),
    st.integers(1, 20),
)
def test_no_cell_has_fewer_people_than_stated(
    column: Column, counts: list[int], least: int
) -> None:
    told = in_cells(column, np.array(counts), least)
    assert told.people.sum() == sum(counts)
    assert np.bincount(told.cell, counts).tolist() == told.people.tolist()
    if sum(counts) >= least:
        assert told.people.min() >= least
    else:
        assert len(told.people) == 1
    found = read_marginals(
        {column.name: convert(to_json(column, told), MarginalPart)}, {column.name: column}, "'r'"
    )
    assert found[column.name].cell.tolist() == told.cell.tolist()
    assert found[column.name].people.tolist() == told.people.tolist()


def test_common_values_stand_by_themselves() -> None:
    told = in_cells(CITY, np.array([30, 1, 9, 0, 2, 40, 1, 3]), least=5)
    assert told.cell.tolist() == [0, 3, 1, 3, 3, 2, 3, 3]
    assert told.people.tolist() == [30, 9, 40, 7]
    numbers = in_cells(AGE, np.array([30, 1, 9, 0, 2, 40, 1, 3]), least=5)
    assert to_json(AGE, numbers) == {"starts": [20, 21, 23], "people": [30, 10, 46]}
    assert places(WEIGHT) == 0


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"age": 3},
        {"age": {"starts": [20], "people": [3, 4]}},
        {"age": {"starts": [21], "people": [3]}},
        {"age": {"starts": [20, 20], "people": [3, 4]}},
        {"age": {"starts": [20, 40], "people": [3, 4]}},
        {"age": {"starts": [20, 24], "people": [3, -4]}},
        {"city": {"cells": [0, 1], "people": [3, 4]}},
        {"city": {"cells": [0, 0, 0, 0, 0, 0, 0, 9], "people": [3, 4]}},
        {"weight": {"starts": [40], "people": [3]}},
        {"illness": {"cells": [0], "people": [3]}},
    ],
)
def test_what_counts_nothing_is_refused(said: Any) -> None:
    columns = {each.name: each for each in (AGE, CITY, WEIGHT)}
    with pytest.raises((BundleError, ValidationError), match=r"marginals|Expected"):
        read_marginals(convert(said, dict[str, MarginalPart]), columns, "'r'")
    assert read_marginals({}, columns, "'r'") == {}
