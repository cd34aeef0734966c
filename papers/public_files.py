"""Readers for public research files that a user has on disk; sfumato ships none of them.

Each checks that the file is what it should be, and says what it found instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)
ADULT_NUMBERS = frozenset(
    ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
)
ADULT_CLASSES = ("<=50K", ">50K")

CENSUS_CODES = {  # column → the codes that the papers state for it
    "age": (16, 93),
    "gender": (1, 2),
    "education": (1, 17),
    "marital": (1, 6),
    "race": (1, 9),
    "workclass": (1, 10),
    "country": (1, 83),
}
CENSUS_SENSITIVE = ("occupation", "salary_class")
CENSUS_SENSITIVE_CODES = (0, 49)

_COIL_NAMES = """
MOSTYPE MAANTHUI MGEMOMV MGEMLEEF MOSHOOFD MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV
MFALLEEN MFGEKIND MFWEKIND MOPLHOOG MOPLMIDD MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD
MBERARBG MBERARBO MSKA MSKB1 MSKB2 MSKC MSKD MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART
MINKM30 MINK3045 MINK4575 MINK7512 MINK123M MINKGEM MKOOPKLA PWAPART PWABEDR PWALAND PPERSAUT
PBESAUT PMOTSCO PVRAAUT PAANHANG PTRACTOR PWERKT PBROM PLEVEN PPERSONG PGEZONG PWAOREG PBRAND
PZEILPL PPLEZIER PFIETS PINBOED PBYSTAND AWAPART AWABEDR AWALAND APERSAUT ABESAUT AMOTSCO
AVRAAUT AAANHANG ATRACTOR AWERKT ABROM ALEVEN APERSONG AGEZONG AWAOREG ABRAND AZEILPL APLEZIER
AFIETS AINBOED ABYSTAND CARAVAN
"""
COIL_COLUMNS = tuple(_COIL_NAMES.split())


def read_adult(*paths: str | Path) -> pa.Table:
    """UCI ADULT in its original form, one file after the other (`adult.data`, `adult.test`).

    Fields are separated by `, ` and there is no header; `?` is a missing value and becomes null;
    a first line that starts with `|` is a comment; the full stop after the class in `adult.test`
    is dropped. Numbers become int32, everything else is dictionary coded.
    """
    import pyarrow as pa

    if not paths:
        raise UsageError("read_adult needs at least one file, such as 'adult.data'.")
    columns: list[list[Any]] = [[] for _ in ADULT_COLUMNS]
    for path in paths:
        before = len(columns[0])
        for number, fields in _lines(path, ",", len(ADULT_COLUMNS), "UCI ADULT"):
            fields[-1] = fields[-1].removesuffix(".")
            for name, column, text in zip(ADULT_COLUMNS, columns, fields, strict=True):
                column.append(_adult_value(path, number, name, text))
        if len(columns[0]) == before:
            raise DataError(f"{str(path)!r} has no records. Expected the UCI ADULT file.")
    arrays = [
        pa.array(column, pa.int32())
        if name in ADULT_NUMBERS
        else pa.array(column, pa.string()).dictionary_encode()
        for name, column in zip(ADULT_COLUMNS, columns, strict=True)
    ]
    return pa.table(arrays, names=list(ADULT_COLUMNS))


def _adult_value(path: str | Path, number: int, name: str, text: str) -> str | int | None:
    if name == "income" and text not in ADULT_CLASSES:
        raise DataError(
            f"{str(path)!r}, line {number}: the class is {text!r}. Expected '<=50K' or '>50K'; "
            "is this the UCI ADULT file?"
        )
    if text == "?":
        return None
    return _integer(path, number, name, text) if name in ADULT_NUMBERS else text


def read_census(path: str | Path) -> pa.Table:
    """One of the two CENSUS extracts (Parquet): seven quasi columns of codes, then `occupation`
    or `salary_class`.
    """
    found = _read_parquet(path, "CENSUS")
    sensitive = [name for name in CENSUS_SENSITIVE if name in found.column_names]
    wanted = [*CENSUS_CODES, *(sensitive[:1] or ["occupation (or salary_class)"])]
    table = _exactly(found, path, wanted, "CENSUS")
    for name in wanted:
        _check_codes(table, path, name, CENSUS_CODES.get(name, CENSUS_SENSITIVE_CODES))
    return table


def read_coil(path: str | Path) -> pa.Table:
    """COIL 2000: a Parquet file with its 86 columns (and `split` where it has one), or the
    original `ticdata2000.txt`: 86 whole numbers a line, separated by tabs, no header.
    """
    import pyarrow as pa

    if _starts_like_parquet(path):
        found = _read_parquet(path, "COIL 2000")
        extra = ["split"] if "split" in found.column_names else []
        table = _exactly(found, path, [*COIL_COLUMNS, *extra], "COIL 2000")
        for name in COIL_COLUMNS:
            _check_codes(table, path, name, (0, 99))
        return table
    columns: list[list[int]] = [[] for _ in COIL_COLUMNS]
    for number, fields in _lines(path, "\t", len(COIL_COLUMNS), "COIL 2000"):
        for name, column, text in zip(COIL_COLUMNS, columns, fields, strict=True):
            column.append(_integer(path, number, name, text))
    if not columns[0]:
        raise DataError(f"{str(path)!r} has no records. Expected the COIL 2000 file.")
    table = pa.table([pa.array(c, pa.int32()) for c in columns], names=list(COIL_COLUMNS))
    for name in COIL_COLUMNS:
        _check_codes(table, path, name, (0, 99))
    return table


# -- text files ---------------------------------------------------------------------------------


def _lines(path: str | Path, mark: str, width: int, what: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields; empty lines and a comment in the first line are passed over."""
    for number, line in enumerate(_text(path, what).split("\n"), start=1):
        if not line.strip() or (number == 1 and line.startswith("|")):
            continue
        fields = [part.strip() for part in line.split(mark)]
        if len(fields) != width:
            between = "tabs" if mark == "\t" else f"{mark!r}"
            raise DataError(
                f"{str(path)!r}, line {number}: {len(fields)} fields. "
                f"Expected the {width} of {what}, separated by {between}, without a header."
            )
        yield number, fields


def _text(path: str | Path, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, what, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, what, "it is not a text file") from error


def _integer(path: str | Path, number: int, name: str, text: str) -> int:
    # int() takes more than a data file should hold ('1_0', ' 7', '٣')
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise DataError(
            f"{str(path)!r}, line {number}, column {name!r}: {text!r} is not a whole number."
        )
    return int(text)


# -- Parquet files ------------------------------------------------------------------------------


def _starts_like_parquet(path: str | Path) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise _unreadable(path, "COIL 2000", error.strerror or str(error)) from error


def _read_parquet(path: str | Path, what: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with Path(path).open("rb") as file:
            return pq.ParquetFile(file).read().replace_schema_metadata(None)
    except pa.ArrowException as error:
        raise _unreadable(path, what, "it is not a Parquet file, or a damaged one") from error
    except OSError as error:
        raise _unreadable(path, what, error.strerror or str(error)) from error


def _exactly(found: pa.Table, path: str | Path, wanted: Sequence[str], what: str) -> pa.Table:
    """The wanted columns in their order, if there is nothing else."""
    names: list[str] = found.column_names
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(
            f"{str(path)!r} is not the {what} file: it lacks {', '.join(missing)}. "
            f"It has: {', '.join(names) or 'no columns'}."
        )
    if len(names) != len(wanted):
        twice = [name for name, group in groupby(sorted(names)) if len(list(group)) > 1]
        extra = [name for name in names if name not in wanted] or twice
        raise DataError(
            f"{str(path)!r} is not the {what} file: it has more columns than expected, "
            f"{', '.join(extra)}. Leave them out."
        )
    return found.select(list(wanted))


def _check_codes(table: pa.Table, path: str | Path, name: str, codes: tuple[int, int]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    low, high = codes
    column = table[name]
    if not pa.types.is_integer(column.type):
        raise DataError(
            f"{str(path)!r}, column {name!r}: the type is {column.type}. "
            f"Expected whole numbers from {low} to {high}."
        )
    if column.null_count:
        raise DataError(f"{str(path)!r}, column {name!r}: {column.null_count} values are missing.")
    least, most = pc.min_max(column).values()
    for value in (least.as_py(), most.as_py()):
        if value is not None and not low <= value <= high:
            raise DataError(
                f"{str(path)!r}, column {name!r}: the code {value} occurs. "
                f"Expected codes from {low} to {high}."
            )


def _unreadable(path: str | Path, what: str, why: str) -> DataError:
    return DataError(f"Cannot read {str(path)!r}: {why}. Expected the {what} file.")
