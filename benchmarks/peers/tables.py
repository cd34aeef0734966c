"""The tables that the peers are compared on."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

import sfumato as sf
from sfumato import datasets

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
CENSUS = ("age", "gender", "education", "marital", "race", "workclass", "country")
ADULT = ("age", "workclass", "education", "marital_status", "race", "sex", "hours_per_week")
NUMERIC = ("age", "education", "hours_per_week")
SENSITIVE = "occupation"
NAMES = ("census", "adult")


def records(name: str, rows: int) -> tuple[str, pa.Table]:
    """What it is, and the first so many records that lack nothing, texts as plain texts."""
    if name == "adult":
        files = [DATA / "adult.data", DATA / "adult.test"]
        if all(file.is_file() for file in files):
            found = datasets.read_adult(*files).select([*ADULT, SENSITIVE]).drop_null()
            return f"ADULT, the first {rows:,} complete records", _plain(found.slice(0, rows))
    elif (DATA / "occ100k.parquet").is_file():
        found = datasets.read_census(DATA / "occ100k.parquet")
        return f"CENSUS, the first {rows:,} records", _plain(found.slice(0, rows))
    made = datasets.census(rows, seed=1).select([*CENSUS, SENSITIVE])
    return f"{rows:,} generated census records ({name}'s file is not there)", _plain(made)


def declared(table: pa.Table) -> sf.Table:
    quasi = [name for name in table.column_names if name != SENSITIVE]
    numeric = [
        name
        for name in quasi
        if name in NUMERIC and pa.types.is_integer(table.schema.field(name).type)
    ]
    return sf.read(
        table,
        quasi=quasi,
        sensitive=SENSITIVE,
        numeric=numeric,
        categorical=[name for name in (*quasi, SENSITIVE) if name not in numeric],
    )


def _plain(table: pa.Table) -> pa.Table:
    schema = [
        pa.field(
            each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type
        )
        for each in table.schema
    ]
    return table.cast(pa.schema(schema)).combine_chunks()
