"""report: the steward's evidence about a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import (
    Folder,
    Json,
    limit_flags,
    reading_flags,
)
from sfumato.cli.show import ProgressLine, show_json


@app.command()
@limit_flags()
@reading_flags
def report(
    release: Folder,
    reading: dict[str, Any],
    table: Annotated[
        str | None,
        typer.Option(help="The raw table: audit and attack the release. Roles: the manifest's."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page and the JSON; RELEASE-report else.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="What 'publish --receipt' kept: make it all again.")
    ] = None,
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", help="An attack; all by default. Repeatable.")
    ] = None,
    targets: Annotated[
        int | None, typer.Option(min=1, help="How many people are attacked; 2,000 by default.")
    ] = None,
    questions: Annotated[int, typer.Option(min=1, help="How many questions are asked.")] = 1000,
    seed: Annotated[int, typer.Option(help="Decides questions and targets.")] = 0,
    table_name: Annotated[
        str | None, typer.Option(help="What the report calls the table; nothing else does.")
    ] = None,
    release_name: Annotated[
        str | None, typer.Option(help="What it calls the release; its folder's name else.")
    ] = None,
    author: Annotated[str | None, typer.Option(help="Who answers for the report.")] = None,
    as_json: Json = False,
) -> None:
    """Write what a release promises and how it was checked; exit code 4 where the audit fails."""
    from sfumato.evidence.report import write_report

    with ProgressLine("reading") as line:
        written = write_report(
            release,
            table=table,
            out=Path(f"{release.resolve().name}-report") if out is None else out,
            receipt=receipt,
            attacks=attacks or "all",
            targets=targets,
            questions=questions,
            seed=seed,
            table_name=table_name,
            release_name=release_name,
            author=author,
            progress=line.callback,
        )
    if as_json:
        show_json(written.to_json())
    else:
        print(written)
    if written.holds is False:
        raise typer.Exit(4)
    if table is not None and written.holds is None:
        raise typer.Exit(5)
