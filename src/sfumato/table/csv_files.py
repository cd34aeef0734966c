"""CSV files: what their columns are is found out once, from all lines, and kept."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.columns import list_some
from sfumato.errors import DataError
from sfumato.scratch import scratch_database
from sfumato.table.plain import normalize, plain_type
from sfumato.table.sources import Source, file_errors

if TYPE_CHECKING:
    import duckdb

_BATCH = 1 << 17
_EMPTY = "(empty)"  # how DuckDB writes that there is no such sign


@dataclass(frozen=True)
class Layout:
    """How one file is written: its separators and formats, and the type of every column."""

    path: Path
    options: dict[str, str | int | None]
    types: dict[str, str]

    def scan(self, types: dict[str, str]) -> str:
        """SQL that reads the file with these types, and guesses nothing."""
        given = [f"{name} = {_literal(value)}" for name, value in self.options.items()]
        columns = ", ".join(f"{_literal(name)}: {_literal(kind)}" for name, kind in types.items())
        return (
            f"read_csv({_literal(str(self.path))}, auto_detect = false, header = true, "
            f"{', '.join(given)}, columns = {{{columns}}})"
        )


class CsvSource(Source):
    """One or many CSV files with the same columns, read one after the other."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.label = str(paths[0])
        with file_errors(self.label, "CSV"), closing(scratch_database(threads=1)) as connection:
            self._layouts = [_sniffed(connection, path) for path in paths]
            for layout in self._layouts:
                _refuse_duplicates(layout)
            self._types = _common_types(connection, self._layouts)
            empty = f"SELECT * FROM {self._layouts[0].scan(self._types)} LIMIT 0"
            schema = connection.sql(empty).to_arrow_table().schema
        self.schema = pa.schema([pa.field(f.name, plain_type(f.type)) for f in schema])

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        with file_errors(self.label, "CSV"), closing(scratch_database(threads=1)) as connection:
            for layout in self._layouts:
                relation = connection.sql(f"SELECT {listed} FROM {layout.scan(self._types)}")
                for batch in relation.to_arrow_reader(_BATCH):
                    for start in range(0, batch.num_rows, rows):
                        yield normalize(batch.slice(start, rows), columns)


def _sniffed(connection: duckdb.DuckDBPyConnection, path: Path) -> Layout:
    # types are decided from all lines: a late surprise would be a late failure
    found = connection.sql(
        "SELECT * FROM sniff_csv(?, header = true, sample_size = -1)", params=[str(path)]
    ).to_arrow_table()
    (row,) = found.to_pylist()
    options = {
        "delim": row["Delimiter"],
        "quote": row["Quote"],
        "escape": row["Escape"],
        "comment": row["Comment"],
        "new_line": row["NewLineDelimiter"],
        "skip": row["SkipRows"],
        "dateformat": row["DateFormat"],
        "timestampformat": row["TimestampFormat"],
    }
    given = {name: value for name, value in options.items() if value is not None}
    return Layout(path, given, {column["name"]: column["type"] for column in row["Columns"]})


def _common_types(
    connection: duckdb.DuckDBPyConnection, layouts: Sequence[Layout]
) -> dict[str, str]:
    """One type for each column in all files."""
    first = layouts[0]
    for layout in layouts:
        if list(layout.types) != list(first.types):
            raise DataError(
                f"The files do not have the same columns: {first.path} has "
                f"{list_some(list(first.types))}; {layout.path} has "
                f"{list_some(list(layout.types))}."
            )
    if all(layout.types == first.types for layout in layouts):
        return first.types
    # files that differ: what DuckDB makes of all of them together
    names = [str(layout.path) for layout in layouts]
    query = "SELECT * FROM read_csv(?, header = true, sample_size = -1, files_to_sniff = -1)"
    relation = connection.sql(query, params=[names])
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _refuse_duplicates(layout: Layout) -> None:
    """DuckDB would rename the second one of two columns with the same name."""
    with layout.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        start = file.readline()
    written = next(csv.reader([start], delimiter=str(layout.options["delim"])), [])
    names = [name.strip() for name in written]
    twice = sorted({repr(name) for name in names if names.count(name) > 1})
    if twice and len(names) == len(layout.types):
        raise DataError(
            f"{layout.path} has more than one column named {list_some(twice)}. Rename them so that "
            "every column has a name of its own."
        )


def _literal(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + ("" if value == _EMPTY else str(value).replace("'", "''")) + "'"
