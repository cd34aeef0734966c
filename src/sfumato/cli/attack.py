"""attack: play the adversary against a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import reading_flags
from sfumato.cli.show import show_json
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.attacks import Outcome


@app.command()
@reading_flags
def attack(
    table: Annotated[str, typer.Argument(help="The raw table behind the release.")],
    reading: dict[str, Any],
    release: Annotated[
        Path | None, typer.Argument(help="The release folder; the ratio attack needs none.")
    ] = None,
    attacks: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="naive-bayes, definetti, corruption, linkage, … or all; ratio. Repeatable.",
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
    epsilon: Annotated[
        float, typer.Option(help="Ratio: of two differentially private answers.")
    ] = 1.0,
    confidence: Annotated[
        float, typer.Option(help="Ratio: from which confidence on a group counts as disclosed.")
    ] = 0.8,
    quasi: Annotated[str, typer.Option(help="Ratio without a release: quasi columns a,b,c")] = "",
    sensitive: Annotated[str, typer.Option(help="Ratio without a release: column d")] = "",
    drop: Annotated[str, typer.Option(help="Ratio without a release: columns left out.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Attack a release: how much does it tell about people, beside what anybody could guess?"""
    from sfumato.attacks import attack as attack_release
    from sfumato.attacks.registry import ALL, parse_attack

    if attacks == ["ratio"]:
        _ratio(table, release, (quasi, sensitive, drop), epsilon, confidence, as_json)
        return
    for text in attacks or []:
        if text != ALL:
            parse_attack(text)
    if release is None:
        raise UsageError("Name the release to attack after the table; only ratio needs none.")
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


def _ratio(
    table: str,
    release: Path | None,
    roles: tuple[str, str, str],
    epsilon: float,
    confidence: float,
    as_json: bool,
) -> None:
    """Whom two differentially private answers about the raw table would disclose."""
    from sfumato.attacks.ratio import ratio_attack
    from sfumato.audits.case import raw_table
    from sfumato.release import Release
    from sfumato.table import read

    if release is None:
        quasi, sensitive, drop = roles
        declared = read(table, quasi=quasi, sensitive=sensitive, drop=drop)
    else:
        declared = raw_table(table, Release(release))
    outcome = ratio_attack(declared, epsilon, confidence=confidence)
    if as_json:
        show_json({"outcomes": [outcome.to_json()]})
    else:
        print(outcome)


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
