"""describe, advise, compare, attack, check."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.cli import options
from sfumato.cli.options import Flag, Shown, command
from sfumato.errors import UsageError
from sfumato.pace import Progress

_COLUMN = Flag("column", str, "The sensitive column; every one by default.")
_FRESH = Flag(
    "fresh", bool,
    "Compare with the same attack on a release of a fresh table without the person.", True,
    "--fresh/--no-fresh",
)  # fmt: skip


@command(
    options.TABLE,
    Flag("guarantee", list[str], "Show what this promise would mean. Repeatable."),
    Flag("mechanism", str, "The way to keep it."),
    roles=True,
    stage="reading",
)
def describe(
    table: str,
    roles: dict[str, Any],
    guarantee: str | None,
    mechanism: str | None,
    progress: Progress,
) -> Any:
    """Show columns, histograms, and what a promise would mean, before publishing.

    Without any role: a first look at the columns, with suggestions for their roles. Of a release:
    what it holds and promises.
    """
    from sfumato.outlook.describe import describe as describe_table

    return describe_table(table, guarantee, mechanism, progress=progress, **roles)


@command(
    options.TABLE,
    Flag("target_error", float, "Relative error of counts that is to be reached: 0.1", 0.1),
    Flag("min_count", int, "For counts of this size.", 500),
    Flag("guarantee", list[str], "The other way round: what this promise costs. Repeatable."),
    Flag("mechanism", str, "With --guarantee: by this mechanism only."),
    roles=True,
    stage="counting",
)
def advise(
    table: str,
    roles: dict[str, Any],
    target_error: float,
    guarantee: str | None,
    mechanism: str | None,
    **settings: Any,
) -> Any:
    """Find the strongest promise that keeps counts as accurate as you need them."""
    from sfumato.outlook.advise import advise as advise_on

    if mechanism is not None and not guarantee:
        raise UsageError("--mechanism needs --guarantee.")
    asked: dict[str, Any] = {"guarantee": guarantee, "mechanism": mechanism}
    if guarantee is None:
        asked = {"target_error": target_error}
    return advise_on(table, **asked, **settings, **roles)


@command(
    options.TABLE,
    Flag("out", Path, "Folder for the page, the JSON and the questions.", Path("comparison")),
    Flag(
        "candidate", list[str],
        "'GUARANTEE by MECHANISM', or a guarantee alone; four usual ones by default. Repeatable.",
    ),
    options.QUESTIONS,
    _COLUMN,
    options.ATTACKS,
    options.TARGETS,
    _FRESH,
    Flag("seed", int, "Decides questions and targets, never draws.", 0),
    roles=True,
    stage="reading",
)  # fmt: skip
def compare(
    table: str,
    roles: dict[str, Any],
    candidate: list[str] | None,
    attacks: list[str] | None,
    **settings: Any,
) -> Shown:
    """Compare promises and mechanisms: what they give away, what answers are worth.

    The page shows true counts: it is for you alone. Exit code 3 where nothing could be published.
    """
    from sfumato.evidence.compare import compare as compare_candidates

    comparison = compare_candidates(
        table, candidate or [], attacks=attacks or "all", **settings, **roles
    )
    return Shown(comparison, comparison, 0 if comparison.measured else 3)


@command(
    replace(options.TABLE, help="The raw table behind the release."),
    Flag("release", Path, "The release folder.", argument=True),
    replace(options.ATTACKS, help="own-record, definetti, linkage, … or all. Repeatable."),
    _COLUMN,
    replace(options.TARGETS, help="How many people to attack; 2,000, thorough 10,000.", least=None),
    Flag("thorough", bool, "Learn from all that is shown; may take long.", False),
    _FRESH,
    Flag("verbose", bool, "Show what every attack reached.", False),
    Flag("show", bool, "Show the values of the most exposed people, too.", False),
    Flag("seed", int, "Decides targets and ties.", 0),
    Flag("shown", str, "Instead of a release: a table that another tool made of the raw one."),
    Flag("quasi", str, "Without a release: quasi-identifiers a,b,c", ""),
    Flag("sensitive", str, "Without a release: sensitive columns d,e", ""),
    Flag("drop", str, "Without a release: columns left out.", ""),
    reads=True,
    stage="reading",
)  # fmt: skip
def attack(
    table: Any,
    release: Path | None,
    attacks: list[str] | None,
    verbose: bool,
    show: bool,
    quasi: str,
    sensitive: str,
    drop: str,
    **settings: Any,
) -> Shown:
    """Attack a release: how much does it tell about people, beside what anybody could guess?

    The verdict in three lines; --verbose has every attack.
    """
    from sfumato.attacks import attack as attack_release
    from sfumato.attacks.protocol import verdict
    from sfumato.attacks.registry import ALL, parse_attack
    from sfumato.audits.case import raw_table
    from sfumato.release import Release
    from sfumato.table import read

    for text in attacks or []:
        if text != ALL:
            parse_attack(text)
    if release is None and settings["shown"] is None:
        raise UsageError(
            "Name the release to attack after the table, or a table that another tool made of it "
            "with --shown."
        )
    given = [flag for flag in ("--quasi", "--sensitive", "--drop") if flag in sys.argv]
    if release is not None and given:  # a job file may have them
        raise UsageError(f"The roles of a release stand in its manifest: leave out {given[0]}.")
    declared = (
        read(table, quasi=quasi, sensitive=sensitive, drop=drop)
        if release is None
        else raw_table(table, Release(release))
    )
    outcomes = attack_release(declared, release, attacks=attacks or ["all"], **settings)
    values = _exposed_values(declared, outcomes) if show else {}
    documents, shown = [outcome.to_json() for outcome in outcomes], verdict(outcomes)
    if not (verbose or show):
        shown.append(f"{len(outcomes)} attacks (--verbose shows what each reached).")
    for outcome, document in zip(outcomes, documents, strict=True):
        if verbose or show:
            shown.append(f"\n{outcome}")
        for person in document["exposed"] if show else ():
            person["values"] = values[person["row"]]
            told = ", ".join(f"{name} = {value}" for name, value in person["values"].items())
            shown.append(f"    row {person['row']:,}: {told}")
    return Shown("\n".join(shown), {"outcomes": documents})


def _exposed_values(declared: Any, outcomes: list[Any]) -> dict[int, dict[str, Any]]:
    """The published columns of the exposed people, as the raw table has them."""
    from sfumato.columns import value_to_json

    wanted = sorted({exposed.row for outcome in outcomes for exposed in outcome.exposed})
    exposed_values: dict[int, dict[str, Any]] = {}
    start = 0
    for batch in declared.batches((*declared.quasi, *declared.sensitive)):
        for row in [row for row in wanted if start <= row < start + batch.num_rows]:
            (values,) = batch.slice(row - start, 1).to_pylist()
            exposed_values[row] = {name: value_to_json(v) for name, v in values.items()}
        start += batch.num_rows
    return exposed_values


@command(
    options.TABLE,
    Flag("require", list[str], "A limit, e.g. 'l-diversity(3)'; exit code 4 where it fails."),
    Flag("html", Path, "Write the report as a page, too."),
    roles=True,
    stage="measuring",
)
def check(
    table: str,
    roles: dict[str, Any],
    require: list[str] | None,
    html: Path | None,
    progress: Progress,
) -> Shown:
    """Measure any table: k-anonymity, l-diversity, beta-likeness and more."""
    from sfumato.checks import check as check_table

    done = check_table(table, require=require or (), progress=progress, **roles)
    if html is not None:
        html.write_text(done.to_html(), encoding="utf-8")
    return Shown(done, done, 0 if done.holds else 4)
