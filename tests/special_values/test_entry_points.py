"""Ordinary but awkward values, through every way a table can come in.

Each table is published in its own order under a seed, opened again with every check, and its quasi
columns compared value by value.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.release import Release
from sfumato.storage import Stored
from tests.s3 import s3_server

ROWS = 24
Entry = Callable[[pa.Table, Path], Any]


def as_parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "t.parquet", row_group_size=7)
    return folder / "t.parquet"


def as_parquet_glob(table: pa.Table, folder: Path) -> Any:
    for number, start in enumerate(range(0, max(table.num_rows, 1), 10)):
        pq.write_table(table.slice(start, 10), folder / f"t{number}.parquet")
    return f"{folder}/t*.parquet"


def as_csv(table: pa.Table, folder: Path) -> Any:
    pyarrow.csv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def as_packed_csv(table: pa.Table, folder: Path) -> Any:
    with pa.output_stream(str(folder / "t.csv.gz"), compression="gzip") as file:
        pyarrow.csv.write_csv(table, file)
    return folder / "t.csv.gz"


def as_ipc_file(table: pa.Table, folder: Path) -> Any:
    pyarrow.feather.write_feather(table, str(folder / "t.feather"), chunksize=5)
    return folder / "t.feather"


def as_ipc_stream(table: pa.Table, folder: Path) -> Any:
    with pa.ipc.new_stream(str(folder / "t.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return str(folder / "t.arrow")


def as_chunked_arrow(table: pa.Table, folder: Path) -> Any:
    pieces = [table.slice(0, 1), table.slice(1, 0), table.slice(1, 9), table.slice(10)]
    return pa.concat_tables(pieces)


def put(path: Path) -> str:
    """The same file in an organisation's store."""
    Stored.at("s3://clinic").put(path.name, path)
    return f"s3://clinic/{path.name}"


def as_spark(table: pa.Table, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    return session.read.parquet(str(as_parquet(table, folder)))


ENTRIES: dict[str, Entry] = {
    "parquet": as_parquet,
    "parquet-glob": as_parquet_glob,
    "csv": as_csv,
    "csv-gz": as_packed_csv,
    "ipc-file": as_ipc_file,
    "ipc-stream": as_ipc_stream,
    "pandas": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas-numpy": lambda table, folder: table.to_pandas(),
    "polars": lambda table, folder: pl.from_arrow(table),
    "pyarrow": lambda table, folder: table,
    "pyarrow-chunks": as_chunked_arrow,
    "reader": lambda table, folder: table.to_reader(max_chunksize=5),
    "duckdb": lambda table, folder: duckdb.connect().from_arrow(table),
    "s3-parquet": lambda table, folder: put(as_parquet(table, folder)),
    "s3-csv": lambda table, folder: put(as_csv(table, folder)),
    "spark": as_spark,
}
CSV = ("csv", "csv-gz", "s3-csv")
LOOSE = (*CSV, "pandas-numpy", "pandas")

EVERY = [
    *(name for name in ENTRIES if name != "spark"),
    pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.xdist_group("spark")]),
]


@pytest.fixture(autouse=True, scope="module")
def _store() -> Iterator[None]:
    with s3_server("clinic"):
        yield


@pytest.fixture
def entry(request: pytest.FixtureRequest) -> str:
    """A way for a table to come in, with what it needs."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    name: str = request.param
    return name


def every(values: list[Any]) -> list[Any]:
    return (values * ROWS)[:ROWS]


DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 30, 15)
COLUMNS: dict[str, pa.Array] = {
    "nulls": pa.array(every([1, None, 3])),
    "all-null": pa.nulls(ROWS, pa.int64()),
    "nan": pa.array(every([math.nan, 1.5, 2.5])),
    "infinities": pa.array(every([math.inf, -math.inf, 0.5])),
    "decimals-of-two-lengths": pa.array(every([decimal.Decimal("10.5"), decimal.Decimal("9.5")])),
    "minus-zero": pa.array(every([0.0, -0.0, 1.0])),
    "null-and-nan": pa.array(every([None, math.nan, 2.5])),
    "empty-strings": pa.array(every(["", "a", " ", "a,b", 'say "hi"', "ü\n☃"])),
    "null-strings": pa.array(every(["x", None, "", "null"])),
    "booleans": pa.array(every([True, False, None])),
    "dates": pa.array(every([DAY, None, DAY.replace(year=1924)])),
    "timestamps": pa.array(every([NOON, NOON.replace(year=1804)]), pa.timestamp("us")),
    "timestamps-s": pa.array(every([NOON, None]), pa.timestamp("s")),
    "timestamps-ns": pa.array(every([NOON, None]), pa.timestamp("ns")),
    "instants": pa.array(every([NOON, None]), pa.timestamp("ms", "Asia/Tokyo")),
    "decimals": pa.array(every([decimal.Decimal("1.10"), None]), pa.decimal128(12, 2)),
    "wide-decimals": pa.array(
        every([decimal.Decimal("12345678901234567890123456789.12"), decimal.Decimal("-0.01")]),
        pa.decimal128(38, 2),
    ),
    "uint64": pa.array(every([0, 2**64 - 1, 2**63]), pa.uint64()),
    "int64-ends": pa.array(every([-(2**63), 2**63 - 1])),
    "int8": pa.array(every([-128, 127, None]), pa.int8()),
    "float32": pa.array(every([0.1, None]), pa.float32()),
    "large-strings": pa.array(every(["a", None, "bb"]), pa.large_string()),
    "string-views": pa.array(every(["a", None, "a text of more than twelve"]), pa.string_view()),
    "categories": pa.DictionaryArray.from_arrays(
        pa.array(every([4, 1, None]), pa.int8()), ["never", "b", "unused", "secret", "a"]
    ),
    "bytes": pa.array(every([b"\x00\xff", None, b""])),
}
# what an entry point cannot carry at all, not what sfumato does with it
FOREIGN = {
    *((entry, kind) for entry in CSV for kind in ("bytes", "categories", "string-views")),
    ("pandas-numpy", "bytes"),
    ("duckdb", "all-null"),
    ("spark", "timestamps-ns"),
}


def plain(value: Any) -> Any:
    """A value in a form that compares: zones, number types and outer blanks aside."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and math.isnan(value):
        return "not a number"
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return value


def same(found: list[Any], wanted: list[Any], *, loose: bool) -> bool:
    for one, other in zip(found, wanted, strict=True):
        a, b = plain(one), plain(other)
        if a == b:
            continue
        if not loose or not _alike(a, b):
            return False
    return True


def _alike(a: Any, b: Any) -> bool:
    """Text formats and NumPy frames know one kind of missing value only."""
    absent = (None, "", "not a number")
    if a in absent and b in absent:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-6)
    except (TypeError, ValueError):
        return str(a) == str(b)


def published(table: Any, to: Path, **options: Any) -> pa.Table:
    """Publish, open with every check, audit, and read the records."""
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=to, mechanism="uniform", seed=1)
    release = Release(to)
    verdict = sf.audit(table, release)
    failed = [f for f in verdict.findings if not f.holds and f.check.name != "randomness"]
    assert failed == []
    return pq.read_table(release.records[0])


@pytest.mark.parametrize("entry", EVERY, indirect=True)
def test_quasi_values_survive(tmp_path: Path, entry: str) -> None:
    columns = {name: array for name, array in COLUMNS.items() if (entry, name) not in FOREIGN}
    columns = {"row": pa.array(range(ROWS)), **columns}  # rows leave in its order
    data = pa.table({**columns, "disease": every(["a", "b", "c", "d"])})
    table = sf.read(ENTRIES[entry](data, tmp_path), quasi=list(columns), sensitive="disease")
    records = published(table, tmp_path / "release")
    loose = entry in LOOSE
    for name, array in columns.items():
        found, wanted = records.column(name).to_pylist(), array.to_pylist()
        assert same(found, wanted, loose=loose), (name, found[:6], wanted[:6])
    assert set(records.column("disease").to_pylist()) <= {"a", "b", "c", "d"}


@pytest.mark.parametrize("name", ["bytes", "instants", "empty-strings", "uint64"])
def test_values_are_shown_in_sets_and_ranges(tmp_path: Path, name: str) -> None:
    data = pa.table({"x": COLUMNS[name], "disease": every(["a", "b", "c", "d"])})
    table = sf.read(data, quasi="x", sensitive="disease")
    release, receipt = tmp_path / "release", tmp_path / "receipt"
    sf.publish(table, "l-diversity(2)", to=release, mechanism="heterogeneous", receipt=receipt)
    assert sf.audit(table, release, receipt=receipt).holds


@pytest.mark.parametrize("entry", EVERY, indirect=True)
def test_sensitive_values_survive(tmp_path: Path, entry: str) -> None:
    """As many different values as before; a missing one counts as a value of its own."""
    foreign = FOREIGN | {(entry, "all-null")}
    columns = {name: array for name, array in COLUMNS.items() if (entry, name) not in foreign}
    data = pa.table({"x": pa.array(range(ROWS)), **columns})
    table = sf.read(
        ENTRIES[entry](data, tmp_path), quasi="x", sensitive=list(columns), missing="value"
    )
    sf.publish(table, "rho-privacy(0.52, 0.9)", to=tmp_path / "release", mechanism="uniform")
    release = Release(tmp_path / "release")
    verdict = sf.audit(table, release)
    assert verdict.holds, verdict
    records = pq.read_table(release.records[0])
    for name, array in columns.items():
        wanted = {None if plain(v) == "not a number" else plain(v) for v in array.to_pylist()}
        domain = {plain(v) for v in release.domain(name).to_pylist()}
        if entry in LOOSE:
            wanted, domain = {_known(v) for v in wanted}, {_known(v) for v in domain}
        assert domain == wanted, name
        shown = {plain(v) for v in records.column(name).to_pylist()}
        assert shown <= domain or entry in LOOSE, name


def _known(value: Any) -> Any:
    """A value as text formats and NumPy frames can tell it from others."""
    if value in (None, "", "not a number"):
        return None
    try:
        return round(float(value), 5)
    except (TypeError, ValueError):
        return str(value)


@pytest.mark.parametrize("entry", EVERY, indirect=True)
@pytest.mark.parametrize("missing", ["value", "drop"])
def test_missing_sensitive_values(tmp_path: Path, entry: str, missing: Any) -> None:
    disease = every(["a", None, "b", "c", "d", None])
    data = pa.table({"x": list(range(ROWS)), "disease": disease})
    origin = ENTRIES[entry](data, tmp_path)
    table = sf.read(origin, quasi="x", sensitive="disease", missing=missing)
    records = published(table, tmp_path / "release")
    if missing == "drop":
        assert records.column("x").to_pylist() == [i for i in range(ROWS) if disease[i]]
        assert records.column("disease").null_count == 0
        manifest = Release(tmp_path / "release").manifest
        assert any("were left out" in caveat for caveat in manifest.caveats)
    else:
        assert records.num_rows == ROWS
        assert Release(tmp_path / "release").domain("disease").to_pylist() == [
            "a",
            "b",
            "c",
            "d",
            None,
        ]


NAMES = ("with space", 'a "quoted" one', "it's", "größe", "名前", "a.b", "a", "select", "1st")


@pytest.mark.parametrize("entry", EVERY, indirect=True)
def test_odd_column_names(tmp_path: Path, entry: str) -> None:
    data = pa.table({name: every([i, i + 1, None]) for i, name in enumerate(NAMES)})
    data = data.append_column('what\'s "it"?', pa.array(every(["a", "b", "c", "d"])))
    table = sf.read(ENTRIES[entry](data, tmp_path), quasi=NAMES, sensitive=['what\'s "it"?'])
    records = published(table, tmp_path / "release")
    assert records.schema.names == [*NAMES, 'what\'s "it"?']
    order = [(name, "ascending") for name in NAMES]
    data = data.sort_by(order)  # missing ones last, as rows leave
    for name in NAMES:
        found, wanted = records.column(name).to_pylist(), data.column(name).to_pylist()
        assert same(found, wanted, loose=True), name


def test_unused_categories_do_not_leak(tmp_path: Path) -> None:
    """Levels that nobody has, or only people who were left out, appear nowhere in the release."""
    indices = pa.array(every([0, 1, 4]), pa.int8())
    levels = ["kept1", "kept2", "hidden-level", "hidden-too", "left-out"]
    category = pa.DictionaryArray.from_arrays(indices, levels)
    disease = [None if i == 4 else "abcd"[n % 4] for n, i in enumerate(indices.to_pylist())]
    data = pa.table({"x": category, "disease": pa.array(disease).dictionary_encode()})
    frames = {
        "arrow": data,
        "pandas": data.to_pandas(),
        "polars": pl.from_arrow(data),
        "file": as_parquet(data, tmp_path),
        "feather": as_ipc_file(data, tmp_path),
    }
    for name, frame in frames.items():
        place = tmp_path / name
        table = sf.read(frame, quasi="x", sensitive="disease", missing="drop")
        sf.publish(table, "rho-privacy(0.3, 0.6)", to=place)
        Release(place)
        content = b"".join(path.read_bytes() for path in place.rglob("*.*"))
        records = pq.read_table(place / "records", read_dictionary=["x"])
        assert b"kept1" in content
        for secret in (b"hidden-level", b"hidden-too", b"left-out"):
            assert secret not in content
        for chunk in records.column("x").chunks:
            assert set(chunk.dictionary.to_pylist()) <= {"kept1", "kept2"}


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(5, 5 + ROWS),
        pd.Index(list(range(ROWS))[::-1]),
        pd.Index([7] * ROWS),
        pd.Index([f"row{i}" for i in range(ROWS)], name="patient"),
        pd.MultiIndex.from_product([["a", "b"], range(ROWS // 2)], names=["ward", None]),
        pd.DatetimeIndex([NOON] * ROWS, name="when"),
    ],
    ids=["range", "reversed", "constant", "named", "multi", "dates"],
)
def test_the_index_of_a_frame_is_not_data(tmp_path: Path, index: pd.Index) -> None:
    frame = pd.DataFrame(
        {"x": list(range(ROWS)), "disease": every(["a", "b", "c", "d"])}, index=index
    )
    table = sf.read(frame, quasi="x", sensitive="disease")
    records = published(table, tmp_path / "release")
    assert records.schema.names == ["x", "disease"]
    assert records.column("x").to_pylist() == list(range(ROWS))


def test_duplicated_names_in_frames() -> None:
    frame = pd.DataFrame([[1, 2, "a"]], columns=["x", "x", "disease"])
    with pytest.raises(DataError, match="Duplicate column names"):
        sf.read(frame, quasi="x", sensitive="disease")
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(DataError, match="more than one column named 'x'"):
        sf.read(arrow, quasi=[], sensitive="x")


def test_mixed_objects_in_pandas() -> None:
    frame = pd.DataFrame({"x": [1, "two", 3.0], "disease": ["a", "b", "c"]}, dtype=object)
    with pytest.raises(DataError, match="Cannot read"):
        sf.publish(
            sf.read(frame, quasi="x", sensitive="disease"), "rho-privacy(0.3, 0.6)", to="nowhere"
        )
