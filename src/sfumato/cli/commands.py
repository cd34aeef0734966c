"""describe, publish, query, audit, generate, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import (
    OUTPUT,
    PROMISE,
    QUESTION,
    RESOURCES,
    Folder,
    Json,
    Origin,
    Plot,
    Threads,
    limit_flags,
    reading_flags,
    table_flags,
)
from sfumato.cli.refusals import all_problems
from sfumato.cli.show import ProgressLine, show_json
from sfumato.errors import DataError
from sfumato.limits import MAX_ROWS, limited
from sfumato.table_options import pairs


@app.command()
@limit_flags()
@table_flags
def describe(
    table: Origin,
    roles: dict[str, Any],
    guarantee: Annotated[
        str | None, typer.Option(help="Show what this promise would mean and cost.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="The way to keep it.")] = None,
    as_json: Json = False,
) -> None:
    """Show columns, histograms, and what a promise would mean, before publishing.

    Without any role: a first look at the columns, with suggestions for their roles. Of a release:
    what it holds and promises.
    """
    from sfumato.outlook.describe import describe as describe_table

    with all_problems(table, guarantee, roles), ProgressLine("reading") as line:
        description = describe_table(table, guarantee, mechanism, progress=line.callback, **roles)
    if as_json:
        show_json(description.to_json())
    else:
        print(description)


@app.command()
@limit_flags()
@table_flags
def publish(
    table: Origin,
    out: Annotated[
        Path, typer.Option(help="Folder for the release; must not exist.", rich_help_panel=OUTPUT)
    ],
    guarantee: Annotated[
        list[str],
        typer.Option(
            help="The promise, e.g. 'l-diversity(3)'; 'COLUMN: …' for one. Repeatable: all kept.",
            rich_help_panel=PROMISE,
        ),
    ],
    roles: dict[str, Any],
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="The way to keep it; the most accurate one by default.", rich_help_panel=PROMISE
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Repeatable draws, for experiments: NOT private.", rich_help_panel=PROMISE
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="Steward's key: a person is published alike each time.", rich_help_panel=OUTPUT
        ),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            help="An earlier release, whose operators are used again.", rich_help_panel=OUTPUT
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Private file: what all releases of these people tell.", rich_help_panel=OUTPUT
        ),
    ] = None,
    ledger_promise: Annotated[
        str | None,
        typer.Option(
            help="For all of them together, where the ledger is new.",
            rich_help_panel=OUTPUT,
            hidden=True,
        ),
    ] = None,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint",
            help="Promise it for what all sensitive columns tell together.",
            rich_help_panel=PROMISE,
        ),
    ] = False,
    left_out: Annotated[
        str,
        typer.Option(
            help="Largest share of people without a promise whose values may be shown.",
            rich_help_panel=PROMISE,
        ),
    ] = "1/4",
    engine: Annotated[
        str | None,
        typer.Option(
            help="local (default), or spark: Parquet files, read by Spark.",
            rich_help_panel=RESOURCES,
        ),
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(help="Rows read at once.", rich_help_panel=RESOURCES, hidden=True)
    ] = 1 << 17,
    threads: Threads = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            help="Private file with which 'audit --receipt' repeats it all.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish a table under a promise."""
    from sfumato.engines.publishing import publish as publish_table

    if seed is not None:
        typer.echo(
            "sfumato: warning: --seed makes the draws repeatable, so this release protects nobody. "
            "It is marked as seeded and will not pass an audit.",
            err=True,
        )
    promise = " and ".join(guarantee)
    with all_problems(table, promise, roles, left_out), ProgressLine("reading") as line:
        publication = publish_table(
            table,
            promise,
            to=out,
            engine=engine,
            mechanism=mechanism,
            seed=seed,
            key_file=key_file,
            previous=previous,
            ledger=ledger,
            joint=joint,
            ledger_promise=ledger_promise,
            left_out=left_out,
            batch_rows=batch_rows,
            threads=threads,
            progress=line.callback,
            receipt=receipt,
            **roles,
        )
    if as_json:
        show_json(publication.to_json())
    else:
        print(publication)


@app.command()
@limit_flags(timeout=QUESTION)
def query(
    release: Folder,
    sql: Annotated[str, typer.Argument(help="SELECT … FROM release …")],
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    keys: Annotated[
        bool, typer.Option("--keys", help="Show empty groups of the GROUP BY columns too.")
    ] = False,
    estimator: Annotated[
        str | None, typer.Option(help="How to estimate; the release's default otherwise.")
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(help="Hide counts below this one, exact ones too.")
    ] = None,
    threads: Threads = None,
    max_rows: Annotated[int, typer.Option(help="The largest answer, in rows.")] = MAX_ROWS,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Ask SQL of a release and get answers with error bars."""
    from sfumato.queries import open_release

    with ProgressLine("asking"), limited(rows=max_rows):
        answer = open_release(release).sql(
            sql,
            confidence=confidence,
            keys=keys,
            estimator=estimator,
            threads=threads,
            min_count=min_count,
        )
    if plot is not None:
        answer.plot(plot)
    if as_json:
        show_json(answer.to_json())
    else:
        print(answer)
        if answer.estimator:
            from sfumato.queries.estimators import estimated_by

            note = estimated_by(answer.estimator)
            if note is not None:
                print(note)


@app.command()
@limit_flags()
@reading_flags
def audit(
    table: Origin,
    release: Folder,
    reading: dict[str, Any],
    previous: Annotated[
        Path | None, typer.Option(help="An earlier release: whoever stayed must be shown alike.")
    ] = None,
    previous_table: Annotated[
        str | None, typer.Option(help="The table behind it, with --key: whose value changed.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column that identifies the person; not published.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="What 'publish --receipt' kept: make it all again.")
    ] = None,
    other: Annotated[
        Path | None,
        typer.Option("--with", help="Another bucketed release of these people: audit both."),
    ] = None,
    rewrite: Annotated[
        Path | None, typer.Option(help="Write the content again to this folder: a clean copy.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show every check.")] = False,
    as_json: Json = False,
) -> None:
    """Check a release against the table it was made from.

    Exit code 4 where a check fails, 5 where something could not be looked at.
    """
    from sfumato.audits import audit as audit_release
    from sfumato.audits.spelling import rewrite as write_again
    from sfumato.release import Release

    with ProgressLine("auditing") as line:
        verdict = audit_release(
            table,
            release,
            previous=previous,
            previous_table=previous_table,
            key=key,
            receipt=receipt,
            other=other,
            progress=line.callback,
        )
    if rewrite is not None:
        write_again(Release(release), rewrite)
    if as_json:
        show_json(verdict.to_json())
    else:
        print(verdict.text(verbose=verbose))
    if verdict.holds is not True:
        raise typer.Exit(4 if verdict.holds is False else 5)


@app.command()
def generate(
    name: Annotated[str, typer.Argument(help="census or hospital.")],
    rows: Annotated[int, typer.Option(help="How many people.")],
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same table.")] = 0,
    parameter: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the generator. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a realistic table without real people, to try things on."""
    from sfumato.datasets import GENERATORS, schema, write_dataset

    if out.exists():
        raise DataError(f"{str(out)!r} exists already. Choose another place, or remove it first.")
    settings: dict[str, Any] = pairs(parameter, "--parameter")
    write_dataset(name, rows, out, seed, **settings)
    roles = GENERATORS[name]
    columns = schema(name, **settings).names
    person = next(
        (column for column in columns if column not in (*roles.quasi, roles.sensitive)), None
    )
    if as_json:
        summary = {"file": str(out), "rows": rows, "quasi": roles.quasi}
        show_json({**summary, "sensitive": [roles.sensitive], "person": person})
    else:
        print(f"Wrote {rows:,} rows to {out}")
        whose = f" --person {person}" if person else ""
        print(f"  --quasi {','.join(roles.quasi)} --sensitive {roles.sensitive}{whose}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes.")] = Path("demo"),
    rows: Annotated[int, typer.Option(help="How many people to generate.")] = 12_000,
    as_json: Json = False,
) -> None:
    """Generate a census-like table, publish it, ask it, audit it."""
    from sfumato.evidence.demo import run_demo

    with ProgressLine("reading") as line:
        result = run_demo(out, rows, line.callback)
    if as_json:
        show_json(result.to_json())
    else:
        print(result)
