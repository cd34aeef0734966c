"""How many people have which quasi values, as manifests of ranges tell it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import ValidationError, convert

from sfumato.columns import Column, Range, Values
from sfumato.errors import BundleError
from sfumato.release.manifest import MarginalPart
from sfumato.release.marginals import in_cells, places, read_marginals, to_json

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
        {"age": {"starts": [20], "people": []}},
        {"age": {"starts": [20], "people": [3, 4]}},
        {"age": {"starts": [21], "people": [3]}},
        {"age": {"starts": [20, 20], "people": [3, 4]}},
        {"age": {"starts": [20, 40], "people": [3, 4]}},
        {"age": {"starts": [20, True], "people": [3, 4]}},
        {"age": {"starts": [20, 24], "people": [3, -4]}},
        {"age": {"starts": [20, 24], "people": "many"}},
        {"city": {"cells": [0, 1], "people": [3, 4]}},
        {"city": {"cells": [0, 0, 0, 0, 0, 0, 0, 9], "people": [3, 4]}},
        {"city": {"starts": [20], "people": [3]}},
        {"weight": {"starts": [40], "people": [3]}},
        {"illness": {"cells": [0], "people": [3]}},
    ],
)
def test_what_counts_nothing_is_refused(said: Any) -> None:
    columns = {each.name: each for each in (AGE, CITY, WEIGHT)}
    with pytest.raises((BundleError, ValidationError), match=r"marginals|Expected"):
        read_marginals(convert(said, dict[str, MarginalPart]), columns, "'r'")
    assert read_marginals({}, columns, "'r'") == {}
