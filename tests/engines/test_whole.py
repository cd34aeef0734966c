"""Publishing ranges and sets: what the folder holds, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.audits.replay import Matches
from sfumato.engines.publishing import publish, repeat
from sfumato.engines.receipts import Receipt
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.release import Release
from sfumato.table import read

WAYS = [
    ("l-diversity(3)", "heterogeneous"),
    ("l-diversity(3)", "ring"),
    ("beta-likeness(2)", "heterogeneous"),
    ("beta-likeness(2)", "burel"),
]


@pytest.mark.parametrize(("promise", "way"), WAYS)
def test_release_opens_and_keeps_counts(
    people: Callable[..., pa.Table], tmp_path: Path, promise: str, way: str
) -> None:
    raw = people(300)
    table = read(raw, quasi="age,sex,region", sensitive="disease")
    made = publish(table, promise, to=tmp_path / "r", mechanism=way)
    release = Release(tmp_path / "r")
    assert release.kind == "generalized"
    records = pq.read_table(tmp_path / "r" / "records")
    assert records.column_names == ["age_low", "age_high", "sex", "region", "disease"]
    assert records.num_rows + made.manifest.suppressed == 300
    assert (records["age_low"].to_numpy() <= records["age_high"].to_numpy()).all()
    true = raw["disease"].to_pylist()
    shown = records["disease"].to_pylist()
    assert all(shown.count(value) <= true.count(value) for value in set(true))
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "manifest.json",
        "records",
    ]


def test_infeasible_diversity_names_witness_and_nearest(
    people: Callable[..., pa.Table], tmp_path: Path
) -> None:
    table = read(people(300), quasi="age,sex,region", sensitive="disease")
    with pytest.raises(InfeasibleGuarantee) as caught:
        publish(table, "l-diversity(9)", to=tmp_path / "r", mechanism="heterogeneous")
    assert caught.value.nearest is not None
    assert caught.value.nearest.startswith("l-diversity(")


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("heterogeneous(match=best)", "heterogeneous has no parameter 'match'"),
        ("optimal(objective=best)", "must be one of error, loss"),
    ],
)
def test_bad_parameters_say_what_they_want(
    people: Callable[..., pa.Table], tmp_path: Path, way: str, message: str
) -> None:
    table = read(people(50), quasi="age,sex,region", sensitive="disease")
    with pytest.raises(UsageError, match=message):
        publish(table, "l-diversity(2)", to=tmp_path / "r", mechanism=way)


def test_missing_numbers_cannot_stand_in_a_range(tmp_path: Path) -> None:
    raw = pa.table({"age": [1, None, 3, 4], "s": list("abab")})
    with pytest.raises(DataError, match="missing or infinite numbers"):
        publish(
            read(raw, quasi="age", sensitive="s"), "l-diversity(2)", to=tmp_path / "r",
            mechanism="heterogeneous",
        )  # fmt: skip


def test_nulls_floats_and_booleans_publish(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    raw = pa.table(
        {
            "height": rng.normal(1.7, 0.1, 80),
            "city": pa.array(rng.choice(["a", "b", None], 80)),
            "member": pa.array(rng.random(80) < 0.5),
            "s": pa.array(rng.choice(list("wxyz"), 80)),
        }
    )
    table = read(raw, quasi="height,city,member", sensitive="s")
    publish(table, "l-diversity(2)", to=tmp_path / "r", mechanism="heterogeneous")
    records = pq.read_table(tmp_path / "r" / "records")
    assert {type(v) for row in records["city"].to_pylist() for v in row} == {str, type(None)}
    assert Release(tmp_path / "r").rows == records.num_rows


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


def test_no_value_is_split(tmp_path: Path) -> None:
    """Counts that fit no equal buckets: everybody's matches still keep the promise."""
    values = ["a"] * 30 + ["b"] * 29 + ["c"] * 31
    rng = np.random.default_rng(2)
    raw = pa.table({"age": rng.integers(0, 50, 90), "s": pa.array(rng.permutation(values))})
    table = read(raw, quasi="age", sensitive="s")
    receipt = tmp_path / "receipt"
    publish(table, "l-diversity(2)", to=tmp_path / "r", mechanism="heterogeneous", receipt=receipt)
    seen: list[Matches] = []
    repeat(Receipt.read(receipt), table, Release(tmp_path / "r"), tmp_path / "again",
           lambda *made: seen.append(Matches.of(*made)))  # fmt: skip
    (found,) = seen
    shown: list[list[str]] = [[] for _ in range(90)]  # by record: the values of the rows it matches
    for row, source in enumerate(found.source):
        for record in found.matches[found.starts[row] : found.starts[row + 1]]:
            shown[record].append(raw["s"][int(source)].as_py())
    for found in shown:
        assert max(found.count(value) for value in "abc") * 2 <= len(found)


def test_without_quasi_columns_there_is_nothing_to_show(tmp_path: Path) -> None:
    raw = pa.table({"s": list("abab")})
    with pytest.raises(UsageError, match="no quasi-identifiers to show"):
        publish(
            read(raw, quasi="", sensitive="s"), "l-diversity(2)", to=tmp_path / "r",
            mechanism="heterogeneous",
        )  # fmt: skip
