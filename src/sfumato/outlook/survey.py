"""A first look at a table, before its columns have roles: types, missing values, histograms.

Three passes at most, in DuckDB under its memory limit, whatever the number of rows. Histograms
count values; single records are never shown, and a column that nearly identifies people shows no
values at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import DataError
from sfumato.outlook.description import Description
from sfumato.outlook.survey_passes import (
    Bars,
    first_pass,
    refuse_bombs,
    second_pass,
    third_pass,
)
from sfumato.pages.tables import ReportTable
from sfumato.table.reading import Reading
from sfumato.table.sources import find_source

MOST_COLUMNS = 1000
FEW_VALUES = 50  # a text column with so few values may be the sensitive one


@dataclass(frozen=True)
class Suggestion:
    """A role that a column may have: marked as a guess, never taken by itself."""

    role: str
    why: str


@dataclass(frozen=True)
class SurveyedColumn:
    """What a first look tells of a column; `exact` is False where `distinct` is an estimate."""

    name: str
    type: str
    nulls: int
    distinct: int
    exact: bool
    suggestion: Suggestion | None
    histogram: Bars

    def to_json(self) -> dict[str, Any]:
        suggested = self.suggestion
        return {
            "name": self.name,
            "type": self.type,
            "nulls": self.nulls,
            "distinct": self.distinct,
            "exact": self.exact,
            "suggestion": None
            if suggested is None
            else {"role": suggested.role, "why": suggested.why},
            "histogram": {
                "kind": self.histogram.kind,
                "bars": [{"label": label, "count": count} for label, count in self.histogram.bars],
                "others": self.histogram.others,
            },
        }


@dataclass(frozen=True, repr=False, eq=False)
class Survey(Description):
    """A table as it is found."""

    label: str
    columns: tuple[SurveyedColumn, ...]

    @classmethod
    def of(cls, label: str, rows: int, columns: tuple[SurveyedColumn, ...]) -> Survey:
        return cls(rows, (_table(label, rows, columns),), (), label, columns)

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "rows": self.rows,
            "columns": [column.to_json() for column in self.columns],
        }


def _table(label: str, rows: int, columns: tuple[SurveyedColumn, ...]) -> ReportTable:
    return ReportTable(
        "Columns",
        f"{label}, {rows:,} rows",
        ("column", "type", "missing", "different", "perhaps", "why"),
        [
            (
                column.name,
                column.type,
                column.nulls,
                f"{'' if column.exact else 'about '}{column.distinct:,}",
                "" if column.suggestion is None else f"{column.suggestion.role}?",
                "" if column.suggestion is None else column.suggestion.why,
            )
            for column in columns
        ],
        note="Roles are yours to give: --quasi, --sensitive, --key, --drop. Nothing is taken "
        "from the suggestions.",
    )


def survey(
    origin: Any, reading: Reading | None = None, *, progress: Progress = no_progress
) -> Survey:
    """Look at every column of a table.

    >>> people = pa.table({"name": ["Ann", "Bob", "Cid"], "disease": ["flu", None, "flu"]})
    >>> for column in survey(people).columns:
    ...     print(column.name, column.nulls, column.distinct, column.suggestion.role)
    name 0 3 key
    disease 1 1 sensitive
    """
    source = find_source(origin, reading)
    refuse_bombs(source)
    names = source.schema.names
    if len(names) > MOST_COLUMNS or len(set(names)) != len(names):
        raise DataError(
            f"{source.label} has {len(names):,} columns"
            + (
                f"; at most {MOST_COLUMNS:,} can be shown. Keep those that you need."
                if len(names) > MOST_COLUMNS
                else ", some with the same name. Rename them so that each has one of its own."
            )
        )
    rows, seen = first_pass(source, progress)
    if rows == 0:
        raise DataError(f"{source.label} has no rows.")
    bars = second_pass(source, seen, progress)
    unique = third_pass(source, seen, progress)
    columns = []
    for place, name in enumerate(names):
        summary, shown = seen[place], bars.get(place)
        nulls = rows - summary.present
        exact, distinct = place in unique, unique.get(place, summary.distinct)
        columns.append(
            SurveyedColumn(
                name,
                str(source.schema.field(name).type),
                nulls,
                distinct,
                exact,
                _suggested(source.schema.field(name).type, summary.present, distinct, exact),
                shown or Bars("values", (), summary.present),
            )
        )
    return Survey.of(source.label, rows, tuple(columns))


def _suggested(kind: pa.DataType, present: int, distinct: int, exact: bool) -> Suggestion | None:
    if not present:
        return Suggestion("drop", "Every value is missing.")
    identifier = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_binary(kind)
    if exact and distinct == present and present > 1 and identifier:
        return Suggestion("key", "No two records have the same value, so it may name a person.")
    text = pa.types.is_string(kind) or pa.types.is_boolean(kind)
    if text and exact and distinct <= FEW_VALUES:
        values = "1 different value" if distinct == 1 else f"{distinct} different values"
        return Suggestion("sensitive", f"It has only {values}, so it could be a sensitive one.")
    return None
