"""crosstab, complete: tables made from a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Folder, Json, Plot, Threads
from sfumato.cli.show import ProgressLine, show_json


@app.command()
def crosstab(
    release: Folder,
    rows: Annotated[str, typer.Argument(help="The column down, or an expression of columns.")],
    columns: Annotated[str, typer.Argument(help="The column across.")],
    where: Annotated[
        str | None, typer.Option(help="Only records that satisfy this, in SQL.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    estimator: Annotated[
        str | None, typer.Option(help="How to estimate; the release's default otherwise.")
    ] = None,
    threads: Threads = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Count two columns against each other and test whether they go together."""
    from sfumato.queries import open_release
    from sfumato.queries.estimators import estimated_by

    with ProgressLine("counting"):
        table = open_release(release).crosstab(
            rows,
            columns,
            where=where,
            confidence=confidence,
            estimator=estimator,
            threads=threads,
        )
    if plot is not None:
        table.plot(plot)
    if as_json:
        show_json(table.to_json())
        return
    print(table)
    note = estimated_by(table.estimator)
    if note is not None:
        print(note)


@app.command()
def complete(
    release: Folder,
    out: Annotated[Path, typer.Option(help="Folder for the copies; must not exist.")],
    copies: Annotated[int, typer.Option(help="How many completed tables.")] = 5,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable draws. They hide nothing: that is safe here.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write tables in which every record has a likely sensitive value, for any other tool.

    Made from the release alone, so what it promises holds. Analyse every copy and put the results
    together by Rubin's rules (`sf.combine`).
    """
    from sfumato.queries import open_release

    with ProgressLine("reading") as line:
        opened = open_release(release)
        paths = opened.complete(copies, to=out, seed=seed, threads=threads, progress=line.callback)
    if as_json:
        show_json({"files": [str(path) for path in paths], "rows": opened.rows})
        return
    print(f"Wrote {len(paths)} completed tables of {opened.rows:,} rows to {out}")
    print("A value in them is a draw, not the person's: analyse every copy, and combine.")
