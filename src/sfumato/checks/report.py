"""What a check says: every measure at once, and whether limits were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sfumato.checks.measures import RequirementResult
from sfumato.columns import Value, value_text
from sfumato.results import Cell, Result, ResultTable, cell_text

SHOWN_VALUES = 12  # posteriors that are shown, the largest rise first; JSON has all


@dataclass(frozen=True)
class TableMeasure:
    """One figure, with the first row (from 0) of the class where it is worst."""

    name: str
    figure: float | int
    row: int
    note: str = ""


@dataclass(frozen=True)
class Posterior:
    """The share of a value in the table and its largest share in a class."""

    value: Value
    prior: float
    largest: float
    row: int


@dataclass(frozen=True)
class ColumnCheck:
    """The measures of one sensitive column."""

    column: str
    measures: tuple[TableMeasure, ...]
    posteriors: tuple[Posterior, ...]

    def __getitem__(self, name: str) -> float | int:
        """The figure of a measure by name.

        >>> ColumnCheck("s", (TableMeasure("k-anonymity", 2, 0),), ())["k-anonymity"]
        2
        """
        return next(measure.figure for measure in self.measures if measure.name == name)

    def tables(self) -> list[ResultTable]:
        """The measures, and the values whose posterior rises most."""
        measures: list[tuple[Cell, ...]] = [
            (m.name, m.figure, m.row, m.note) for m in self.measures
        ]
        raised = sorted(self.posteriors, key=lambda p: p.largest / p.prior, reverse=True)
        left = len(raised) - SHOWN_VALUES
        return [
            ResultTable("", f"Column {self.column!r}", ("measure", "figure", "row", ""), measures),
            ResultTable(
                "",
                "Largest posterior of a value",
                ("value", "share", "largest", "row"),
                [(value_text(p.value), p.prior, p.largest, p.row) for p in raised[:SHOWN_VALUES]],
                note=f"and {left:,} more values" if left > 0 else "",
                percent=("share", "largest"),
            ),
        ]


@dataclass(frozen=True, repr=False)
class Check(Result):
    """All measures of a table and the requirements it was held to."""

    label: str
    rows: int
    quasi: tuple[str, ...]
    classes: int
    alone: int  # rows whose quasi columns nobody shares
    columns: tuple[ColumnCheck, ...]
    requirements: tuple[RequirementResult, ...]
    notes: tuple[str, ...] = ()  # what to look at before the figures are believed

    more: ClassVar[tuple[str, ...]] = ("holds",)
    kept: ClassVar[tuple[str, ...]] = ("label",)

    @property
    def holds(self) -> bool:
        return all(requirement.holds for requirement in self.requirements)

    def __getitem__(self, column: str) -> ColumnCheck:
        return next(checked for checked in self.columns if checked.column == column)

    def parts(self) -> Sequence[ResultTable | str]:
        head = (
            f"{self.label}: {self.rows:,} rows, {self.classes:,} classes of equal "
            f"{', '.join(self.quasi) or '(no quasi-identifiers)'}; {self.alone:,} rows stand alone"
        )
        tables = [table for checked in self.columns for table in checked.tables()]
        return [head, *tables, *map(requirement_text, self.requirements), *self.notes]


def requirement_text(held: RequirementResult) -> str:
    """One line: held or not, by how much, and where the worst case is.

    >>> print(requirement_text(RequirementResult("k-anonymity(2)", "s", False, 1, 2, 7)))
    FAILS k-anonymity(2) for 's': 1 (limit 2); row 7
    """
    where = "" if held.row is None else f"; row {held.row:,}"
    note = f"; {held.note}" if held.note else ""
    return (
        f"{'ok   ' if held.holds else 'FAILS'} {held.requirement} for {held.column!r}: "
        f"{cell_text(held.measured)} (limit {cell_text(held.limit)}){note}{where}"
    )
