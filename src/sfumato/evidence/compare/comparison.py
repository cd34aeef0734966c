"""What a comparison found: a row per candidate, the questions, and where the page is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.evidence.compare.candidates import Candidate
from sfumato.pages.charts import Figure
from sfumato.results import Cell, Result, ResultTable


@dataclass(frozen=True, eq=False)
class Row:
    """A candidate and what was measured; `result` is the JSON that `measure` made."""

    name: str
    candidate: Candidate
    result: Mapping[str, Any]
    ceiling: float | None  # the largest chance that the promise allows, among the values it covers
    uncovered: int | None  # values it promises nothing about; None where it is about sums

    @property
    def failed(self) -> str | None:
        """Why there is no release, where there is none."""
        return self.result.get("failed")

    @property
    def kept(self) -> bool | None:
        """Whether the audit found the promise kept; None where it could not look at everything."""
        return None if self.failed else self.result["audit"]["holds"]

    @property
    def error(self) -> Figure:
        """The median relative error of large counts."""
        median = self.result["accuracy"]["median_relative_error"]
        return Figure(*(_number(median[end]) for end in ("value", "low", "high")))

    @property
    def strongest(self) -> tuple[str, Figure] | None:
        """The attack that gains most, and what it gains."""
        advantages = [
            (attacked["attack"], Figure(**attacked["advantage"]))
            for attacked in self.result.get("attacks", [])
        ]
        return max(advantages, key=lambda pair: pair[1].value) if advantages else None


COLUMNS = (
    "candidate",
    "promise kept",
    "strongest attack",
    "advantage",
    "median error",
    "truth inside 95 %",
    "seconds",
)
PERCENT = frozenset(("advantage", "median error", "truth inside 95 %"))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """A finished comparison. `page`, `data` and `workload` are files in the folder `out`."""

    out: Path
    label: str
    people: int
    column: str
    source: str  # of the workload
    truth: Sequence[int]
    rows: Sequence[Row]
    seconds: float

    @property
    def page(self) -> Path:
        return self.out / "report.html"

    @property
    def data(self) -> Path:
        return self.out / "report.json"

    @property
    def workload(self) -> Path:
        return self.out / "workload.sql"

    @property
    def measured(self) -> list[Row]:
        """The candidates that could be published."""
        return [row for row in self.rows if not row.failed]

    def to_json(self) -> dict[str, Any]:
        return {
            "page": str(self.page),
            "data": str(self.data),
            "workload": {"file": str(self.workload), "source": self.source},
            "people": self.people,
            "column": self.column,
            "seconds": round(self.seconds, 2),
            "truth": list(self.truth),
            "candidates": [
                {
                    "name": row.name,
                    "candidate": str(row.candidate),
                    "ceiling": row.ceiling,
                    "uncovered": row.uncovered,
                    **row.result,
                }
                for row in self.rows
            ],
        }

    def summary(self) -> list[tuple[Cell, ...]]:
        """The cells of `COLUMNS`."""
        return [_cells(row) for row in self.rows]

    def parts(self) -> Sequence[ResultTable | str]:
        failed = [f"{row.name} was not published: {row.failed}" for row in self.rows if row.failed]
        return [self.table(), *failed, f"The report is {self.page}"]

    def table(self) -> ResultTable:
        return ResultTable(
            f"{len(self.rows)} candidate{'s' if len(self.rows) != 1 else ''}",
            f"{self.people:,} people, {len(self.truth):,} questions about {self.column}",
            COLUMNS,
            self.summary(),
            percent=PERCENT,
        )


def _cells(row: Row) -> tuple[Cell, ...]:
    if row.failed:
        return (row.name, "not published", None, None, None, None, None)
    strongest = row.strongest
    return (
        row.name,
        {True: "yes", False: "NO", None: "not seen"}[row.kept],
        None if strongest is None else strongest[0],
        None if strongest is None else strongest[1].value,
        row.error.value,
        row.result["accuracy"]["covered"],
        float(f"{sum(row.result['seconds'].values()):.3g}"),
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
