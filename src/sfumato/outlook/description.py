"""What `describe` says: tables and sentences, for the eye, for a notebook and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.pages.tables import ReportTable
from sfumato.shown import Shown, html_paragraphs


@dataclass(frozen=True, repr=False, eq=False)
class Description(Shown):
    """Tables and sentences about a table of people, or about a release of one."""

    rows: int
    tables: Sequence[ReportTable]
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "tables": [table.to_json() for table in self.tables],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n\n".join([*(table.to_text() for table in self.tables), *self.notes])

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables) + html_paragraphs(self.notes)
