"""What a check says: every measure at once, as text, JSON and HTML."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any

from sfumato.checks.requirements import RequirementResult
from sfumato.columns import Value, value_text, value_to_json
from sfumato.shown import Shown, html_paragraphs, html_table

SHOWN_VALUES = 12  # posteriors that the text shows, the largest rise first


@dataclass(frozen=True)
class Measure:
    """One figure, with the first row (from 0) of the class where it is worst."""

    name: str
    figure: float | int | None
    row: int | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "figure": self.figure, "row": self.row, "note": self.note}


@dataclass(frozen=True)
class Posterior:
    """The share of a value in the table and its largest share in a class."""

    value: Value
    prior: float
    largest: float
    row: int

    def to_json(self) -> dict[str, Any]:
        return {
            "value": value_to_json(self.value),
            "prior": self.prior,
            "largest": self.largest,
            "row": self.row,
        }


@dataclass(frozen=True)
class ColumnCheck:
    """The measures of one sensitive column; `recursive` maps l to the c that must be exceeded."""

    column: str
    measures: tuple[Measure, ...]
    recursive: dict[int, float]
    posteriors: tuple[Posterior, ...]

    def __getitem__(self, name: str) -> float | int | None:
        """The figure of a measure by name.

        >>> ColumnCheck("s", (Measure("k-anonymity", 2, 0),), {}, ())["k-anonymity"]
        2
        """
        return next(measure.figure for measure in self.measures if measure.name == name)

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "measures": [measure.to_json() for measure in self.measures],
            "recursive": {str(l): c for l, c in self.recursive.items()},  # noqa: E741
            "posteriors": [posterior.to_json() for posterior in self.posteriors],
        }


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """All measures of a table and the requirements it was held to."""

    label: str
    rows: int
    quasi: tuple[str, ...]
    classes: int
    alone: int  # rows whose quasi columns nobody shares
    columns: tuple[ColumnCheck, ...]
    requirements: tuple[RequirementResult, ...]
    notes: tuple[str, ...] = ()  # what to look at before the figures are believed

    @property
    def holds(self) -> bool:
        return all(requirement.holds for requirement in self.requirements)

    def __getitem__(self, column: str) -> ColumnCheck:
        return next(checked for checked in self.columns if checked.column == column)

    def to_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "rows": self.rows,
            "quasi": list(self.quasi),
            "classes": self.classes,
            "alone": self.alone,
            "columns": [column.to_json() for column in self.columns],
            "requirements": [requirement.to_json() for requirement in self.requirements],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self._head()]
        for checked in self.columns:
            lines.append(f"Column {checked.column!r}")
            for measure in checked.measures:
                where = "" if measure.row is None else f"   row {measure.row:,}"
                note = f"   {measure.note}" if measure.note else ""
                lines.append(f"  {measure.name:<32}{figure_text(measure.figure):>10}{where}{note}")
            lines += [
                f"  recursive l-diversity, l = {l:<7}{'c > ' + figure_text(c):>10}"
                for l, c in list(checked.recursive.items())[:SHOWN_VALUES]  # noqa: E741
            ]
            lines.append("  largest posterior per value")
            for posterior in _most_raised(checked)[:SHOWN_VALUES]:
                lines.append(
                    f"    {value_text(posterior.value):<30}{figure_text(posterior.prior):>10} -> "
                    f"{figure_text(posterior.largest)}   row {posterior.row:,}"
                )
            if len(checked.posteriors) > SHOWN_VALUES:
                lines.append(f"    and {len(checked.posteriors) - SHOWN_VALUES} more (--json)")
        lines += [requirement_text(held) for held in self.requirements]
        lines += self.notes
        return "\n".join(lines)

    def _head(self) -> str:
        return (
            f"{self.label}: {self.rows:,} rows, {self.classes:,} classes of equal "
            f"{', '.join(self.quasi) or '(no quasi columns)'}; {self.alone:,} rows stand alone"
        )

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self._head())}</p>"]
        for checked in self.columns:
            rows = [
                (m.name, figure_text(m.figure), "" if m.row is None else f"{m.row:,}", m.note)
                for m in checked.measures
            ]
            rows += [
                (f"recursive l-diversity, l = {l}", f"c > {figure_text(c)}", "", "")
                for l, c in checked.recursive.items()  # noqa: E741
            ]
            parts.append(f"<h2>{html.escape(checked.column)}</h2>")
            parts.append(html_table(("measure", "figure", "row", ""), rows))
            values = [
                (value_text(p.value), figure_text(p.prior), figure_text(p.largest), f"{p.row:,}")
                for p in _most_raised(checked)
            ]
            parts.append(html_table(("value", "share", "largest posterior", "row"), values))
        if self.requirements:
            parts.append("<h2>Requirements</h2>")
            held = [(requirement_text(requirement),) for requirement in self.requirements]
            parts.append(html_table(("",), held))
        parts.append(html_paragraphs(self.notes))
        return "".join(parts)

    def to_html(self) -> str:
        """A page that stands by itself."""
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>sfumato check'
            "</title><style>body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
            "td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}</style></head>"
            f"<body><h1>sfumato check</h1>{self._repr_html_()}</body></html>\n"
        )


def figure_text(figure: float | int | None) -> str:
    """A figure as people read it.

    >>> figure_text(12345), figure_text(0.123456), figure_text(float("inf")), figure_text(None)
    ('12,345', '0.1235', 'infinite', 'no order')
    """
    if figure is None:
        return "no order"
    if isinstance(figure, int):
        return f"{figure:,}"
    return "infinite" if math.isinf(figure) else f"{figure:.4g}"


def _most_raised(checked: ColumnCheck) -> list[Posterior]:
    return sorted(checked.posteriors, key=lambda p: p.largest / p.prior, reverse=True)


def requirement_text(held: RequirementResult) -> str:
    """One line: held or not, by how much, and where the worst case is.

    >>> print(requirement_text(RequirementResult("k-anonymity(2)", "s", False, 1, 2, 7)))
    FAILS k-anonymity(2) for 's': 1 (limit 2); row 7
    """
    where = "" if held.row is None else f"; row {held.row:,}"
    note = f"; {held.note}" if held.note else ""
    return (
        f"{'ok   ' if held.holds else 'FAILS'} {held.requirement} for {held.column!r}: "
        f"{figure_text(held.measured)} (limit {figure_text(held.limit)}){note}{where}"
    )
