"""The command line's words for what the page is doing, and for what the page does not do.

Every command is made from the declared table and the promise in hand, ready to be copied.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sfumato.table_options import ROLES, TABLE_OPTIONS

DATABASE = "postgresql://steward@db.example/clinic?table=stays"


def commands(
    table: Mapping[str, Any], guarantee: str, mechanism: str | None
) -> list[dict[str, str]]:
    """What each command is for, and the command.

    >>> table = {"label": "my people.csv", "roles": {"age": "quasi", "ill": "sensitive"},
    ...          "options": {"missing": "drop"}}
    >>> commands(table, "l-diversity(3)", None)[0]["command"]
    "sfumato publish 'my people.csv' --quasi age --sensitive ill --missing drop \
--guarantee 'l-diversity(3)' --out release"
    """
    file, flags = str(table["label"]), table_flags(table)
    reads = table_flags(table, reads=True)
    promise = ["--guarantee", guarantee]
    kept = [*promise, *(["--mechanism", mechanism] if mechanism else [])]
    publish, out = ["publish", file, *flags, *kept], ["--out", "release"]
    quasi = [name for name, role in table["roles"].items() if role == "quasi"]
    role_flags = _given(table, ("quasi", "sensitive"))
    shown = [
        ("The same release by the command line", [*publish, *out]),
        ("Advice on every promise", ["advise", file, *flags, "--target-error", "0.1"]),
        (
            "The table as it stands: how many people share their quasi-identifiers, and what "
            "they have",
            ["check", file, *role_flags, *reads],
        ),
        (
            "Your own hierarchy for a quasi-identifier that is merged, leaf to root",
            [*publish, "--hierarchy", f"{(quasi or ['city'])[0]}=levels.csv", *out],
        ),
        (
            "Values that nobody has in every bucket, against people who know others of it",
            ["publish", file, *flags, *promise, "--mechanism", "optimal(fakes=2)", *out],
        ),
        (
            "The same people again, each drawn alike: a key file, and the release before",
            [*publish, "--key-file", "steward.key", "--previous", "release", "--out", "next"],
        ),
        (
            "Several sensitive columns, the promise kept for what they tell together",
            [*publish, "--joint", *out],
        ),
        (
            "Several releases of the same people: a private ledger, which refuses one too many",
            [*publish, "--ledger", "people.ledger", *out],
        ),
        (
            "A receipt, with which an audit repeats the publication and compares",
            [*publish, "--receipt", "release.receipt", *out],
        ),
        (
            "One table in several files",
            ["publish", "part-*.parquet", *flags, *kept, *out],
        ),
        ("A table in PostgreSQL", ["publish", DATABASE, *flags, *kept, *out]),
        (
            "A gate: attacks on so many people, which fail above a limit",
            ["attack", file, "release", *reads, "--targets", "2000", "--require", "advantage<=0.1"],
        ),
        (
            "A report with a receipt, or with chosen attacks and questions",
            [
                "report",
                "release",
                "--table",
                file,
                *reads,
                "--attack",
                "linkage",
                "--questions",
                "500",
            ],
        ),
    ]
    return [{"what": what, "command": shlex.join(["sfumato", *words])} for what, words in shown]


def table_flags(table: Mapping[str, Any], *, reads: bool = False) -> list[str]:
    """What was said of a table, as flags; `reads` has only how its file is written."""
    said = [] if reads else _given(table, ROLES)
    for option in TABLE_OPTIONS:
        value = table["options"].get(option.name)
        if value in (None, "", False) or (reads and not option.reads):
            continue
        flag = f"--{option.flag_name}"
        if option.form == "switch":
            said.append(flag)
        elif option.form == "each":
            for column, text in value.items():
                said += [flag, f"{column}={text}"]
        else:
            said += [flag, ",".join(value) if isinstance(value, list) else str(value)]
    return said


def _given(table: Mapping[str, Any], roles: tuple[str, ...]) -> list[str]:
    said = []
    for role in roles:
        columns = [name for name, value in table["roles"].items() if value == role]
        said += [f"--{role}", ",".join(columns)] if columns else []
    return said
