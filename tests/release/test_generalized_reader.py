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

from sfumato.engines.publishing import publish
from sfumato.errors import BundleError
from sfumato.release import Release
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
    "value twice": (
        replaced("sex", lambda c: pa.array([["F", "F"]] * len(c))),
        "empty or name a value twice",
    ),
    "foreign value": (
        replaced("sex", lambda c: pa.array([["X"]] * len(c))),
        "1 values outside the domain",
    ),
    "no list": (replaced("sex", lambda c: pa.array(["F"] * len(c))), "not a list"),
    "wrong type": (replaced("age_low", lambda c: pc.cast(c, pa.float64())), "has type double"),
    "column gone": (lambda table: table.drop_columns(["age_low"]), "lacks age_low"),
    "stranger": (lambda table: table.append_column("id", table.column("age_low")), "id besides"),
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
