"""Counts and codes against slow twins; tables that change while they are published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.columns import Values, usual_text
from sfumato.engines.counting import check_keys, count_cells, sensitive_codes, take_profile
from sfumato.engines.stream import person_keys, ranks_in_value
from sfumato.errors import DataError
from sfumato.table import staging
from sfumato.table.sources import Source
from sfumato.table.staging import stage


@given(
    codes=st.lists(st.integers(0, 5), max_size=60),
    cut=st.integers(0, 60),
    wide=st.booleans(),
)
def test_ranks_in_value(codes: list[int], cut: int, wide: bool) -> None:
    """Ranks count earlier records with the same value, across batches."""
    values = 70_000 if wide else 6
    seen = np.zeros(values, np.int64)
    array = np.array(codes, np.int64) * (10_000 if wide else 1)
    found = [
        *ranks_in_value(array[:cut], seen).tolist(),
        *ranks_in_value(array[cut:], seen).tolist(),
    ]
    assert found == [codes[:i].count(code) for i, code in enumerate(codes)]
    assert seen.sum() == len(codes)


quasi_values = st.one_of(st.none(), st.sampled_from(["a", "b", "c"]))


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.tuples(quasi_values, st.one_of(st.none(), st.integers(-2, 2)), st.sampled_from("xyz")),
        min_size=1,
        max_size=40,
    ),
    coded=st.booleans(),
)
def test_cells_against_a_slow_twin(rows: list[tuple[Any, Any, str]], coded: bool) -> None:
    text = pa.array([row[0] for row in rows], pa.string())
    data = pa.table(
        {
            "t": text.dictionary_encode() if coded else text,
            "n": pa.array([row[1] for row in rows], pa.int64()),
            "s": [row[2] for row in rows],
        }
    )
    table = sf.read(data, quasi=["t", "n"], sensitive="s")
    values = take_profile(table).histograms["s"].values
    cells = count_cells(table, "s")
    texts, numbers = np.unravel_index(cells.keys, tuple(map(len, cells.domains)))
    found = {
        (
            cells.domains[0][texts[i]],
            cells.domains[1][numbers[i]],
            values[cells.values[i]],
        ): int(cells.counts[i])
        for i in range(len(cells.counts))
    }
    assert found == Counter(rows)
    order = list(zip(cells.keys.tolist(), cells.values.tolist(), strict=True))
    assert order == sorted(set(order))


def test_missing_quasi_values_of_coded_text_have_a_code(tmp_path: Path) -> None:
    """Parquet gives repeated text as codes: a missing one is the last value, not none at all."""
    import pyarrow.parquet as pq

    texts = [None if index % 11 == 0 else f"x{index % 5}" for index in range(800)]
    people = pa.table({"d": pa.array(texts), "s": pa.array([index % 4 for index in range(800)])})
    pq.write_table(people, tmp_path / "people.parquet", store_schema=False)
    table = sf.read(tmp_path / "people.parquet", quasi="d", sensitive="s")
    assert pa.types.is_dictionary(next(table.batches(["d"])).column("d").type)
    cells = count_cells(table, "s")
    codes = cells.keys
    assert int(codes.min()) == 0
    counted = Counter[Any]()
    for code, count in zip(codes.tolist(), cells.counts.tolist(), strict=True):
        counted[cells.domains[0][code]] += count
    assert counted == Counter(texts)


def test_too_many_combinations() -> None:
    data = pa.table({**{f"q{i}": range(2000) for i in range(6)}, "s": ["a", "b"] * 1000})
    table = sf.read(data, quasi=[f"q{i}" for i in range(6)], sensitive="s")
    with pytest.raises(DataError, match="too many combinations"):
        count_cells(table, "s")


sensitive_arrays = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1).map(
        lambda v: pa.array(v, pa.int64())
    ),
    st.lists(st.one_of(st.none(), st.integers(2**63 - 3, 2**63 + 3)), min_size=1).map(
        lambda v: pa.array(v, pa.uint64())
    ),
    st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1).map(
        lambda v: pa.array(v, pa.int8())
    ),
    st.lists(st.one_of(st.none(), st.floats()), min_size=1).map(
        lambda v: pa.array(v, pa.float64())
    ),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1).map(
        lambda v: pa.array(v, pa.string())
    ),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1).map(
        lambda v: pa.array(v, pa.string()).dictionary_encode()
    ),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=1).map(
        lambda v: pa.array(v, pa.bool_())
    ),
)


@settings(deadline=None)
@given(array=sensitive_arrays)
def test_codes_find_their_values(array: pa.Array) -> None:
    """The value at a record's code is the record's value; counts are those of the codes."""
    table = sf.read(pa.table({"s": array}), quasi=[], sensitive="s", missing="value")
    histogram = take_profile(table).histograms["s"]
    codes = sensitive_codes(stage(table), "s")
    for value, code in zip(array.to_pylist(), codes.tolist(), strict=True):
        if value is None or value != value:
            assert histogram.values[code] is None
        else:
            assert histogram.values[code] == (
                usual_text(value) if isinstance(value, str) else value
            )
    assert np.bincount(codes, minlength=len(histogram.values)).tolist() == histogram.counts.tolist()


def test_numbers_outside_the_domain_have_no_code() -> None:
    array = pa.array([10, 11, 12, 13, 9, -(2**63), 2**63 - 1, None])
    codes = staging.codes_among(array, pa.array([10, 12]))
    assert codes.tolist() == [0, -1, 1, -1, -1, -1, -1, -1]


def test_codes_follow_the_domain_that_is_stated_last() -> None:
    """Rows are read once; codes are those of whichever domain holds when they are used."""
    data = pa.table({"q": ["b", None, "c", "a"], "s": ["y", "x", "y", None]})
    table = sf.read(data, quasi="q", sensitive="s", missing="value")
    for stated, q, s in (
        ({}, [1, 3, 2, 0], [1, 0, 1, 2]),
        ({"q": Values(("z", "c")), "s": Values(("w", "y", "x"))}, [3, 4, 1, 2], [1, 2, 1, 3]),
    ):
        rows = stage(replace(table, domains=stated))
        (batch,) = rows.batches(["q", "s"])
        codes = staging.codes_of(batch, ["q", "s"])
        assert (codes["q"].tolist(), codes["s"].tolist()) == (q, s)
        assert [c.to_pylist() for c in batch.columns] == [c.to_pylist() for c in data.columns]


def test_person_keys_tell_people_and_values_apart() -> None:
    keys = pa.array(["a", "a", "b", "a\x00'x'"])
    found = person_keys(keys, np.array([0, 1, 0, 0]), ("x", None))
    assert len(set(found)) == 4


def test_check_keys_counts_repetitions() -> None:
    data = pa.table({"id": pa.array(["a", "b", "a", "a"]).dictionary_encode(), "s": list("xyzx")})
    assert check_keys(sf.read(data, quasi=[], sensitive="s", key="id")) == 2
    assert check_keys(sf.read(data, quasi=[], sensitive="s", drop="id")) == 0


class Changing(Source):
    """A source that shows other records each time it is read."""

    label = "a table in use"

    def __init__(self, versions: list[pa.Table]) -> None:
        self.versions, self.schema = versions, versions[0].schema
        self.reads = 0

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        table = self.versions[min(self.reads, len(self.versions) - 1)]
        self.reads += 1
        yield from table.select(list(columns)).to_batches(max_chunksize=7)


def changed(values: list[Any], kind: Any = None) -> pa.Table:
    return pa.table({"x": list(range(len(values))), "s": pa.array(values, kind)})


BEFORE = ["a", "b", "c", "d"] * 6


@pytest.mark.parametrize("mechanism", ["uniform", "optimal", "ring", "sps"])
def test_a_table_in_use_is_looked_at_once(tmp_path: Path, mechanism: str) -> None:
    """What is counted and what is published are the same rows, whatever comes after them."""
    promises = {"uniform": "rho-privacy(0.3, 0.6)", "sps": "reconstruction-privacy(0.3, 0.3)"}
    source = Changing([changed(BEFORE), changed(["new"] * 9)])
    table = sf.read(source, quasi="x", sensitive="s")
    promise = promises.get(mechanism, "l-diversity(2)")
    done = sf.publish(table, promise, to=tmp_path / "release", mechanism=mechanism)
    assert done.rows == len(BEFORE)
    (column,) = [column for column in done.manifest.columns if column.name == "s"]
    assert column.domain == Values(("a", "b", "c", "d"))


def test_a_source_that_fails_midway(tmp_path: Path, leftovers: Any) -> None:
    class Failing(Changing):
        def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Any:
            for batch in super().batches(columns, rows, threads):
                yield batch
                if self.reads:
                    raise DataError("the wire was cut")

    failing = Failing([changed(BEFORE)])
    with pytest.raises(DataError, match="the wire was cut"):
        sf.publish(
            failing, "rho-privacy(0.3, 0.6)", quasi="x", sensitive="s", to=tmp_path / "release"
        )
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("? ", r"If '\?' stands for what is not known, say missing_markers='\?'\.$"),
        ("z", r"State them too, or drop the rows\.$"),
    ],
)
def test_values_outside_a_domain_tell_what_was_probably_not_said(written: str, advice: str) -> None:
    data = changed([*BEFORE, written])
    table = sf.read(data, quasi="x", sensitive="s", domain={"s": "a,b,c,d"})
    with pytest.raises(DataError, match=advice):
        take_profile(table)


def test_too_many_sensitive_values() -> None:
    data = pa.table({"s": range(staging.MOST_VALUES + 1)})
    with pytest.raises(DataError, match="more than 100,000 different values"):
        sf.read(data, quasi=[], sensitive="s")


def test_first_batches_without_anybody(tmp_path: Path) -> None:
    """Batches in which every record is left out come first."""
    data = changed([None] * 20 + BEFORE, pa.string())
    table = sf.read(Changing([data]), quasi="x", sensitive="s", missing="drop")
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=tmp_path / "release")
    assert sf.open(tmp_path / "release").manifest.rows == 24
