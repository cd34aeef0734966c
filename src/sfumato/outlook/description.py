"""What `describe` says: tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.results import Result, ResultTable


@dataclass(frozen=True, repr=False, eq=False)
class Description(Result):
    """Tables and sentences about a table of people, or about a release of one."""

    rows: int
    tables: Sequence[ResultTable]
    notes: Sequence[str]

    def parts(self) -> Sequence[ResultTable | str]:
        return [*self.tables, *self.notes]
