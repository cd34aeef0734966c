"""advise: which promise reaches an accuracy, and what accuracy a promise leaves."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import (
    Json,
    Origin,
    limit_flags,
    table_flags,
)
from sfumato.cli.refusals import all_problems
from sfumato.cli.show import ProgressLine, show_json
from sfumato.errors import UsageError


@app.command()
@limit_flags()
@table_flags
def advise(
    table: Origin,
    roles: dict[str, Any],
    target_error: Annotated[
        float, typer.Option(help="Mean relative error of counts that is to be reached: 0.1")
    ] = 0.1,
    min_count: Annotated[int, typer.Option(help="Counts from this size on.")] = 500,
    ceiling: Annotated[
        list[str] | None,
        typer.Option(help="Largest posterior of a value: HIV=0.05. Repeatable."),
    ] = None,
    among: Annotated[
        str, typer.Option(help="Guarantees to choose from: l-diversity,f-privacy. All by default.")
    ] = "",
    guarantee: Annotated[
        str | None, typer.Option(help="The other way round: what this promise costs.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="With --guarantee: by this mechanism only.")
    ] = None,
    questions: Annotated[int, typer.Option(help="Questions that errors are averaged over.")] = 300,
    seed: Annotated[int, typer.Option(help="Of the questions; nothing is published.")] = 0,
    as_json: Json = False,
) -> None:
    """Find the strongest promise that keeps counts as accurate as you need them."""
    from sfumato.outlook.advise import Advice, Cost
    from sfumato.outlook.advise import advise as advise_on

    found: Advice | Cost
    with all_problems(table, guarantee, roles), ProgressLine("reading") as progress:
        if guarantee is not None:
            if ceiling or among.strip():
                raise UsageError("Give --ceiling or --among, or --guarantee, not both.")
            found = advise_on(
                table,
                guarantee=guarantee,
                mechanism=mechanism,
                min_count=min_count,
                seed=seed,
                questions=questions,
                progress=progress.callback,
                **roles,
            )
        else:
            if mechanism is not None:
                raise UsageError("--mechanism needs --guarantee.")
            found = advise_on(
                table,
                target_error=target_error,
                min_count=min_count,
                ceilings=_ceilings(ceiling),
                among=[name.strip() for name in among.split(",")] if among.strip() else None,
                seed=seed,
                questions=questions,
                progress=progress.callback,
                **roles,
            )
    if as_json:
        show_json(found.to_json())
    else:
        print(found)


def _ceilings(given: list[str] | None) -> dict[str, str]:
    """VALUE=LIMIT; the limit stands behind the last '=', because values may hold one."""
    found = {}
    for text in given or []:
        value, equals, limit = text.rpartition("=")
        if not equals or not value.strip() or not limit.strip():
            raise UsageError(f"--ceiling takes VALUE=LIMIT, for example HIV=0.05. Got {text!r}.")
        found[value.strip()] = limit.strip()
    return found
