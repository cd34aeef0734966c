"""Where the records of a release are: `records/part-00000.parquet`, `part-00001.parquet` …"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = "records"
PART = re.compile(r"records/part-(\d{5,9})\.parquet")


def part_name(number: int) -> str:
    """The name of a part of the records.

    >>> part_name(7)
    'records/part-00007.parquet'
    """
    return f"{FOLDER}/part-{number:05}.parquet"


def record_names(names: Iterable[str]) -> list[str]:
    """Those of a release's file names that hold its records, in the order of the records.

    >>> record_names(["records/part-00010.parquet", "records/part-00002.parquet"])
    ['records/part-00002.parquet', 'records/part-00010.parquet']
    """
    matches = {name: PART.fullmatch(name) for name in names}
    return sorted((name for name, part in matches.items() if part), key=lambda n: int(n[13:-8]))


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
