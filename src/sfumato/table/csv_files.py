"""CSV files: what their columns are is found out once, from all lines, and kept.

DuckDB looks at the file and reads it. It would rather skip lines, take a line of data for names or
Yes and No for booleans than ask; here every such guess is one sentence that says what to write.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.columns import list_some
from sfumato.errors import DataError
from sfumato.scratch import scratch_database
from sfumato.table.encodings import as_utf8
from sfumato.table.plain import normalize, plain_type
from sfumato.table.reading import Reading
from sfumato.table.sources import Source, file_errors

if TYPE_CHECKING:
    import duckdb

_BATCH = 1 << 17
_EMPTY = "(empty)"  # how DuckDB writes that there is no such sign
_LOOKED_AT = 20_000  # lines that tell whether the first one is like them


@dataclass(frozen=True)
class Layout:
    """How one file is written: its separators and formats, and the type of every column.

    `path` is how messages call it, `file` where its text lies in UTF-8.
    """

    path: Path
    file: Path
    header: bool
    options: dict[str, Any]
    types: dict[str, str]

    def scan(self, types: dict[str, str]) -> str:
        """SQL that reads the file with these types, and guesses nothing."""
        settings = [f"{name} = {_literal(value)}" for name, value in self.options.items()]
        columns = ", ".join(f"{_literal(name)}: {_literal(kind)}" for name, kind in types.items())
        return (
            f"read_csv({_literal(str(self.file))}, auto_detect = false, header = {self.header}, "
            f"{', '.join(settings)}, columns = {{{columns}}})"
        )

    def texts(self) -> str:
        """SQL that reads every cell as it is written."""
        return replace(self, options=self.options | {"nullstr": [""]}).scan(
            dict.fromkeys(self.types, "VARCHAR")
        )


class CsvSource(Source):
    """One or many CSV files with the same columns, read one after the other."""

    def __init__(self, paths: Sequence[Path], reading: Reading | None = None) -> None:
        self.label, self._reading = str(paths[0]), reading or Reading()
        with closing(scratch_database(threads=1)) as connection:
            self._layouts = []
            for path in paths:
                with _explained(path):
                    self._layouts.append(_sniffed(connection, path, self))
            with _explained(paths[0]):
                self._types = _common_types(connection, self._layouts, self._reading)
                empty = f"SELECT * FROM {self._layouts[0].scan(self._types)} LIMIT 0"
                schema = connection.sql(empty).to_arrow_table().schema
        self.schema = pa.schema([pa.field(f.name, plain_type(f.type)) for f in schema])

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        shown = [
            f"trim({_name(name)}) AS {_name(name)}"
            if self._reading.trim and self._types[name] == "VARCHAR"
            else _name(name)
            for name in columns
        ]
        with closing(scratch_database(threads=1)) as connection:
            for layout in self._layouts:
                with _explained(layout.path):
                    query = f"SELECT {', '.join(shown)} FROM {layout.scan(self._types)}"
                    for batch in connection.sql(query).to_arrow_reader(_BATCH):
                        for start in range(0, batch.num_rows, rows):
                            yield normalize(batch.slice(start, rows), columns)


def _sniffed(connection: duckdb.DuckDBPyConnection, path: Path, owner: CsvSource) -> Layout:
    import duckdb

    reading = owner._reading
    file = as_utf8(path, reading.encoding, owner)
    header = reading.header != "no" and not reading.columns
    said = [f"header = {header}", f"nullstr = {_literal(list({*reading.missing_markers, ''}))}"]
    said += [f"delim = {_literal(reading.separator)}"] if reading.separator else []
    said += [f"quote = {_literal(reading.quote)}"] if reading.quote else []
    # types are decided from all lines: a late surprise would be a late failure
    query = f"SELECT * FROM sniff_csv({_literal(str(file))}, sample_size = -1, {', '.join(said)})"
    try:
        (row,) = connection.sql(query).to_arrow_table().to_pylist()
    except duckdb.Error as error:
        raise _ragged(_likely_layout(path, file, reading)) or error from None
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
    stated = {name: value for name, value in options.items() if value is not None}
    stated["nullstr"] = list({*reading.missing_markers, ""})
    types = {column["name"]: column["type"] for column in row["Columns"]}
    layout = Layout(path, file, header, stated, types)
    if len(types) == 1 and not reading.separator:  # lines of other lengths have no separator
        likely = _likely_layout(path, file, reading)
        if len(next(_records(likely), [])) > 1 and (wrong := _ragged(likely)) is not None:
            raise wrong
    _refuse_skipped(layout)
    if header:
        if reading.header == "guess":
            _refuse_data_as_names(connection, layout)
        _refuse_duplicates(layout)
    else:
        layout = replace(layout, types=_renamed(layout, reading))
    if reading.cleans:
        layout = _cleaned(connection, layout, reading)
    return replace(layout, types=_chosen_types(connection, layout, reading))


def _renamed(layout: Layout, reading: Reading) -> dict[str, str]:
    """The given names, or numbers, for the columns of a file without names."""
    types = list(layout.types.values())
    names = reading.columns or [f"column{index}" for index in range(1, len(types) + 1)]
    if len(names) != len(types):
        raise DataError(
            f"{layout.path} has {len(types)} columns, but {len(names)} names were given. Name each "
            "one, or say --separator if they are cut in the wrong places."
        )
    first = next(_records(layout), [])
    if [cell.strip().casefold() for cell in first] == [name.casefold() for name in names]:
        raise DataError(
            f"The first line of {layout.path} has the names already. Leave --columns out."
        )
    return dict(zip(names, types, strict=True))


def _cleaned(connection: duckdb.DuckDBPyConnection, layout: Layout, reading: Reading) -> Layout:
    """The layout with the missing markers as this file writes them, blanks and all."""
    bare = _literal(list({*reading.missing_markers, *([""] if reading.trim else [])}))
    markers = [
        f"list(DISTINCT {_name(name)}) FILTER (list_contains({bare}, trim({_name(name)})))"
        for name in layout.types
    ]
    lists = connection.sql(f"SELECT {', '.join(markers)} FROM {layout.texts()}").fetchall()[0]
    written = {text for texts in lists for text in texts or []} | {*reading.missing_markers, ""}
    cleaned = replace(layout, options=layout.options | {"nullstr": sorted(written)})
    said = ", ".join(
        f"{name} = {_literal(value)}"
        for name, value in cleaned.options.items()
        if "format" not in name
    )
    (row,) = (
        connection.sql(
            f"SELECT * FROM sniff_csv({_literal(str(layout.file))}, sample_size = -1, "
            f"header = {layout.header}, {said})"
        )
        .to_arrow_table()
        .to_pylist()
    )
    kinds = [column["type"] for column in row["Columns"]]
    formats = {"dateformat": row["DateFormat"], "timestampformat": row["TimestampFormat"]}
    return replace(
        cleaned,
        types=dict(zip(layout.types, kinds, strict=True)),
        options=cleaned.options | {name: text for name, text in formats.items() if text},
    )


def _chosen_types(
    connection: duckdb.DuckDBPyConnection, layout: Layout, reading: Reading
) -> dict[str, str]:
    """Columns that shall be texts, and Yes and No, stay as they are written."""
    types = {
        name: "VARCHAR" if name in reading.texts else kind for name, kind in layout.types.items()
    }
    said = [name for name, kind in types.items() if kind == "BOOLEAN"]
    if said:
        texts = [f"bool_and(lower(trim({_name(name)})) IN ('true', 'false'))" for name in said]
        null = replace(layout, options=layout.options).scan(dict.fromkeys(types, "VARCHAR"))
        plain = connection.sql(f"SELECT {', '.join(texts)} FROM {null}").fetchall()[0]
        types |= {name: "VARCHAR" for name, whole in zip(said, plain, strict=True) if not whole}
    return types


def _common_types(
    connection: duckdb.DuckDBPyConnection, layouts: Sequence[Layout], reading: Reading
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
    common = {}
    for name in first.types:
        kinds = {layout.types[name] for layout in layouts}
        if len(kinds) > 1:
            # what DuckDB makes of values of all of them together
            numbers = kinds <= {"BIGINT", "DOUBLE"}
            times = kinds <= {"DATE", "TIMESTAMP"}
            kinds = {"DOUBLE" if numbers else "TIMESTAMP" if times else "VARCHAR"}
        common[name] = kinds.pop()
    return common


def _records(layout: Layout, skip: bool = True) -> Iterator[list[str]]:
    """The cells of the file, line by line, by Python's reader."""
    quote, escape = str(layout.options["quote"]), str(layout.options["escape"])
    with layout.file.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for _ in range(int(layout.options.get("skip", 0)) if skip else 0):
            file.readline()
        yield from csv.reader(
            file,
            delimiter=str(layout.options["delim"]) or ",",
            quotechar=None if quote in ("", _EMPTY) else quote,
            quoting=csv.QUOTE_NONE if quote in ("", _EMPTY) else csv.QUOTE_MINIMAL,
            escapechar=escape if escape not in ("", _EMPTY, quote) else None,
        )


def _refuse_skipped(layout: Layout) -> None:
    """DuckDB skips lines until the rest fits together: no line may get lost that way."""
    with layout.file.open(encoding="utf-8-sig", errors="replace") as file:
        lines = [line.strip() for line in islice(file, int(layout.options.get("skip", 0)))]
    odd = [index for index, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if odd:
        raise _ragged(layout) or DataError(
            f"Line {odd[0]} of {layout.path} is not like the lines below it. Remove it, or say "
            "--separator."
        )


def _ragged(layout: Layout) -> DataError | None:
    """The first line that has another number of cells than the first."""
    first, before = 0, 1
    try:
        for cells in _records(layout, skip=False):
            line = before
            before = line + 1 + sum(cell.count("\n") for cell in cells)
            if not cells or (not first and cells[0].startswith("#")):
                continue
            first = first or len(cells)
            if len(cells) != first:
                return DataError(
                    f"Line {line:,} of {layout.path} has {_cells(len(cells))} where the first line "
                    f"has {first}. Repair the line, or say --separator or --quote if it is cut in "
                    "the wrong places."
                )
    except csv.Error:
        return DataError(
            f"A cell that begins in line {before:,} of {layout.path} does not end. Repair its "
            "quotes, or say --quote."
        )
    return None


def _likely_layout(path: Path, file: Path, reading: Reading) -> Layout:
    """How a file is probably written whose lines do not fit together."""
    with file.open(encoding="utf-8-sig", errors="replace") as opened:
        start = opened.readline()
    delim = reading.separator or max(",;\t|", key=start.count)
    options = {"delim": delim, "quote": reading.quote or '"', "escape": _EMPTY}
    return Layout(path, file, True, options, {})


def _cells(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


def _refuse_duplicates(layout: Layout) -> None:
    """DuckDB would rename the second one of two columns with the same name."""
    names = [name.strip() for name in next(_records(layout), [])]
    twice = sorted({repr(name) for name in names if names.count(name) > 1})
    if twice and len(names) == len(layout.types):
        raise DataError(
            f"{layout.path} has more than one column named {list_some(twice)}. Rename them so that "
            "every column has a name of its own."
        )


def _refuse_data_as_names(connection: duckdb.DuckDBPyConnection, layout: Layout) -> None:
    """A first line of data must not become names: messages and manifests show names."""

    def number(name: str) -> bool:
        return re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", name) is not None

    names = next(_records(layout), [])
    # names that repeat are renamed in the types; a number that repeats is no name at all
    data = any(number(name) for name in names if names.count(name) > 1) or any(
        number(name) and kind not in ("VARCHAR", "BOOLEAN") for name, kind in layout.types.items()
    )
    if not data:
        texts = [name for name, kind in layout.types.items() if kind == "VARCHAR"]
        seen = [f"bool_or({_name(name)} = {_literal(name)})" for name in texts] or ["false"]
        looked_at = f"(SELECT * FROM {layout.texts()} LIMIT {_LOOKED_AT})"
        row = connection.sql(f"SELECT {', '.join(seen)} FROM {looked_at}").fetchall()[0]
        data = any(row)
    if data:
        raise DataError(
            f"The first line of {layout.path} looks like data, not like the names of columns. Give "
            "names with --columns a,b,c, or say --header no (they are column1, column2 …), or "
            "--header yes if these are the names."
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """DuckDB's words about a file in ours; they would show what stands in its cells."""
    import duckdb

    with file_errors(path, "CSV"):
        try:
            yield
        except duckdb.Error as error:
            text = str(error)
            line = re.search(r"CSV Error on Line: (\d+)", text)
            where = f"line {int(line[1]):,}" if line else "some line"
            cells = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
            if cells is not None:
                raise DataError(
                    f"{where.capitalize()} of {path} has {_cells(int(cells[2]))} where the first "
                    f"line has {cells[1]}. Repair the line, or say --separator or --quote if it is "
                    "cut in the wrong places."
                ) from None
            if "quote" in text and line:
                raise DataError(
                    f"A quote in {where} of {path} has no end. Repair the line, or say --quote."
                ) from None
            if "Maximum line size" in text:
                raise DataError(
                    f"{where.capitalize()} of {path} is too long. Does a quote lack its end? "
                    "Repair the line, or say --quote."
                ) from None
            raise DataError(
                f"Cannot read {str(path)!r} as CSV: {where} does not fit the lines before it. Say "
                "--separator, --quote or --encoding if they were guessed wrong."
            ) from None


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    if isinstance(value, (bool, int)):
        return str(value)
    return "'" + ("" if value == _EMPTY else str(value).replace("'", "''")) + "'"
