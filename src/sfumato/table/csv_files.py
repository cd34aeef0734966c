"""CSV files: a look at the first lines says how they are cut, DuckDB what their columns are.

Types come from all lines, before anything is published: a late surprise would be a late failure.
DuckDB would rather skip lines, or take a line of data for names, than ask; here every such guess is
one sentence that says what to write.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.columns import quoted
from sfumato.errors import DataError
from sfumato.scratch import scratch_database
from sfumato.table.csv_preview import CsvPreview, opened, preview_csv, records
from sfumato.table.declared import refuse_repeated
from sfumato.table.plain import normalize, plain_type
from sfumato.table.reading import Reading
from sfumato.table.sources import Batches, Source, file_errors, require_alike

if TYPE_CHECKING:
    import duckdb

_BATCH = 1 << 17


@dataclass(frozen=True)
class CsvFile:
    """How one file is written, and the type of every column.

    `path` is how messages call it, `file` where its text lies in UTF-8.
    """

    path: Path
    file: Path
    look: CsvPreview
    options: dict[str, Any]
    types: dict[str, str]

    def scan(self, types: dict[str, str]) -> str:
        """SQL that reads the file with these types, and guesses nothing."""
        columns = ", ".join(f"{_literal(name)}: {_literal(kind)}" for name, kind in types.items())
        return (
            f"read_csv({_literal(str(self.file))}, auto_detect = false, "
            f"{_settings(self.options)}, columns = {{{columns}}})"
        )


class CsvSource(Source):
    """One or many CSV files with the same columns, read one after the other."""

    def __init__(self, paths: Sequence[Path], reading: Reading | None = None) -> None:
        self.label, said = str(paths[0]), reading or Reading()
        with closing(scratch_database(threads=1)) as connection:
            self._files = [_described(connection, path, said, self) for path in paths]
            self._types = _common_types(self._files, said)
            empty = f"SELECT * FROM {self._files[0].scan(self._types)} LIMIT 0"
            with _explained(self._files[0].path, self._files[0].file, self._files[0].look):
                schema = connection.sql(empty).to_arrow_table().schema
        self.schema = pa.schema([pa.field(f.name, plain_type(f.type)) for f in schema])

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        names = ", ".join(map(quoted, columns))
        with closing(scratch_database(threads=1)) as connection:
            for file in self._files:
                with _explained(file.path, file.file, file.look):
                    query = f"SELECT {names} FROM {file.scan(self._types)}"
                    for batch in connection.sql(query).to_arrow_reader(_BATCH):
                        for start in range(0, batch.num_rows, rows):
                            yield normalize(batch.slice(start, rows), columns)


def _described(
    connection: duckdb.DuckDBPyConnection, path: Path, reading: Reading, owner: CsvSource
) -> CsvFile:
    with file_errors(path, "CSV"):
        look = preview_csv(path, reading)
    file = _as_utf8(path, look.encoding, owner) if reading.encoding or look.marked else path
    if look.encoding != "utf-8" and file == path:
        raise _what_is_wrong(path, path, look)
    if reading.header == "guess" and not reading.columns and not look.header:
        raise DataError(
            f"The first line of {path} looks like data, not like the names of columns. Give "
            "names with --columns a,b,c, or say --header no (they are column1, column2 …), or "
            "--header yes if these are the names."
        )
    options = {
        "header": look.header,
        "delim": look.separator,
        "quote": look.quote,
        "escape": look.escape,
        "skip": look.skip,
        "nullstr": _missing(reading),
    }
    given = {**options, "sample_size": -1, "comment": ""}
    query = f"SELECT * FROM sniff_csv({_literal(str(file))}, {_settings(given)})"
    with _explained(path, file, look):
        (row,) = connection.sql(query).to_arrow_table().to_pylist()
        if row["SkipRows"] != look.skip or len(row["Columns"]) != look.cells > 0:
            raise _what_is_wrong(path, file, look)
    types = {column["name"]: column["type"] for column in row["Columns"]}
    if look.header:
        # DuckDB would rename the second one
        refuse_repeated([name.strip() for name in look.names], str(path))
    else:
        _require_names(path, look, len(types))
        types = dict(zip(look.names, types.values(), strict=True))
    formats = {"dateformat": row["DateFormat"], "timestampformat": row["TimestampFormat"]}
    options |= {name: text for name, text in formats.items() if text}
    return _without_yes(connection, CsvFile(path, file, look, options, types))


def _without_yes(connection: duckdb.DuckDBPyConnection, file: CsvFile) -> CsvFile:
    """Yes and No stay as they are written; only true and false are no texts."""
    said = [name for name, kind in file.types.items() if kind == "BOOLEAN"]
    if not said:
        return file
    texts = [f"bool_and(lower(trim({quoted(name)})) IN ('true', 'false'))" for name in said]
    written = file.scan(dict.fromkeys(file.types, "VARCHAR"))
    (plain,) = connection.sql(f"SELECT {', '.join(texts)} FROM {written}").fetchall()
    others = [name for name, whole in zip(said, plain, strict=True) if not whole]
    return replace(file, types=file.types | dict.fromkeys(others, "VARCHAR"))


def _missing(reading: Reading) -> list[str]:
    """The texts that stand for missing values, with the blanks that often stand around them."""
    blanks, texts = ("", " ", "  "), {*reading.missing_markers, ""}
    return sorted({f"{one}{text}{two}" for text in texts for one in blanks for two in blanks})


def _require_names(path: Path, look: CsvPreview, columns: int) -> None:
    if len(look.names) != columns:
        raise DataError(
            f"{path} has {columns} columns, but {len(look.names)} names were given. Name each "
            "one, or say --separator if they are cut in the wrong places."
        )
    first = look.rows[0] if look.rows else ()
    if [cell.strip().casefold() for cell in first] == [name.casefold() for name in look.names]:
        raise DataError(f"The first line of {path} has the names already. Leave --columns out.")


def _common_types(files: Sequence[CsvFile], reading: Reading) -> dict[str, str]:
    """One type for each column in all files."""
    require_alike([file.path for file in files], [list(file.types) for file in files])
    common = {}
    for name in files[0].types:
        kinds = {"VARCHAR"} if name in reading.texts else {file.types[name] for file in files}
        if len(kinds) > 1:
            # what DuckDB makes of values of all of them together
            numbers, times = kinds <= {"BIGINT", "DOUBLE"}, kinds <= {"DATE", "TIMESTAMP"}
            kinds = {"DOUBLE" if numbers else "TIMESTAMP" if times else "VARCHAR"}
        common[name] = kinds.pop()
    return common


def _as_utf8(path: Path, encoding: str, owner: object) -> Path:
    """A copy in UTF-8 in a file without a name, which the system takes away with its `owner` or
    with the process; the file itself where that is how it is written."""
    if encoding == "utf-8":
        return path
    copy = tempfile.TemporaryFile(prefix="sfumato-")  # noqa: SIM115
    weakref.finalize(owner, copy.close)
    try:
        with io.TextIOWrapper(opened(path), encoding, newline="") as source:
            for part in iter(partial(source.read, 1 << 20), ""):
                copy.write(part.encode())
        copy.flush()
    except (UnicodeError, LookupError):
        raise DataError(
            f"{path} is not {encoding}. Say what it is with --encoding, for example utf-8, "
            "latin-1, cp1252 or utf-16."
        ) from None
    return Path(f"/dev/fd/{copy.fileno()}")


@contextmanager
def _explained(path: Path, file: Path, look: CsvPreview) -> Iterator[None]:
    """DuckDB's words about a file in ours; they would show what stands in its cells."""
    import duckdb

    with file_errors(path, "CSV"):
        try:
            yield
        except (duckdb.InvalidInputException, duckdb.ConversionException, OSError):
            raise _what_is_wrong(path, file, look) from None


def _what_is_wrong(path: Path, file: Path, look: CsvPreview) -> DataError:
    """The first line that is not like the first one, by Python's reader."""
    lines = width = 0

    def decoded() -> Iterator[str]:
        nonlocal lines
        for line in text:
            lines += 1
            if re.search("[\udc80-\udcff]", line):
                raise UnicodeError
            yield line

    with io.TextIOWrapper(opened(file), "utf-8-sig", "surrogateescape", newline="") as text:
        try:
            for line, cells in records(
                decoded(), look.separator, look.quote, look.escape, strict=True
            ):
                width = width or len(cells)
                if len(cells) != width:
                    some = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                    return DataError(
                        f"Line {line:,} of {path} has {some} where the first line has {width}. "
                        "Repair the line, or say --separator or --quote if it is cut in the wrong "
                        "places."
                    )
        except UnicodeError:
            return DataError(
                f"{path} is not UTF-8 (line {lines:,}). Say what it is with --encoding, for "
                "example latin-1, cp1252 or utf-16."
            )
        except csv.Error as error:
            return DataError(
                f"A cell that begins in line {error.args[0]:,} of {path} does not end. Repair its "
                "quotes, or say --quote."
            )
    return DataError(
        f"Cannot read {str(path)!r} as CSV: some line does not fit the lines before it. Say "
        "--separator, --quote or --encoding if they were guessed wrong."
    )


def _settings(options: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_literal(value)}" for name, value in options.items())


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, (bool, int)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
