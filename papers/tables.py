"""What a rerun of a paper gave: tables and series of points, with the paper's own beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.results import ResultTable, as_json

Points = Sequence[tuple[float, float]]


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
            "lines": {line: as_json(points) for line, points in self.lines.items()},
            "paper": {line: as_json(points) for line, points in self.paper.items()},
            "note": self.note,
        }


@dataclass(frozen=True)
class Reproduction:
    """What rerunning a paper gave."""

    paper: str  # the short name, as in `python -m papers NAME`
    title: str
    tables: Sequence[ResultTable] = ()
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

    def table(self, name: str) -> ResultTable:
        """The table of that name, such as "Table 3"."""
        return next(table for table in self.tables if table.name == name)
