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
    """A question, its answer from the release, and the truth from the raw table."""

    sql: str
    columns: list[str]
    rows: list[dict[str, Any]]
    truths: list[dict[str, Any] | None]


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
            "questions": [{"sql": a.sql, "rows": a.rows, "truths": a.truths} for a in self.asked],
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
            lines += [asked.sql, *(f"    {line}" for line in _beside_truth(asked)), ""]
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
    asked = []
    for sql in QUESTIONS:
        answer = opened.sql(sql)
        asked.append(_with_truth(sql, list(answer.columns), answer.rows(), path))
    verdict = audit(table, folder / "release")
    report = write_report(
        folder / "release",
        table=table,
        out=folder / "report",
        targets=TARGETS,
        questions=ASKED,
        progress=progress,
    )
    return Demo(folder, path, publication, tuple(asked), verdict, report)


def _with_truth(sql: str, columns: list[str], rows: list[dict[str, Any]], path: Path) -> Asked:
    """The same SQL on the raw table; rows are matched by their keys."""
    import duckdb

    aggregates = [c for c in columns if f"{c}_stderr" in columns]
    keys = _keys(columns, aggregates)
    connection = duckdb.connect()
    connection.execute(
        "CREATE VIEW release AS SELECT * FROM read_parquet('" + str(path).replace("'", "''") + "')"
    )
    whole = sql.split(" ORDER BY ")[0]  # the release may rank groups otherwise than the truth
    true_rows = [
        dict(zip([*keys, *aggregates], row, strict=True))
        for row in connection.execute(whole).fetchall()
    ]
    by_key = {tuple(row[key] for key in keys): row for row in true_rows}
    truths = [by_key.get(tuple(row[key] for key in keys)) for row in rows]
    return Asked(sql, columns, rows, truths)


def _keys(columns: list[str], aggregates: list[str]) -> list[str]:
    """The columns of an answer that are neither an aggregate nor its error bar."""
    bars = {f"{name}{end}" for name in aggregates for end in ("", "_stderr", "_low", "_high")}
    return [column for column in columns if column not in bars]


def _beside_truth(asked: Asked) -> list[str]:
    lines = []
    aggregates = [c for c in asked.columns if f"{c}_stderr" in asked.columns]
    for row, truth in zip(asked.rows, asked.truths, strict=True):
        keys = [str(row[c]) for c in _keys(asked.columns, aggregates)]
        for name in aggregates:
            counts = name.lower().startswith("count")
            true = truth[name] if truth is not None else 0 if counts else None  # nobody is there
            if row[name] is None:
                lines.append(f"{' '.join(keys) + ': ' if keys else ''}no estimate; truth {true}")
                continue
            ends = (row[f"{name}_low"], row[f"{name}_high"])
            near = 1e-9 * max(map(abs, ends))  # a number that the release shows exactly
            inside = true is not None and ends[0] - near <= true <= ends[1] + near
            name_text = f"{' '.join(keys)}: " if keys else ""
            text = estimate_text(row[name], row[f"{name}_stderr"], *ends, 0.95, whole=counts)
            verdict = "inside" if inside else "outside"
            lines.append(f"{name_text}{text}; truth {0 if true is None else true:,.6g}, {verdict}")
    return lines
