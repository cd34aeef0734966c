"""Workbooks and files of statistics programs, through readers that others keep."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import list_some
from sfumato.errors import DataError, UsageError
from sfumato.table.reading import Reading

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STATISTICS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def read_workbook(path: Path, reading: Reading) -> pa.Table:
    """One sheet, whole: a workbook has at most a million rows."""
    reading.refuse(str(path), "a workbook", ("header", "columns", "sheet"))
    calamine = _extra("python_calamine", path)
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
    except (calamine.CalamineError, OSError):
        raise DataError(f"Cannot read {str(path)!r} as a workbook.") from None
    names = book.sheet_names
    if reading.sheet and reading.sheet not in names:
        raise DataError(
            f"{path} has no sheet {reading.sheet!r}. The sheets are: {list_some(names)}."
        )
    rows = book.get_sheet_by_name(reading.sheet or names[0]).to_python(skip_empty_area=True)
    if not rows:
        raise DataError(f"The sheet {(reading.sheet or names[0])!r} of {path} is empty.")
    if reading.columns or reading.header == "no":
        head: Sequence[Any] = reading.columns or [f"column{i + 1}" for i in range(len(rows[0]))]
    else:
        head, rows = rows[0], rows[1:]
        if reading.header == "guess" and any(not isinstance(cell, str) for cell in head):
            raise DataError(
                f"The first line of {path} looks like data, not like the names of columns. Give "
                "names with --columns a,b,c, or say --header no (they are column1, column2 …), or "
                "--header yes if these are the names."
            )
    width = max(map(len, rows), default=len(head))
    if width != len(head):
        raise DataError(f"{path} has {width} columns, but {len(head)} names. Name each one.")
    cells = zip(*rows, strict=True) if rows else [()] * len(head)
    columns = [
        _column(list(cell), reading, str(name)) for name, cell in zip(head, cells, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=[str(name).strip() for name in head])


def _column(cells: list[Any], reading: Reading, name: str) -> pa.Array:
    """The cells of a column in one type; texts where they are of several."""
    values = [None if _missing(cell, reading) else cell for cell in cells]
    kinds = {type(cell) for cell in values if cell is not None}
    if name in reading.texts or kinds not in (
        {float}, {int}, {int, float}, {bool}, {datetime.date}, {datetime.datetime},
        {datetime.date, datetime.datetime}, {datetime.time},
    ):  # fmt: skip
        return pa.array([None if cell is None else _text(cell) for cell in values], pa.string())
    if kinds <= {int, float}:
        whole = all(cell is None or float(cell).is_integer() for cell in values)
        if whole:
            return pa.array([None if cell is None else int(cell) for cell in values], pa.int64())
        return pa.array([None if cell is None else float(cell) for cell in values], pa.float64())
    if kinds == {datetime.date, datetime.datetime}:
        values = [
            datetime.datetime.combine(cell, datetime.time())
            if type(cell) is datetime.date
            else cell
            for cell in values
        ]
    return pa.array(values)


def _missing(cell: Any, reading: Reading) -> bool:
    return (
        cell is None
        or cell == ""
        or (isinstance(cell, str) and cell.strip() in reading.missing_markers)
    )


def _text(cell: Any) -> str:
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell)


def read_statistics(path: Path, reading: Reading) -> pa.Table:
    """An SPSS, SAS or Stata file, whole; values with labels are shown by their labels."""
    reading.refuse(str(path), "a file of a statistics program", ("encoding",))
    pyreadstat = _extra("pyreadstat", path)
    reader = getattr(pyreadstat, STATISTICS[path.suffix.lower()])
    try:
        columns, meta = reader(
            str(path),
            output_format="dict",
            **({"encoding": reading.encoding} if reading.encoding else {}),
        )
    except (pyreadstat._readstat_parser.ReadstatError, pyreadstat._readstat_parser.PyreadstatError):
        raise DataError(
            f"Cannot read {str(path)!r}: it is damaged, or not what its ending says."
        ) from None
    arrays = []
    for name in meta.column_names:
        column = columns[name]
        cells = column.tolist() if isinstance(column, np.ndarray) else list(column)
        nothing = [cell != cell for cell in cells]  # not a number
        labels = meta.variable_value_labels.get(name, {})
        values = [
            None if gone else labels.get(cell, cell)
            for cell, gone in zip(cells, nothing, strict=True)
        ]
        arrays.append(_column(values, reading, name))
    return pa.Table.from_arrays(arrays, names=list(meta.column_names))


def _extra(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"To read {str(path)!r}, install the extra: pip install 'sfumato[files]'."
        ) from None
