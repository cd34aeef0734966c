"""Readers of public files: the real ones where they are on disk, and every wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from papers.public_files import (
    ADULT_COLUMNS,
    CENSUS_CODES,
    COIL_COLUMNS,
    read_adult,
    read_census,
    read_coil,
)
from sfumato.errors import DataError, UsageError

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))

GOOD = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)
MISSING = GOOD.replace("State-gov", "?").replace("<=50K", ">50K.")


def real(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in SFUMATO_DATA")
    return DATA / name


# -- the real files -----------------------------------------------------------------------------


def test_real_adult() -> None:
    table = read_adult(real("adult.data"), real("adult.test"))
    assert table.shape == (48_842, 15)
    assert tuple(table.column_names) == ADULT_COLUMNS
    complete = table.drop_null()
    assert complete.num_rows == 45_222
    low = pc.sum(pc.equal(complete["income"], "<=50K")).as_py()
    assert round(100 * low / complete.num_rows, 2) == 75.22
    wanted = {
        "education": "Prof-school",
        "occupation": "Prof-specialty",
        "race": "White",
        "sex": "Male",
    }
    for name, value in wanted.items():
        complete = complete.filter(pc.equal(complete[name], value))
    assert complete.num_rows == 501
    assert pc.sum(pc.equal(complete["income"], ">50K")).as_py() == 420


@pytest.mark.parametrize(
    ("file", "sensitive", "rows"),
    [("occ100k.parquet", "occupation", 100_000), ("sal500k.parquet", "salary_class", 500_000)],
)
def test_real_census(file: str, sensitive: str, rows: int) -> None:
    table = read_census(real(file))
    assert table.column_names == [*CENSUS_CODES, sensitive]
    assert table.num_rows == rows
    assert len(table[sensitive].unique()) == 50
    assert len(table["education"].unique()) == 14


def test_real_coil() -> None:
    table = read_coil(real("coil2000.parquet"))
    assert table.num_rows == 9_822
    assert table.column_names == [*COIL_COLUMNS, "split"]
    assert len(table["MOSTYPE"].unique()) == 40


# -- ADULT, made up -----------------------------------------------------------------------------


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_adult_forms(tmp_path: Path) -> None:
    data = write(tmp_path / "adult.data", GOOD, GOOD)
    test = write(tmp_path / "adult.test", "|1x3 Cross validator", MISSING)
    table = read_adult(data, test)
    assert table["income"].to_pylist() == ["<=50K", "<=50K", ">50K"]
    assert table["workclass"].to_pylist() == ["State-gov", "State-gov", None]
    assert table["age"].to_pylist() == [39, 39, 39]
    assert table["age"].type == pa.int32()
    assert table["race"].type == pa.dictionary(pa.int32(), pa.string())


def test_adult_with_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "adult.data"
    path.write_bytes(f"{GOOD}\r\n{MISSING}\r\n".encode())
    assert read_adult(path)["income"].to_pylist() == ["<=50K", ">50K"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((GOOD, "1, 2, 3"), r"line 2: 3 fields. Expected the 15 of UCI ADULT"),
        (("|comment", GOOD, GOOD + ", 1"), r"line 3: 16 fields"),
        ((GOOD, "|comment"), r"line 2: 1 fields"),
        ((", ".join(ADULT_COLUMNS), GOOD), r"line 1, column 'age': 'age' is not a whole number"),
        ((GOOD.replace("77516", "7_7"),), r"line 1, column 'fnlwgt': '7_7' is not a whole"),
        ((GOOD.replace("39", "39.5"),), r"column 'age': '39.5' is not a whole"),
        ((GOOD.replace("39", ""),), r"column 'age': '' is not a whole"),
        ((GOOD.replace("<=50K", "rich"),), r"line 1: the class is 'rich'. Expected '<=50K'"),
        ((GOOD.replace("<=50K", "?"),), r"the class is '\?'"),
        (("",), r"has no records"),
        (("|only a comment",), r"has no records"),
    ],
)
def test_wrong_adult(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    path = write(tmp_path / "adult.data", *lines)
    with pytest.raises(DataError, match=message) as caught:
        read_adult(path)
    assert str(path) in str(caught.value)


def test_second_empty_adult_file_is_named(tmp_path: Path) -> None:
    good, empty = write(tmp_path / "good", GOOD), write(tmp_path / "empty")
    with pytest.raises(DataError, match="empty' has no records"):
        read_adult(good, empty)


def test_adult_without_a_file() -> None:
    with pytest.raises(UsageError, match="at least one file"):
        read_adult()


def test_adult_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "adult.data"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="it is not a text file"):
        read_adult(path)


@pytest.mark.parametrize("reader", [read_adult, read_census, read_coil])
def test_missing_file_and_folder(reader: object, tmp_path: Path) -> None:
    assert callable(reader)
    with pytest.raises(DataError, match=r"Cannot read .*nowhere.*No such file"):
        reader(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"Cannot read .*Is a directory"):
        reader(tmp_path)


# -- CENSUS, made up ----------------------------------------------------------------------------


def census_columns(sensitive: str = "occupation") -> dict[str, pa.Array]:
    columns = {name: pa.array([low, high], pa.int8()) for name, (low, high) in CENSUS_CODES.items()}
    return {**columns, sensitive: pa.array([0, 49], pa.int8())}


def parquet(path: Path, columns: dict[str, pa.Array]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_census_columns_come_in_their_order(tmp_path: Path) -> None:
    columns = dict(reversed(census_columns("salary_class").items()))
    table = read_census(parquet(tmp_path / "c.parquet", columns))
    assert table.column_names == [*CENSUS_CODES, "salary_class"]


def test_census_that_lacks_columns(tmp_path: Path) -> None:
    columns = census_columns()
    del columns["race"], columns["occupation"]
    path = parquet(tmp_path / "c.parquet", columns)
    with pytest.raises(DataError, match=r"lacks race, occupation \(or salary_class\). It has: age"):
        read_census(path)


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("zip", pa.array([1, 2]), "more columns than expected, zip"),
        ("salary_class", pa.array([1, 2]), "more columns than expected, salary_class"),
        ("age", pa.array([15, 20]), "column 'age': the code 15 occurs. Expected codes from 16 to"),
        ("country", pa.array([1, 84]), "column 'country': the code 84 occurs"),
        ("occupation", pa.array([1, 50]), "column 'occupation': the code 50 occurs"),
        ("gender", pa.array([1, None]), "column 'gender': 1 values are missing"),
        ("gender", pa.array(["m", "f"]), "column 'gender': the type is string"),
    ],
)
def test_wrong_census(tmp_path: Path, name: str, column: pa.Array, message: str) -> None:
    path = parquet(tmp_path / "c.parquet", {**census_columns(), name: column})
    with pytest.raises(DataError, match=message):
        read_census(path)


def test_census_with_a_column_twice(tmp_path: Path) -> None:
    columns = census_columns()
    names, arrays = [*columns, "age"], [*columns.values(), columns["age"]]
    pq.write_table(pa.table(arrays, names=names), tmp_path / "c.parquet")
    with pytest.raises(DataError, match="more columns than expected, age"):
        read_census(tmp_path / "c.parquet")


@pytest.mark.parametrize("content", [b"", b"age,gender\n1,2\n", b"PAR1 and no more"])
def test_census_that_is_no_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a Parquet file, or a damaged one"):
        read_census(path)


# -- COIL, made up ------------------------------------------------------------------------------


def test_coil_text(tmp_path: Path) -> None:
    path = tmp_path / "ticdata2000.txt"
    path.write_text("\n".join("\t".join(str((i + r) % 42) for i in range(86)) for r in range(3)))
    table = read_coil(path)
    assert table.shape == (3, 86)
    assert table["MOSTYPE"].to_pylist() == [0, 1, 2]
    assert table["CARAVAN"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\t".join(["1"] * 85), "line 1: 85 fields. Expected the 86 of COIL 2000, separated by"),
        ("\t".join(["1"] * 85 + ["x"]), "line 1, column 'CARAVAN': 'x' is not a whole number"),
        ("\t".join(["1"] * 85 + ["100"]), "column 'CARAVAN': the code 100 occurs"),
        ("", "has no records"),
    ],
)
def test_wrong_coil_text(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ticdata2000.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_coil(path)


def test_coil_parquet_that_lacks_a_column(tmp_path: Path) -> None:
    columns = {name: pa.array([1], pa.int8()) for name in COIL_COLUMNS if name != "MGODRK"}
    path = parquet(tmp_path / "coil.parquet", columns)
    with pytest.raises(DataError, match="not the COIL 2000 file: it lacks MGODRK"):
        read_coil(path)
