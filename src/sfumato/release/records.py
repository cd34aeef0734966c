"""Where the records of a release are: in one file, or in many.

`publish` writes `records/part-00000.parquet` and so on; whoever reads records asks here for the
files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

ONE = "records.parquet"
FOLDER = "records"
_PART = re.compile(r"part-(?P<number>[0-9]+)[^/]*\.parquet")


def part_name(number: int) -> str:
    """The name of a part of the records.

    >>> part_name(7)
    'records/part-00007.parquet'
    """
    return f"{FOLDER}/part-{number:05}.parquet"


def record_names(names: Iterable[str]) -> list[str]:
    """Those of a release's file names that hold its records, in the order of the records.

    >>> record_names(["sensitive.parquet", "records.parquet"])
    ['records.parquet']
    >>> record_names(["records/part-00010.parquet", "records/part-00002.parquet"])
    ['records/part-00002.parquet', 'records/part-00010.parquet']
    """
    found = [name for name in names if name == ONE or name.startswith(f"{FOLDER}/")]
    return sorted(found, key=_place)


def record_files(folder: Path) -> list[Path]:
    """The record files that lie in a folder, in the order of the records.

    For a folder that is being written; a release that was opened knows its own from its manifest.
    """
    if not (folder / FOLDER).is_dir():
        return [folder / ONE]
    names = [f"{FOLDER}/{path.name}" for path in (folder / FOLDER).iterdir()]
    return [folder / name for name in record_names(names) if _PART.fullmatch(name[8:])]


def number_parts(folder: Path) -> None:
    """Name the parts of a folder being written by their place: `records/part-00000.parquet` …

    A cluster's own names tell about the run that wrote them, and it leaves checksums and markers
    of its own beside them, which are removed.
    """
    parts = record_files(folder)
    arrived = folder / f"{FOLDER}-arrived"
    (folder / FOLDER).rename(arrived)
    (folder / FOLDER).mkdir()
    for place, part in enumerate(parts):
        (arrived / part.name).rename(folder / FOLDER / f"part-{place:05}.parquet")
    shutil.rmtree(arrived)


def scan(paths: Sequence[Path]) -> str:
    """A DuckDB table of these files and nothing else: no patterns, no columns from folder names.

    >>> scan([Path("it's/records.parquet")])
    "read_parquet(['it''s/records.parquet'], hive_partitioning = false)"
    """
    files = ", ".join("'" + glob_escaped(path).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{files}], hive_partitioning = false)"


def glob_escaped(path: Path) -> str:
    """A path in which DuckDB finds nothing to expand.

    >>> glob_escaped(Path("a[1]/b*.parquet"))
    'a[[]1]/b[*].parquet'
    """
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))


def _place(name: str) -> tuple[int, str]:
    part = _PART.search(name)
    return (0 if part is None else int(part["number"])), name
