"""Readers for public research files that a user has on disk; sfumato ships none of them."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from sfumato.errors import DataError

ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)
CENSUS_COLUMNS = ("age", "gender", "education", "marital", "race", "workclass", "country")


def read_adult(*paths: str | Path) -> pa.Table:
    """UCI ADULT as it comes (`adult.data`, `adult.test`); `?` is a missing value.

    A first line that starts with `|` is a comment; the full stop after the class in `adult.test`
    is dropped. Numbers are int32, everything else is dictionary coded.
    """
    parts = []
    for path in paths:
        lines = [line.rstrip(".") for line in Path(path).read_text("utf-8").splitlines()]
        text = "\n".join(line.replace(", ", ",") for line in lines if line and line[0] != "|")
        try:
            part = pc.read_csv(
                io.BytesIO(text.encode()),
                pc.ReadOptions(column_names=list(ADULT_COLUMNS)),
                convert_options=pc.ConvertOptions(null_values=["?"], strings_can_be_null=True),
            )
        except pa.ArrowInvalid as error:
            raise DataError(f"{str(path)!r} is not the UCI ADULT file: {error}.") from None
        if set(part["income"].unique().to_pylist()) - {"<=50K", ">50K"}:
            raise DataError(f"{str(path)!r} is not the UCI ADULT file: look at its last column.")
        parts.append(part)
    table = pa.concat_tables(parts).combine_chunks()
    numbers = [pa.types.is_integer(field.type) for field in table.schema]
    columns = [
        column.cast(pa.int32()) if number else column.dictionary_encode()
        for column, number in zip(table.columns, numbers, strict=True)
    ]
    return pa.table(dict(zip(ADULT_COLUMNS, columns, strict=True)))


def read_census(path: str | Path) -> pa.Table:
    """An extract of CENSUS (Parquet): quasi-identifiers, then `occupation` or `salary_class`."""
    table = pq.read_table(path).replace_schema_metadata(None)
    sensitive = [name for name in ("occupation", "salary_class") if name in table.column_names]
    return _select(table, path, [*CENSUS_COLUMNS, *(sensitive or ["occupation"])], "CENSUS")


def read_coil(path: str | Path) -> pa.Table:
    """COIL 2000 as a Parquet file with its 86 columns of codes."""
    table = pq.read_table(path).replace_schema_metadata(None)
    return _select(table, path, table.column_names, "COIL 2000", least=86)


def _select(
    table: pa.Table, path: str | Path, names: list[str], what: str, least: int = 0
) -> pa.Table:
    missing = [name for name in names if name not in table.column_names]
    if missing or len(names) < least:
        lacks = ", ".join(missing) or f"{least - len(names)} columns"
        raise DataError(f"{str(path)!r} is not the {what} file: it lacks {lacks}.")
    return table.select(names)
