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
    min_count: Annotated[int, typer.Option(help="For counts of this size.")] = 500,
    ceiling: Annotated[
        list[str] | None,
        typer.Option(help="Largest posterior of a value: HIV=0.05. Repeatable."),
    ] = None,
    among: Annotated[
        str, typer.Option(help="Guarantees to choose from: l-diversity,f-privacy. All by default.")
    ] = "",
    guarantee: Annotated[
        list[str] | None,
        typer.Option(help="The other way round: what this promise costs. Repeatable."),
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="With --guarantee: by this mechanism only.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the strongest promise that keeps counts as accurate as you need them."""
    from sfumato.outlook.advise import advise as advise_on

    if guarantee and (ceiling or among.strip()):
        raise UsageError("Give --ceiling or --among, or --guarantee, not both.")
    if mechanism is not None and not guarantee:
        raise UsageError("--mechanism needs --guarantee.")
    promise = " and ".join(guarantee) if guarantee else None
    asked: dict[str, Any] = {"guarantee": promise, "mechanism": mechanism}
    if promise is None:
        names = [name.strip() for name in among.split(",")] if among.strip() else None
        asked = {"target_error": target_error, "ceilings": _ceilings(ceiling), "among": names}
    with all_problems(table, promise, roles), ProgressLine("counting") as line:
        advice = advise_on(table, min_count=min_count, progress=line.callback, **asked, **roles)
    if as_json:
        show_json(advice.to_json())
    else:
        print(advice)


def _ceilings(pairs: list[str] | None) -> dict[str, str]:
    """VALUE=LIMIT; the limit stands behind the last '=', because values may hold one."""
    limits = {}
    for text in pairs or []:
        value, equals, limit = text.rpartition("=")
        if not equals or not value.strip() or not limit.strip():
            raise UsageError(f"--ceiling takes VALUE=LIMIT, for example HIV=0.05. Got {text!r}.")
        limits[value.strip()] = limit.strip()
    return limits
