"""The order of rows: uniformly random, whatever the sizes, and no trace of the input's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines import order as order_module
from sfumato.engines.order import KeptOrder, Regroup, ShuffledOrder, take

FALSE_ALARM = 1e-6


def shuffled(rows: int, seed: int, folder: Path, cuts: int = 3) -> list[int]:
    """The order in which the numbers 0 … rows-1 leave."""
    out: list[pa.Table] = []
    way = ShuffledOrder(out.append, rows, Draws.from_seed(seed), folder)
    for start in range(0, rows, cuts):
        numbers = pa.array(range(start, min(start + cuts, rows)), pa.int64())
        way.add(pa.RecordBatch.from_arrays([numbers], names=["n"]))
    way.finish()
    way.close()
    assert not folder.exists()
    return [n for table in out for n in table.column("n").to_pylist()]


@pytest.mark.parametrize("pile", [100, 2], ids=["one pile", "piles"])
def test_every_order_is_equally_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pile: int
) -> None:
    """4! orders, chi-square, false alarm 1e-6."""
    monkeypatch.setattr(order_module, "_PILE", pile)
    runs = 2400 if pile == 100 else 600
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(runs):
        found = tuple(shuffled(4, seed, tmp_path / "piles"))
        seen[found] = seen.get(found, 0) + 1
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue >= FALSE_ALARM


@pytest.mark.parametrize(("pile", "scatter"), [(1000, 1000), (7, 3)])
def test_a_row_lands_everywhere_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pile: int, scatter: int
) -> None:
    """Where the first and the last row of 20 land, over many keys: chi-square, 1e-6 each."""
    monkeypatch.setattr(order_module, "_PILE", pile)
    monkeypatch.setattr(order_module, "_SCATTER", scatter)
    runs = 1000 if pile == 1000 else 200
    places = np.zeros((2, 20), int)
    for seed in range(runs):
        found = shuffled(20, seed, tmp_path / "piles")
        assert sorted(found) == list(range(20))
        places[0, found.index(0)] += 1
        places[1, found.index(19)] += 1
    for row in places:
        assert stats.chisquare(row).pvalue >= FALSE_ALARM


def test_neighbours_are_parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "_PILE", 1000)
    monkeypatch.setattr(order_module, "_SCATTER", 1500)
    found = np.array(shuffled(20_000, 3, tmp_path / "piles", cuts=999))
    assert sorted(found.tolist()) == list(range(20_000))
    # rank correlation with the input: 5.5 sigma, a false alarm of 4e-8
    correlation = np.corrcoef(found, np.arange(20_000))[0, 1]
    assert abs(correlation) < 5.5 / np.sqrt(20_000)


@given(sizes=st.lists(st.integers(0, 9), max_size=8), rows=st.integers(1, 7))
def test_regroup_cuts_into_equal_pieces(sizes: list[int], rows: int) -> None:
    out: list[pa.Table] = []
    groups = Regroup(rows, out.append)
    start = 0
    for size in sizes:
        groups.add(pa.table({"n": pa.array(range(start, start + size), pa.int64())}))
        start += size
    groups.finish()
    assert [n for table in out for n in table.column("n").to_pylist()] == list(range(start))
    assert all(table.num_rows == rows for table in out[:-1])
    assert all(0 < table.num_rows <= rows for table in out[-1:])


def test_kept_order_keeps(tmp_path: Path) -> None:
    out: list[pa.Table] = []
    way = KeptOrder(out.append)
    way.add(pa.RecordBatch.from_arrays([pa.array([3, 1])], names=["n"]))
    way.add(pa.RecordBatch.from_arrays([pa.array([2])], names=["n"]))
    way.finish()
    way.close()
    assert [n for table in out for n in table.column("n").to_pylist()] == [3, 1, 2]


@given(st.data())
def test_take_equals_arrow(data: Any) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=12))
    table = pa.table(
        {
            "i": pa.array(values, pa.int32()),
            "f": pa.array(values, pa.float64()),
            "s": pa.array([None if v is None else str(v) for v in values]),
            "n": pa.array(range(len(values)), pa.int64()),
        }
    )
    order = np.array(data.draw(st.permutations(range(len(values)))), np.int64)
    assert take(table, order).equals(table.take(pa.array(order)))


@pytest.mark.parametrize("order", ["shuffle", "keep"])
def test_codes_that_need_more_bytes_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """A text column shows 3 values at first, then 300, then 70,000: every row is still itself."""
    monkeypatch.setattr(order_module, "_PILE", 30_000)
    monkeypatch.setattr(order_module, "_SCATTER", 6000)
    monkeypatch.setattr(order_module, "ROW_GROUP", 20_000)
    rows = 80_000
    which = np.arange(rows)
    which[:5000] %= 3
    which[5000:9000] %= 300
    names = pa.array([None if n == 2 else f"p{n:05d}" for n in which.tolist()])
    sensitive = pa.array(np.random.default_rng(1).integers(0, 9, rows).astype(str))
    data = pa.table({"place": names.dictionary_encode(), "number": which, "s": sensitive})
    sf.publish(
        data, "rho-privacy(0.15, 0.4)", to=tmp_path / "release", mechanism="uniform",
        quasi=["place", "number"], sensitive="s", order=order, seed=4, batch_rows=4000,
    )  # fmt: skip
    shown = pq.read_table(tmp_path / "release" / "records.parquet")
    numbers = shown.column("number").to_numpy()
    assert sorted(numbers.tolist()) == sorted(which.tolist())
    assert np.array_equal(numbers, which) == (order == "keep")
    texts = [None if n == 2 else f"p{n:05d}" for n in numbers.tolist()]
    assert shown.column("place").to_pylist() == texts


def test_dictionaries_tell_nothing_of_the_order(tmp_path: Path) -> None:
    """A table sorted by date: the published dictionary is in order of value, not of arrival."""
    names = [f"place {(7 * i) % 50:02d}" for i in range(2000)]
    data = pa.table({"place": names, "s": [f"v{i % 10}" for i in range(2000)]})
    table = sf.read(data.set_column(0, "place", pa.array(names).dictionary_encode()),
                    quasi="place", sensitive="s")  # fmt: skip
    sf.publish(table, "rho-privacy(0.15, 0.4)", to=tmp_path / "release", mechanism="uniform")
    file = pq.ParquetFile(tmp_path / "release" / "records.parquet", read_dictionary=["place"])
    shown = file.read().column("place").chunk(0).dictionary.to_pylist()
    assert shown == sorted(set(names))
    schema = pq.read_schema(tmp_path / "release" / "records.parquet")
    assert schema.metadata is None  # no Arrow schema, no pandas index
