"""gate: hold several tables to limits, for hooks and pipelines."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Json
from sfumato.cli.show import show_json
from sfumato.errors import UsageError


@app.command()
def gate(
    tables: Annotated[list[str], typer.Argument(help="Tables, each held to the limits by itself.")],
    require: Annotated[
        list[str] | None, typer.Option(help="A limit, e.g. 'l-diversity(3)'. Repeatable.")
    ] = None,
    quasi: Annotated[str, typer.Option(help="Columns that people are known by: a,b,c")] = "",
    sensitive: Annotated[str, typer.Option(help="Sensitive columns: d,e")] = "",
    drop: Annotated[str, typer.Option(help="Columns to leave out.")] = "",
    as_json: Json = False,
) -> None:
    """Hold each of several tables to limits; exit code 4 where one fails.

    For hooks that name the files which changed. 'check' shows every measure of one table.
    """
    from sfumato.checks import check

    if not require:
        raise UsageError("A gate without a limit lets everything through. Give --require.")
    found = {
        table: check(table, quasi=quasi, sensitive=sensitive, drop=drop, require=require)
        for table in tables
    }
    if as_json:
        show_json({table: result.to_json() for table, result in found.items()})
    else:
        for table, result in found.items():
            print(f"{table}: {'keeps' if result.holds else 'BREAKS'} {', '.join(require)}")
    if not all(result.holds for result in found.values()):
        raise typer.Exit(4)
