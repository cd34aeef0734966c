"""ADULT and CENSUS as the paper uses them, or generated tables like them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from papers import public_files
from sfumato import datasets
from sfumato.engines.counting import count_cells, take_profile
from sfumato.mechanisms.reconstruction.groups import PersonalGroups, personal_groups
from sfumato.mechanisms.reconstruction.merging import Linkage
from sfumato.profile import Cells
from sfumato.table import read

ADULT_QUASI = ("education", "occupation", "race", "sex")
CENSUS_QUASI = ("age", "gender", "education", "marital", "race")
SIGNIFICANCE = Fraction(1, 20)


@dataclass(frozen=True, eq=False)
class Study:
    """A table's cells; groups are made from them by the linkage asked for."""

    name: str
    rows: int
    values: int
    cells: Cells

    def groups(self, linkage: Linkage = "components") -> PersonalGroups:
        return personal_groups(self.cells, self.values, linkage, SIGNIFICANCE)


def study(name: str, table: pa.Table, quasi: tuple[str, ...], sensitive: str) -> Study:
    declared = read(table.select([*quasi, sensitive]), quasi=quasi, sensitive=sensitive)
    (histogram,) = take_profile(declared).histograms.values()
    cells = count_cells(declared, sensitive, histogram.values)
    return Study(name, histogram.rows, len(histogram.values), cells)


def adult(data_dir: Path | None) -> tuple[Study, str]:
    """The 45,222 complete records of ADULT; else generated people with two classes of income."""
    files = [data_dir / name for name in ("adult.data", "adult.test")] if data_dir else []
    if files and all(path.is_file() for path in files):
        table = public_files.read_adult(*files)
        for name in ("workclass", "occupation", "native_country"):
            table = table.filter(pc.is_valid(table[name]))
        return study("ADULT", table, ADULT_QUASI, "income"), f"ADULT: {table.num_rows:,} records."
    table = datasets.census(45_222, seed=2)
    codes = table["occupation"].combine_chunks()
    codes = codes.dictionary_encode() if not pa.types.is_dictionary(codes.type) else codes
    income = pc.if_else(pc.less(codes.indices, 12), ">50K", "<=50K")
    quasi = ("education", "marital", "race", "gender")
    table = table.append_column("income", income)
    return study("ADULT", table, quasi, "income"), "ADULT: generated records stand in."


def census(data_dir: Path | None, rows: int) -> tuple[Study, str]:
    """CENSUS with occupation: 100,000 real records where they are, else generated ones."""
    path = data_dir / "occ100k.parquet" if data_dir else None
    if path is not None and path.is_file():
        table = public_files.read_census(path)
        note = f"CENSUS: {table.num_rows:,} real records; the paper's default is 300,000."
    else:
        table = datasets.census(rows, seed=3)
        note = f"CENSUS: {rows:,} generated records."
    return study("CENSUS", table, CENSUS_QUASI, "occupation"), note


def census_sizes(sizes: tuple[int, ...]) -> list[Study]:
    """Generated CENSUS-like tables of several sizes, each the beginning of the next."""
    whole = datasets.census(max(sizes), seed=3)
    return [
        study(f"{size:,} records", whole.slice(0, size), CENSUS_QUASI, "occupation")
        for size in sizes
    ]
