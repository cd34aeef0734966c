"""check: measure any table, and hold it to limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import (
    Origin,
    limit_flags,
    reading_flags,
)
from sfumato.cli.show import show_json
from sfumato.errors import UsageError


@app.command()
@limit_flags()
@reading_flags
def check(
    table: Origin,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Measure any table: k-anonymity, l-diversity, beta-likeness, t-closeness and more."""
    from sfumato.checks import check as check_table

    orders = {}
    for text in domain or []:
        column, equals, values = text.partition("=")
        if not equals or not column.strip() or not values.strip():
            raise UsageError(f"--domain takes COLUMN=VALUE,VALUE,…. Got {text!r}.")
        orders[column.strip()] = values
    found = check_table(
        table, quasi=quasi, sensitive=sensitive, drop=drop, domain=orders, require=require or ()
    )
    if html is not None:
        html.write_text(found.to_html(), encoding="utf-8")
    if as_json:
        show_json(found.to_json())
    else:
        print(found)
    if not found.holds:
        raise typer.Exit(4)
