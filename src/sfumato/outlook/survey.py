"""A first look at a table, before its columns have roles: types, missing values, histograms.

Two passes, in DuckDB under its memory limit, whatever the number of rows. Histograms
count values; single records are never shown, and a column that nearly identifies people shows no
values at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import DataError
from sfumato.outlook.description import Description
from sfumato.outlook.suggestions import Looked, Suggestion, suggest
from sfumato.outlook.survey_passes import Bars, first_pass, refuse_bombs, second_pass
from sfumato.results import ResultTable
from sfumato.table.reading import Reading
from sfumato.table.sources import find_source

MOST_COLUMNS = 1000


@dataclass(frozen=True)
class SurveyedColumn:
    """What a first look tells of a column; `exact` is False where `distinct` is an estimate."""

    name: str
    type: str
    nulls: int
    distinct: int
    exact: bool
    suggestion: Suggestion
    histogram: Bars
    markers: tuple[str, ...] = ()  # texts that may stand for what is not known

    def to_json(self) -> dict[str, Any]:
        suggested = self.suggestion
        return {
            "name": self.name,
            "type": self.type,
            "nulls": self.nulls,
            "distinct": self.distinct,
            "exact": self.exact,
            "suggestion": {"role": suggested.role, "why": suggested.why},
            "histogram": {
                "kind": self.histogram.kind,
                "bars": [{"label": label, "count": count} for label, count in self.histogram.bars],
                "others": self.histogram.others,
            },
            "markers": list(self.markers),
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


def _table(label: str, rows: int, columns: tuple[SurveyedColumn, ...]) -> ResultTable:
    return ResultTable(
        "Columns",
        f"{label}, {rows:,} rows",
        ("column", "type", "missing", "different", "perhaps", "why"),
        [
            (
                column.name,
                column.type,
                column.nulls,
                f"{'' if column.exact else 'about '}{column.distinct:,}",
                f"{column.suggestion.role}?",
                column.suggestion.why,
            )
            for column in columns
        ],
        note="Roles are yours to give: --quasi, --sensitive, --person, --key, --drop. Nothing is "
        "taken from the suggestions.",
    )


def survey(
    origin: Any, reading: Reading | None = None, *, progress: Progress = no_progress
) -> Survey:
    """Look at every column of a table.

    >>> import pyarrow as pa
    >>> ills = ["flu", None, "cold", "flu"]
    >>> people = pa.table({"name": ["Ann", "Bob", "Cid", "Dan"], "disease": ills})
    >>> for column in survey(people).columns:
    ...     print(column.name, column.nulls, column.distinct, column.suggestion.role)
    name 0 4 key
    disease 1 2 sensitive
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
    bars, unique = second_pass(source, seen, progress)
    looked = [
        Looked(
            name,
            source.schema.field(name).type,
            rows,
            seen[index].present,
            unique.get(index, seen[index].distinct),
            index in unique,
            seen[index].low,
            seen[index].high,
            bars[index].bars if index in bars and bars[index].kind == "values" else (),
        )
        for index, name in enumerate(names)
    ]
    columns = [
        SurveyedColumn(
            column.name,
            str(column.type),
            rows - column.present,
            column.distinct,
            column.exact,
            suggestion,
            bars.get(index) or Bars("values", (), column.present),
            tuple(sorted(seen[index].markers or ())),
        )
        for index, (column, suggestion) in enumerate(zip(looked, suggest(looked), strict=True))
    ]
    return Survey.of(source.label, rows, tuple(columns))
