"""init: look at a file and write a proposal, `sfumato.toml`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.app import JOB, app
from sfumato.cli.options import Json, Origin, limit_flags
from sfumato.cli.show import ProgressLine, show_json
from sfumato.errors import DataError


@app.command()
@limit_flags()
def init(
    table: Origin,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path(JOB),
    yes: Annotated[bool, typer.Option("--yes", help="Write it without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Look at a file and propose roles, recodes and a promise."""
    from sfumato.outlook.proposal import propose

    if out.exists():
        raise DataError(
            f"{str(out)!r} exists already. Remove it first, or name another with --out."
        )
    with ProgressLine("looking") as line:
        proposal = propose(table, progress=line.callback)
    if as_json:
        show_json(proposal.to_json())
    else:
        print(proposal.to_toml())
    asks = not yes and not as_json and sys.stdin.isatty()
    if asks and not typer.confirm(f"Write this to {out}?", default=True):
        raise typer.Exit(1)
    out.write_text(proposal.to_toml(), encoding="utf-8")
    if not as_json:
        print(f"Wrote {out}. Read it, then: sfumato publish")
