"""The shape of a report: tables, series and notes, with a paper's figures beside ours.

A `Reproduction` is plain data. `to_json` is what `--json` prints, `to_text` what a terminal shows;
`papers.page` makes the self-contained page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.shown import html_table

Cell = str | int | float | None
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class ReportTable:
    """A table; `paper` names those of its columns that repeat what the paper prints.

    >>> print(ReportTable("Table 3", "Retention", ("L", "ours", "paper"), [(6, 2.85, 2.9)],
    ...                   paper=("paper",)).to_text())
    Table 3. Retention
    L  ours  paper
    6  2.85  2.9
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    paper: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.name
        assert set(self.paper) <= set(self.columns), self.name

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "paper": list(self.paper),
            "rows": [[finite(cell) for cell in row] for row in self.rows],
            "note": self.note,
        }

    def to_text(self) -> str:
        lines = [self.columns, *(tuple(cell_text(cell) for cell in row) for row in self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.columns))]
        body = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([f"{self.name}. {self.title}", *body, *([self.note] if self.note else [])])

    def to_html(self) -> str:
        rows = [[cell_text(cell) for cell in row] for row in self.rows]
        return html_table(self.columns, rows, title=f"{self.name}. {self.title}", note=self.note)


@dataclass(frozen=True)
class Series:
    """The lines of one chart; `paper` holds the paper's lines where it prints their figures."""

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    paper: Mapping[str, Points] = field(default_factory=dict)
    marks: bool = False  # a cloud of points instead of lines
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "x": self.x,
            "y": self.y,
            "lines": {line: _points(points) for line, points in self.lines.items()},
            "paper": {line: _points(points) for line, points in self.paper.items()},
            "note": self.note,
        }


@dataclass(frozen=True)
class Reproduction:
    """What rerunning a paper gave."""

    paper: str  # the short name, as in `python -m papers NAME`
    title: str
    tables: Sequence[ReportTable] = ()
    series: Sequence[Series] = ()
    notes: Sequence[str] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "paper": self.paper,
            "title": self.title,
            "tables": [table.to_json() for table in self.tables],
            "series": [series.to_json() for series in self.series],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 2),
        }

    def to_text(self) -> str:
        parts = [self.title, *(table.to_text() for table in self.tables), *self.notes]
        return "\n\n".join(parts)

    def table(self, name: str) -> ReportTable:
        """The table of that name, such as "Table 3"."""
        return next(table for table in self.tables if table.name == name)


def finite(cell: Cell) -> Cell:
    """JSON has no infinities and no NaN: they become null.

    >>> finite(float("nan")), finite(1.5)
    (None, 1.5)
    """
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _points(points: Points) -> list[list[Cell]]:
    return [[finite(x), finite(y)] for x, y in points]


def cell_text(cell: Cell) -> str:
    """A cell as people read it.

    >>> cell_text(None), cell_text(0.123456), cell_text(12345.6), cell_text("x")
    ('–', '0.1235', '12345.6', 'x')
    """
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.4g}" if abs(cell) < 10_000 else f"{cell:.1f}"
    return str(cell)
