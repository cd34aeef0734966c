"""What a comparison found: a row per candidate, the questions, and where the page is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.evidence.compare.candidates import Candidate
from sfumato.results import Cell, Interval, Result, ResultTable, Tone


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
    def error(self) -> Interval:
        """The median relative error of large counts."""
        return figure(self.result["accuracy"]["median_relative_error"])

    @property
    def advantages(self) -> dict[str, Interval]:
        """What each attack gains; of several columns, by both."""
        attacks = self.result.get("attacks", [])
        several = len({attack["column"] for attack in attacks}) > 1
        return {
            f"{a['attack']} on {a['column']}" if several else a["attack"]: figure(a["advantage"])
            for a in attacks
        }

    @property
    def strongest(self) -> tuple[str, Interval] | None:
        """The attack that gains most, and what it gains."""
        return max(self.advantages.items(), key=lambda pair: pair[1].value, default=None)

    def cells(self) -> tuple[Cell, ...]:
        if self.failed:
            return (self.name, "not published", *[None] * 6)
        attack, advantage = self.strongest or (None, None)
        return (
            self.name,
            {True: "yes", False: "NO", None: "not seen"}[self.kept],
            attack,
            None if advantage is None else advantage.value,
            self.error.value,
            self.result["accuracy"]["median_relative_width"],
            self.result["accuracy"]["covered"],
            float(f"{sum(self.result['seconds'].values()):.3g}"),
        )


def figure(described: Mapping[str, float | None]) -> Interval:
    """A figure from its JSON."""
    ends = (described[end] for end in ("value", "low", "high"))
    return Interval(*(float("nan") if end is None else end for end in ends))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """A finished comparison. `page`, `data` and `workload` are files in the folder `out`."""

    out: Path
    label: str
    people: int
    columns: tuple[str, ...]
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
            "columns": list(self.columns),
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

    def parts(self) -> Sequence[ResultTable | str]:
        failed = [f"{row.name} was not published: {row.failed}" for row in self.rows if row.failed]
        return [self.table(), *failed, f"The report is {self.page}"]

    def table(self) -> ResultTable:
        shares = ("advantage", "median error", "width of 95 %", "truth inside 95 %")
        marks: dict[int, Tone] = {
            number: "private" if row.failed else "bad"
            for number, row in enumerate(self.rows)
            if row.failed or row.kept is False
        }
        return ResultTable(
            f"{len(self.rows)} candidate{'s' if len(self.rows) != 1 else ''}",
            f"{self.people:,} people, {len(self.truth):,} questions about "
            f"{' and '.join(self.columns)}",
            ("candidate", "promise kept", "strongest attack", *shares, "seconds"),
            [row.cells() for row in self.rows],
            percent=shares,
            marks=marks,
        )
