"""The demonstration: generate, publish, ask, audit, attack, and report."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.audits import Verdict, audit
from sfumato.datasets import GENERATORS, write_dataset
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.publication import Publication
from sfumato.engines.publishing import publish
from sfumato.errors import DataError
from sfumato.evidence.report import Report, write_report
from sfumato.guarantees import DEFAULT_PROMISE
from sfumato.queries import open_release
from sfumato.queries.answer import estimate_text
from sfumato.queries.opened import OpenedRelease
from sfumato.results import as_json
from sfumato.scratch import scratch_database
from sfumato.table import read

GUARANTEE = DEFAULT_PROMISE  # what `sfumato init` proposes
TARGETS, ASKED = 1000, 300  # people attacked and questions asked for the report
MARK = ".sfumato-demo"  # only a folder that a demo made is emptied by the next one

QUESTIONS = (
    "SELECT COUNT(*) FROM release WHERE occupation = 'registered nurse'",
    "SELECT COUNT(*) FROM release WHERE occupation = 'registered nurse' AND gender = 'female' "
    "AND age BETWEEN 30 AND 50",
    "SELECT AVG(age) FROM release WHERE occupation = 'registered nurse'",
    "SELECT gender, COUNT(*) FROM release WHERE occupation = 'registered nurse' OR education >= 16 "
    "GROUP BY gender ORDER BY gender",
    "SELECT occupation, COUNT(*) FROM release WHERE age < 40 GROUP BY occupation "
    "ORDER BY COUNT(*) DESC LIMIT 5",
)


NEXT = (
    "With your own file:",
    "  sfumato init people.csv       look at it and write a proposal, sfumato.toml",
    "  sfumato publish               publish it as the proposal says",
    "  sfumato audit                 check the release against the file",
)


@dataclass(frozen=True)
class Asked:
    """A question, its answer from the release, the truth from the raw table, and both as lines."""

    sql: str
    rows: list[dict[str, Any]]
    truths: list[dict[str, Any]]
    lines: list[str]


@dataclass(frozen=True)
class Demo:
    """Everything the demonstration made."""

    folder: Path
    table: Path
    publication: Publication
    asked: tuple[Asked, ...]
    verdict: Verdict
    report: Report

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "table": str(self.table),
            "report": str(self.report.page),
            "publication": self.publication.to_json(),
            "questions": [as_json({**vars(asked), "lines": None}) for asked in self.asked],
            "audit": self.verdict.to_json(),
        }

    def __str__(self) -> str:
        manifest = self.publication.manifest
        lines = [
            f"Generated {self.publication.rows:,} people: {self.table}",
            f"Published under {manifest.guarantee} by {manifest.mechanism}, in "
            f"{self.publication.seconds:.1f} s: {self.publication.release}",
            "",
        ]
        for asked in self.asked:
            lines += [asked.sql, *(f"    {line}" for line in asked.lines), ""]
        lines += [str(self.verdict), "", f"The report is {self.report.page}", "", *NEXT]
        return "\n".join(lines)


def run_demo(folder: Path, rows: int, progress: Progress = no_progress) -> Demo:
    """Do the whole round in `folder`, which a further run replaces."""
    if folder.exists():
        if not (folder / MARK).is_file():
            raise DataError(
                f"{str(folder)!r} exists and was not made by a demo. Choose another --out."
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    path = folder / "people.parquet"
    progress("generating", 0, 0)
    write_dataset("census", rows, path, 0)
    roles = GENERATORS["census"]
    table = read(path, quasi=roles.quasi, sensitive=roles.sensitive)
    publication = publish(table, GUARANTEE, to=folder / "release", progress=progress)
    opened = open_release(folder / "release")
    with scratch_database() as raw:
        raw.from_parquet(str(path)).create_view("release")
        asked = tuple(_ask(sql, opened, raw) for sql in QUESTIONS)
    verdict = audit(table, folder / "release")
    report = write_report(
        folder / "release",
        table=table,
        out=folder / "report",
        targets=TARGETS,
        questions=ASKED,
        progress=progress,
    )
    return Demo(folder, path, publication, asked, verdict, report)


def _ask(sql: str, release: OpenedRelease, raw: Any) -> Asked:
    """The same SQL on the release and on the raw table; rows are matched by their keys."""
    answer = release.sql(sql)
    rows, aggregates = answer.rows(), answer.aggregates
    bars = {f"{name}{part}" for name in aggregates for part in ("", "_stderr", "_low", "_high")}
    keys = [column for column in answer.columns if column not in bars]
    whole = sql.split(" ORDER BY ")[0]  # the release may rank groups otherwise than the truth
    nobody = {name: 0 if name.lower().startswith("count") else None for name in aggregates}
    by_key = {
        row[: len(keys)]: dict(zip(aggregates, row[len(keys) :], strict=True))
        for row in raw.execute(whole).fetchall()
    }
    truths = [by_key.get(tuple(row[key] for key in keys), nobody) for row in rows]
    lines = [
        " ".join(str(row[key]) for key in keys) + (": " if keys else "") + _beside(row, name, truth)
        for row, truth in zip(rows, truths, strict=True)
        for name in aggregates
    ]
    return Asked(sql, rows, truths, lines)


def _beside(row: dict[str, Any], name: str, truths: dict[str, Any]) -> str:
    """An estimate with its interval, the truth, and whether the one holds the other."""
    true, value = truths[name], row[name]
    if value is None or true is None:
        return f"{'no estimate' if value is None else f'{value:,.6g}'}; truth {true}"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    near = 1e-9 * max(abs(low), abs(high))  # a number that the release shows exactly
    verdict = "inside" if low - near <= true <= high + near else "outside"
    whole = name.lower().startswith("count")
    text = estimate_text(value, row[f"{name}_stderr"], low, high, 0.95, whole=whole)
    return f"{text}; truth {true:,.6g}, {verdict}"
