"""attack: play the adversary against a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import (
    limit_flags,
    reading_flags,
)
from sfumato.cli.show import ProgressLine, show_json
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.attacks import Outcome
    from sfumato.table import Table


@app.command()
@limit_flags()
@reading_flags
def attack(
    table: Annotated[str, typer.Argument(help="The raw table behind the release.")],
    reading: dict[str, Any],
    release: Annotated[Path | None, typer.Argument(help="The release folder.")] = None,
    attacks: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="own-record, definetti, linkage, … or all. Repeatable.",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The sensitive column; every one by default.")
    ] = None,
    targets: Annotated[
        int | None, typer.Option(help="How many people to attack; 2,000, thorough 10,000.")
    ] = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Learn from all that is shown; may take long.")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh/--no-fresh",
            help="Compare with the same attack on a release of a fresh table without the person.",
        ),
    ] = True,
    show: Annotated[
        bool, typer.Option("--show", help="Show the values of the most exposed people, too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides targets and ties.")] = 0,
    shown: Annotated[
        str | None,
        typer.Option(help="Instead of a release: a table that another tool made of the raw one."),
    ] = None,
    match: Annotated[
        str,
        typer.Option(
            help="Shown: people are found by their quasi-identifiers, or row by row: row."
        ),
    ] = "quasi",
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Intersection: another release of these people. Repeatable."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="A limit for every attack, e.g. 'advantage<=0.05'; exit code 4 where it fails. "
            "Repeatable."
        ),
    ] = None,
    quasi: Annotated[str, typer.Option(help="Without a release: quasi-identifiers a,b,c")] = "",
    sensitive: Annotated[str, typer.Option(help="Without a release: sensitive columns d,e")] = "",
    drop: Annotated[str, typer.Option(help="Without a release: columns left out.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Attack a release: how much does it tell about people, beside what anybody could guess?"""
    from sfumato.attacks import attack as attack_release
    from sfumato.attacks.limits import parse_limit
    from sfumato.attacks.registry import ALL, parse_attack
    from sfumato.checks.report import requirement_text

    for text in attacks or []:
        if text != ALL:
            parse_attack(text)
    limits = [parse_limit(text) for text in require or []]
    if release is None and shown is None:
        raise UsageError(
            "Name the release to attack after the table, or a table that another tool made of it "
            "with --shown."
        )
    declared = _declared(table, release, quasi, sensitive, drop)
    with ProgressLine("reading") as line:
        outcomes = attack_release(
            declared,
            release,
            shown=shown,
            match=match,  # type: ignore[arg-type]  # refused there, by name
            attacks=attacks or ["all"],
            column=column,
            targets=targets,
            thorough=thorough,
            fresh=fresh,
            seed=seed,
            others=others or (),
            progress=line.callback,
        )
    requirements = [requirement for limit in limits for requirement in limit.held(outcomes)]
    values = _exposed_values(declared, outcomes) if show else {}
    if as_json:
        documents = [outcome.to_json() for outcome in outcomes]
        for described in documents:
            for person in described["exposed"] if show else []:
                person["values"] = values[person["row"]]
        required = {"requirements": requirements} if limits else {}
        show_json({"outcomes": documents, **required})
    else:
        for outcome in outcomes:
            print(outcome)
            for exposed in outcome.exposed if show else ():
                told = ", ".join(f"{k} = {v}" for k, v in values[exposed.row].items())
                print(f"    row {exposed.row:,}: {told}")
        print(*map(requirement_text, requirements), sep="\n", end="\n" if requirements else "")
    if not all(requirement.holds for requirement in requirements):
        raise typer.Exit(4)


def _declared(table: str, release: Path | None, quasi: str, sensitive: str, drop: str) -> Table:
    """The raw table, in the roles that the release's columns have or that were stated."""
    from sfumato.audits.case import raw_table
    from sfumato.release import Release
    from sfumato.table import read

    if release is None:
        return read(table, quasi=quasi, sensitive=sensitive, drop=drop)
    return raw_table(table, Release(release))


def _exposed_values(declared: Table, outcomes: list[Outcome]) -> dict[int, dict[str, Any]]:
    """The published columns of the exposed people, as the raw table has them."""
    from sfumato.columns import value_to_json

    wanted = sorted({exposed.row for outcome in outcomes for exposed in outcome.exposed})
    names = (*declared.quasi, *declared.sensitive)
    exposed_values: dict[int, dict[str, Any]] = {}
    start = 0
    for batch in declared.batches(names):
        for row in [row for row in wanted if start <= row < start + batch.num_rows]:
            exposed_values[row] = {
                name: value_to_json(batch.column(name)[row - start].as_py()) for name in names
            }
        start += batch.num_rows
    return exposed_values
