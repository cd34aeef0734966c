"""Publishing ranges and sets: what the folder holds, what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.publishing import publish
from sfumato.errors import DataError, UsageError
from sfumato.release import Release
from sfumato.table import read


def test_missing_numbers_cannot_stand_in_a_range(tmp_path: Path) -> None:
    raw = pa.table({"age": [1, None, 3, 4], "s": list("abab")})
    with pytest.raises(DataError, match="missing or infinite numbers"):
        publish(
            read(raw, quasi="age", sensitive="s"), "l-diversity(2)", to=tmp_path / "r",
            mechanism="heterogeneous",
        )  # fmt: skip


def test_a_column_named_like_an_end_is_refused(tmp_path: Path) -> None:
    raw = pa.table({"age": [1, 2, 3, 4], "age_low": list("abab"), "s": list("xyxy")})
    with pytest.raises(DataError, match=r"'age_low' .* has the name of a column that the release"):
        publish(
            read(raw, quasi="age,age_low", sensitive="s"), "l-diversity(2)", to=tmp_path / "r",
            mechanism="ring",
        )  # fmt: skip


def test_nobody_is_withheld_and_the_domain_is_what_rows_show(tmp_path: Path) -> None:
    """Eleven records make no whole number of pairs, and all are published."""
    raw = pa.table({"age": np.arange(11), "s": list("abcabcabcab")})
    table = read(raw, quasi="age", sensitive="s")
    made = publish(table, "l-diversity(2)", to=tmp_path / "r", mechanism="heterogeneous")
    assert (made.manifest.suppressed, made.manifest.rows) == (0, 11)
    records = pq.read_table(tmp_path / "r" / "records")
    domain = Release(tmp_path / "r").column("age").domain
    assert domain is not None
    assert domain.low == min(records["age_low"].to_pylist())  # type: ignore[union-attr]
    assert domain.high == max(records["age_high"].to_pylist())  # type: ignore[union-attr]


def test_without_quasi_columns_there_is_nothing_to_show(tmp_path: Path) -> None:
    raw = pa.table({"s": list("abab")})
    with pytest.raises(UsageError, match="no quasi-identifiers to show"):
        publish(
            read(raw, quasi="", sensitive="s"), "l-diversity(2)", to=tmp_path / "r",
            mechanism="heterogeneous",
        )  # fmt: skip
