"""Equal content gives equal bytes, whatever order rows, batches and buckets come in."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.columns import Values
from sfumato.engines import spelling
from sfumato.engines.shown import CodedColumn
from sfumato.engines.spelling import Spelled, spell

ROWS, BUCKETS = 3000, 60
TOWNS = pa.array(["Rome", "Bonn", "Oslo"])  # in no order of their own


def people(rng: np.random.Generator) -> pa.Table:
    """Codes, numbers, times, decimals and missing ones; every bucket has as many people."""
    numbers = rng.integers(0, 40, ROWS)
    return pa.table(
        {
            "town": pa.array(rng.integers(0, 3, ROWS), pa.uint8(), mask=rng.random(ROWS) < 0.1),
            "age": pa.array(numbers, mask=rng.random(ROWS) < 0.1),
            "weight": rng.integers(0, 9, ROWS) / 4,
            "day": pa.array(numbers.astype(np.int32)).cast(pa.date32()),
            "cost": pa.array([Decimal(int(number)) / 4 for number in numbers]),
            "bucket": pa.array(np.arange(ROWS, dtype=np.int32) % BUCKETS),
        }
    )


def listed(rng: np.random.Generator) -> pa.Table:
    codes = rng.integers(0, 3, BUCKETS)
    return pa.table(
        {
            "bucket": np.repeat(np.arange(BUCKETS, dtype=np.int32), 2),
            "ill": np.stack([codes, codes + 1], axis=1).reshape(-1).astype(np.int32),
            "count": np.tile(np.array([20, 30], np.int32), BUCKETS),
        }
    )


COLUMNS = [Spelled("town", TOWNS), Spelled("ill", pa.array(list("abcd")))]


def given(table: pa.Table, rng: np.random.Generator | None, swap: np.ndarray | None = None):  # type: ignore[no-untyped-def]
    """The rows in another order, in other batches, with other numbers for buckets."""
    if swap is not None:
        bucket = pa.array(swap[table.column("bucket").to_numpy()].astype(np.int32))
        index = table.schema.get_field_index("bucket")
        table = table.set_column(index, "bucket", bucket)
    rows = table.num_rows
    if rng is not None:
        table = table.take(pa.array(rng.permutation(rows)))
        rows = int(rng.integers(100, rows))
    return lambda: iter(table.combine_chunks().to_batches(max_chunksize=rows))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.parquet"))}


@pytest.mark.parametrize("first", [(0,), (0, 25)])
def test_equal_content_gives_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: tuple[int, ...]
) -> None:
    monkeypatch.setattr(spelling, "ROW_GROUP", 700)
    rng = np.random.default_rng(7)
    records, lists, found = people(rng), listed(rng), []
    for number in range(5):
        turn = np.random.default_rng(number) if number else None
        swap = np.arange(BUCKETS)
        if turn is not None:  # buckets keep to their block
            ends = [*first[1:], BUCKETS]
            swap = np.concatenate(
                [a + turn.permutation(b - a) for a, b in zip(first, ends, strict=True)]
            )
        (tmp_path / str(number)).mkdir()
        spell(
            tmp_path / str(number),
            COLUMNS,
            given(records, turn, swap),
            given(lists, turn, swap),
            first,
        )
        found.append(contents(tmp_path / str(number)))
    assert all(other == found[0] for other in found)
    assert list(found[0]) == [
        "records/part-00000.parquet", "records/part-00001.parquet", "sensitive.parquet",
    ]  # fmt: skip
    parts = [pq.ParquetFile(tmp_path / "0" / name) for name in list(found[0])[:2]]
    groups = [[p.metadata.row_group(g).num_rows for g in range(p.num_row_groups)] for p in parts]
    assert groups == [[700] * 4, [200]]
    shown = pq.read_table(tmp_path / "0" / "records")
    towns = [
        3 if town is None else TOWNS.to_pylist().index(town) for town in shown["town"].to_pylist()
    ]
    assert towns == sorted(towns)
    assert len(set(shown["bucket"].to_pylist())) == BUCKETS


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_column(1, "age", pa.array([7] * ROWS)),
        lambda table: table.slice(1),
        lambda table: table.set_column(
            5, "bucket", pa.array(np.arange(ROWS, dtype=np.int32) // 50)
        ),
    ],
)
def test_other_content_gives_other_bytes(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    rng = np.random.default_rng(7)
    records, lists = people(rng), listed(rng)
    for name, table in (("one", records), ("two", change(records))):
        (tmp_path / name).mkdir()
        spell(tmp_path / name, COLUMNS, given(table, None), given(lists, None))
    assert contents(tmp_path / "one") != contents(tmp_path / "two")


def test_sets_no_rows_and_domains_that_are_not_listed(tmp_path: Path) -> None:
    sets = pa.table({"town": pa.array([[1], [0, 2], [], [0]], pa.list_(pa.int32()))})
    for name, table, listing in (("sets", sets, True), ("none", sets.slice(4), True)):
        (tmp_path / name).mkdir()
        spell(tmp_path / name, [Spelled("town", TOWNS, listing)], given(table, None) if len(table)
              else lambda: iter([pa.RecordBatch.from_pylist([], sets.schema)]))  # fmt: skip
    shown = pq.read_table(tmp_path / "sets" / "records").column("town").to_pylist()
    assert shown == [[], ["Rome"], ["Rome", "Oslo"], ["Bonn"]]
    assert pq.read_table(tmp_path / "none" / "records").num_rows == 0
    (tmp_path / "plain").mkdir()
    codes = pa.table({"town": pa.array([2, None, 0], pa.uint8())})
    spell(tmp_path / "plain", [Spelled("town", TOWNS, listed=False)], given(codes, None))
    assert pq.read_table(tmp_path / "plain" / "records").column("town").to_pylist() == [
        "Rome", "Oslo", None,
    ]  # fmt: skip


def test_what_fails_on_the_way_is_told_as_it_is(tmp_path: Path) -> None:
    def broken():  # type: ignore[no-untyped-def]
        yield from given(people(np.random.default_rng(1)), None)()
        raise ValueError("the wire was cut")

    with pytest.raises(ValueError, match="the wire was cut"):
        spell(tmp_path, COLUMNS, broken)


@pytest.mark.parametrize("at_once", [1, 300, 1 << 22])
@pytest.mark.parametrize("kinds", [("uint8", "int16", "int32"), ("int64", "int8"), ("int64",) * 3])
def test_words_are_in_the_order_of_rows(
    kinds: tuple[str, ...], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Arrow sorts them, missing ones last; three columns of 64 bits fit into no word."""
    monkeypatch.setattr(spelling, "_AT_ONCE", at_once)
    draw = np.random.default_rng(len(kinds))
    columns = []
    for kind in kinds:
        ends = np.iinfo(kind)
        low, high = max(ends.min, -(1 << 45) * (len(kinds) > 2)), min(ends.max, 1 << 45)
        numbers = draw.choice(draw.integers(low // 2, high // 2, 12), 2000)
        columns.append(pa.array(numbers, kind, mask=draw.random(2000) < 0.1))
    table = pa.table(columns, names=[f"c{place}" for place in range(len(kinds))])
    schema, ordered = spelling.sorted_rows(lambda: table.to_batches(max_chunksize=700))
    keys = [(name, "ascending") for name in table.column_names]
    wanted = table.take(pc.sort_indices(table, keys))
    assert pa.Table.from_batches([*ordered]).cast(schema).equals(wanted)


def test_a_missing_value_that_nobody_shows_is_not_in_the_domain() -> None:
    """Its only record may be suppressed."""
    table = sf.read(
        pa.table({"town": ["Rome", None], "ill": ["a", "b"]}), quasi="town", sensitive="ill"
    )
    town = CodedColumn(table, "town", pa.array(["Rome", None]))
    town.add(pa.array([0]))
    assert town.column().value.domain == Values(("Rome",))
    town.add(pa.array([1]))
    assert CodedColumn(table, "town", town.values).column().value.domain == Values(())
