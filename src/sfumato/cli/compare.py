"""compare: publish, ask, audit and attack several candidates, and show them on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import (
    Json,
    Origin,
    limit_flags,
    table_flags,
)
from sfumato.cli.show import ProgressLine, show_json


@app.command()
@limit_flags()
@table_flags
def compare(
    table: Origin,
    out: Annotated[Path, typer.Option(help="Folder for the page, the JSON and the questions.")],
    roles: dict[str, Any],
    guarantee: Annotated[
        list[str] | None,
        typer.Option(help="A promise; with each --mechanism that keeps it. Repeatable."),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="A way to keep the promises; the best one by default. Repeatable."),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(help="One candidate: 'GUARANTEE by MECHANISM'. Repeatable."),
    ] = None,
    workload: Annotated[
        str, typer.Option(help="What is asked: conjunctions (default), ranges or prefixes.")
    ] = "conjunctions",
    questions: Annotated[int, typer.Option(min=1, help="How many questions are asked.")] = 1000,
    column: Annotated[
        str | None, typer.Option(help="The sensitive column; the first by default.")
    ] = None,
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", help="An attack; all by default. Repeatable.")
    ] = None,
    targets: Annotated[
        int | None, typer.Option(min=1, help="How many people to attack; 2,000 by default.")
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh/--no-fresh",
            help="Compare attacks with the same on a release of a fresh table without the person.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Decides questions and targets, never draws.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Candidates at once; one per processor by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare promises and mechanisms: what they give away, what answers are worth.

    Exit code 3 where none of them could be published.
    """
    from sfumato.evidence.compare import Candidate, pair_up
    from sfumato.evidence.compare import compare as compare_candidates

    chosen = pair_up(guarantee or [], mechanism or [])
    chosen += [Candidate.parse(text) for text in candidate or []]
    with ProgressLine("reading") as line:
        comparison = compare_candidates(
            table,
            chosen,
            out=out,
            workload=workload,
            questions=questions,
            column=column,
            attacks=attacks or "all",
            targets=targets,
            fresh=fresh,
            seed=seed,
            jobs=jobs,
            progress=line.callback,
            **roles,
        )
    if as_json:
        show_json(comparison.to_json())
    else:
        print(comparison)
    if not comparison.measured:
        raise typer.Exit(3)
