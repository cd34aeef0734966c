"""attack: play the adversary against a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.show import show_json

if TYPE_CHECKING:
    from sfumato.attacks import Outcome


@app.command()
def attack(
    table: Annotated[str, typer.Argument(help="The raw table behind the release.")],
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    attacks: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="naive-bayes, definetti, corruption, linkage, … or all. Repeatable.",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The sensitive column; every one by default.")
    ] = None,
    targets: Annotated[int, typer.Option(help="How many people to attack, at most.")] = 10_000,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Attack a release: how much does it tell about people, beside what anybody could guess?"""
    from sfumato.attacks import attack as attack_release

    outcomes = attack_release(
        table,
        release,
        attacks=attacks or ["all"],
        column=column,
        targets=targets,
        fresh=fresh,
        seed=seed,
    )
    values = _exposed_values(table, release, outcomes) if show else {}
    if as_json:
        found = [outcome.to_json() for outcome in outcomes]
        for described in found:
            for person in described["exposed"] if show else []:
                person["values"] = values[person["row"]]
        show_json({"outcomes": found})
        return
    for outcome in outcomes:
        print(outcome)
        for row, _ in outcome.exposed if show else ():
            print(f"    row {row:,}: {', '.join(f'{k} = {v}' for k, v in values[row].items())}")


def _exposed_values(
    table: str, release: Path, outcomes: list[Outcome]
) -> dict[int, dict[str, Any]]:
    """The published columns of the exposed people, as the raw table has them."""
    from sfumato.audits.case import raw_table
    from sfumato.columns import value_to_json
    from sfumato.release import Release

    wanted = sorted({row for outcome in outcomes for row, _ in outcome.exposed})
    declared = raw_table(table, Release(release))
    names = (*declared.quasi, *declared.sensitive)
    found: dict[int, dict[str, Any]] = {}
    start = 0
    for batch in declared.batches(names):
        for row in [row for row in wanted if start <= row < start + batch.num_rows]:
            found[row] = {
                name: value_to_json(batch.column(name)[row - start].as_py()) for name in names
            }
        start += batch.num_rows
    return found
