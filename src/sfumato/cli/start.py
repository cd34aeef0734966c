"""init, publish, query, audit, report."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from sfumato.cli import options
from sfumato.cli.app import JOB
from sfumato.cli.options import Flag, Shown, command
from sfumato.errors import DataError, UsageError
from sfumato.limits import MAX_ROWS, limited
from sfumato.pace import Progress
from sfumato.table_options import pairs

_PROMISE, _OUTPUT, _RESOURCES = "Promise", "Output", "Resources"  # groups of the help
_RECEIPT = Flag("receipt", Path, "What 'publish --receipt' kept: make it all again.")


@command(
    options.TABLE,
    Flag("out", Path, "The file to write.", Path(JOB)),
    Flag("yes", bool, "Write it without asking.", False, "--yes"),
    stage="looking",
)
def init(table: str, out: Path, yes: bool, progress: Progress) -> Shown:
    """Look at a file and propose roles, recodes and a promise."""
    from sfumato.outlook.proposal import propose

    if out.exists():
        raise DataError(
            f"{str(out)!r} exists already. Remove it first, or name another with --out."
        )
    proposal = propose(table, progress=progress)

    def write(as_json: bool) -> None:
        asks = not yes and not as_json and sys.stdin.isatty()
        if asks and not typer.confirm(f"Write this to {out}?", default=True):
            raise typer.Exit(1)
        out.write_text(str(proposal), encoding="utf-8")
        if not as_json:
            print(f"Wrote {out}. Read it, then: sfumato publish")

    return Shown(proposal, proposal, then=write)


@command(
    options.TABLE,
    Flag("out", Path, "Folder for the release; must not exist.", ..., panel=_OUTPUT),
    Flag("key_file", Path, "Steward's key: a person is published alike each time.", panel=_OUTPUT),
    Flag("previous", Path, "An earlier release, whose operators are used again.", panel=_OUTPUT),
    Flag("ledger", Path, "Private file: what all releases of these people tell.", panel=_OUTPUT),
    Flag("ledger_promise", str, "For all of them, where the ledger is new.", hidden=True),
    Flag("ledger_column", list[str], "NEW=OLD or NEW=new: a column's new name.", hidden=True),
    Flag("receipt", Path, "Private file: 'audit --receipt' repeats it all.", panel=_OUTPUT),
    Flag(
        "guarantee", list[str],
        "The promise, e.g. 'l-diversity(3)'; 'COLUMN: …' for one. Repeatable: all kept.", ...,
        panel=_PROMISE,
    ),
    Flag("mechanism", str, "The way to keep it; the most accurate one by default.", panel=_PROMISE),
    Flag("seed", int, "Repeatable draws, for experiments: NOT private.", panel=_PROMISE),
    Flag(
        "joint", bool, "Promise it for what all sensitive columns tell together.", False,
        panel=_PROMISE,
    ),
    Flag(
        "left_out", str, "Largest share of people without a promise whose values may be shown.",
        "1/4", panel=_PROMISE,
    ),
    Flag("engine", str, "local, or spark: Parquet files, read by Spark.", panel=_RESOURCES),
    Flag("batch_rows", int, "Rows read at once.", 1 << 17, hidden=True),
    options.THREADS,
    roles=True,
    stage="reading",
)  # fmt: skip
def publish(
    table: str,
    out: Path,
    guarantee: str,
    seed: int | None,
    ledger_column: list[str] | None,
    roles: dict[str, Any],
    **settings: Any,
) -> Any:
    """Publish a table under a promise; 'sfumato init TABLE' proposes how."""
    from sfumato.engines.publishing import publish as publish_table

    if seed is not None:
        typer.echo(
            "sfumato: warning: --seed makes the draws repeatable, so this release protects nobody. "
            "It is marked as seeded and will not pass an audit.",
            err=True,
        )
    settings["ledger_column"] = pairs(ledger_column, "--ledger-column")
    return publish_table(table, guarantee, to=out, seed=seed, **settings, **roles)


@command(
    options.RELEASE,
    Flag("sql", str, "SELECT … FROM release …", ..., argument=True),
    options.CONFIDENCE,
    options.ESTIMATOR,
    options.THREADS,
    Flag("max_rows", int, "The largest answer, in rows.", MAX_ROWS),
    options.PLOT,
    stage="asking",
    timeout=options.QUESTION,
)
def query(
    release: Path, sql: str, max_rows: int, plot: Path | None, progress: Progress, **settings: Any
) -> Shown:
    """Ask SQL of a release and get answers with error bars."""
    from sfumato.queries import open_release

    with limited(rows=max_rows):
        answer = open_release(release).sql(sql, **settings)
    if plot is not None:
        answer.plot(plot)
    if not answer.estimator:
        return Shown(answer, answer)
    from sfumato.queries.estimators import estimated_by

    note = estimated_by(answer.estimator)
    return Shown(f"{answer}\n{note}" if note else answer, answer)


@command(
    options.TABLE,
    replace(options.RELEASE, default=None),
    Flag("key", str, "Column that identifies the person; not published."),
    _RECEIPT,
    Flag("rewrite", Path, "Write the content again to this folder: a clean copy."),
    Flag("verbose", bool, "Show every check.", False),
    reads=True,
    stage="auditing",
)
def audit(
    table: Any, release: Path | None, rewrite: Path | None, verbose: bool, **settings: Any
) -> Shown:
    """Check a release against the table it was made from.

    Exit code 4 where a check fails, 5 where something could not be looked at.
    """
    if release is None:
        there = "" if Path(str(table)).exists() else ", and there is no such file"
        job = f", or, where {JOB} says them, sfumato audit alone"
        raise UsageError(
            f"An audit looks at a table and its release; only {str(table)!r} was named{there}. "
            f"Say: sfumato audit TABLE RELEASE{job}."
        )
    from sfumato.audits import audit as audit_release
    from sfumato.audits.spelling import rewrite as write_again
    from sfumato.release import Release

    verdict = audit_release(table, release, **settings)
    if rewrite is not None:
        write_again(Release(release), rewrite)
    code = 5 if verdict.holds is None else 0 if verdict.holds else 4
    return Shown(verdict.text(verbose=verbose), verdict, code)


@command(
    options.RELEASE,
    Flag("table", str, "The raw table: audit and attack the release. Roles: the manifest's."),
    Flag("out", Path, "Folder for the page and the JSON; RELEASE-report else."),
    _RECEIPT,
    options.ATTACKS,
    options.TARGETS,
    options.QUESTIONS,
    Flag("seed", int, "Decides questions and targets.", 0),
    Flag("table_name", str, "What the report calls the table; nothing else does."),
    Flag("release_name", str, "What it calls the release; its folder's name else."),
    Flag("author", str, "Who answers for the report."),
    reads=True,
    stage="reading",
)
def report(
    release: Path, table: Any, out: Path | None, attacks: list[str] | None, **settings: Any
) -> Shown:
    """Write what a release promises and how it was checked; exit code 4 where the audit fails."""
    from sfumato.evidence.report import write_report

    out = out or Path(f"{release.resolve().name}-report")
    written = write_report(release, table=table, out=out, attacks=attacks or "all", **settings)
    undecided = 5 if table is not None and written.holds is None else 0
    return Shown(written, written, 4 if written.holds is False else undecided)
