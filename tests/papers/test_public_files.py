"""Readers of public files: the real ones where they are on disk, and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from papers.public_files import ADULT_COLUMNS, read_adult, read_census, read_coil
from sfumato.errors import DataError

GOOD = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)


def test_real_files(public_file: Callable[[str], Path]) -> None:
    table = read_adult(public_file("adult.data"), public_file("adult.test"))
    assert table.shape == (48_842, 15)
    assert tuple(table.column_names) == ADULT_COLUMNS
    complete = table.drop_null()
    assert complete.num_rows == 45_222
    assert round(100 * pc.mean(pc.equal(complete["income"], "<=50K")).as_py(), 2) == 75.22
    assert read_census(public_file("occ100k.parquet")).column_names[-1] == "occupation"
    assert read_coil(public_file("coil2000.parquet")).num_columns >= 86


def test_missing_values_comments_and_full_stops(tmp_path: Path) -> None:
    file = tmp_path / "adult.test"
    file.write_text(f"|comment\n{GOOD.replace('State-gov', '?')}.\n{GOOD}.\n")
    table = read_adult(file)
    assert table["workclass"].to_pylist() == [None, "State-gov"]
    assert table["income"].to_pylist() == ["<=50K", "<=50K"]


def test_other_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "adult.data"
    for text in ("1,2,3\n", GOOD.replace("<=50K", "rich")):
        file.write_text(text)
        with pytest.raises(DataError, match="is not the UCI ADULT file"):
            read_adult(file)
    pq.write_table(pa.table({"age": [1]}), tmp_path / "x.parquet")
    for reader in (read_census, read_coil):
        with pytest.raises(DataError, match="it lacks"):
            reader(tmp_path / "x.parquet")
