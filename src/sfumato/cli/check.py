"""check: measure any tables, and hold them to limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Json, limit_flags, reading_flags
from sfumato.cli.show import show_json
from sfumato.errors import UsageError


@app.command()
@limit_flags()
@reading_flags
def check(
    tables: Annotated[list[str], typer.Argument(help="Tables, each measured by itself.")],
    reading: dict[str, Any],
    quasi: Annotated[str, typer.Option(help="Columns that people are known by: a,b,c")] = "",
    sensitive: Annotated[str, typer.Option(help="Sensitive columns: d,e")] = "",
    drop: Annotated[str, typer.Option(help="Columns to leave out.")] = "",
    domain: Annotated[
        list[str] | None,
        typer.Option(help="The order of a sensitive column: size=small,medium,large. Repeatable."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help="A limit, e.g. 'l-diversity(3)'; exit code 4 where it fails."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page, too.")] = None,
    as_json: Json = False,
) -> None:
    """Measure any table: k-anonymity, l-diversity, beta-likeness and more.

    Several tables that are held to limits are told in a line each; exit code 4 where one fails.
    """
    from sfumato.checks import check as check_table

    orders = {}
    for text in domain or []:
        column, equals, values = text.partition("=")
        if not equals or not column.strip() or not values.strip():
            raise UsageError(f"--domain takes COLUMN=VALUE,VALUE,…. Got {text!r}.")
        orders[column.strip()] = values
    said = {"quasi": quasi, "sensitive": sensitive, "drop": drop, "require": require or ()}
    checks = [check_table(table, domain=orders, **said) for table in tables]
    if html is not None and len(checks) > 1:
        raise UsageError("--html writes the page of one table.")
    if html is not None:
        html.write_text(checks[0].to_html(), encoding="utf-8")
    if as_json:
        show_json(
            checks[0].to_json()
            if len(checks) == 1
            else [table_check.to_json() for table_check in checks]
        )
    elif len(checks) > 1 and require:
        for table_check in checks:
            print(
                f"{table_check.label}: {'keeps' if table_check.holds else 'BREAKS'} "
                f"{', '.join(require)}"
            )
    else:
        print(*checks, sep="\n\n")
    if not all(table_check.holds for table_check in checks):
        raise typer.Exit(4)
