"""The command line's words for what the page is doing, and for what the page does not do.

Every command is made from the declared table and the promise in hand, ready to be copied.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sfumato.table_options import ROLES, TABLE_OPTIONS, flag_words

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
    words = {
        "FILE": [str(table["label"])],
        "FLAGS": table_flags(table),
        "READS": table_flags(table, reads=True),
        "ROLES": _given(table, ("quasi", "sensitive")),
        "PROMISE": ["--guarantee", guarantee],
        "BY": ["--mechanism", mechanism] if mechanism else [],
        "DATABASE": [DATABASE],
    }
    return [
        {
            "what": what,
            "command": shlex.join(
                ["sfumato", *(part for word in line.split() for part in words.get(word, [word]))]
            ),
        }
        for what, line in _COMMANDS.items()
    ]


_PUBLISH = "publish FILE FLAGS PROMISE BY"
_COMMANDS = {
    "The same release by the command line": f"{_PUBLISH} --out release",
    "Advice on every promise": "advise FILE FLAGS --target-error 0.1",
    "The table as it stands: how many people share their quasi-identifiers, and what they have": (
        "check FILE ROLES READS"
    ),
    "Values that nobody has in every bucket, against people who know others of it": (
        "publish FILE FLAGS PROMISE --mechanism optimal(fakes=2) --out release"
    ),
    "The same people again, each drawn alike: a key file, and the release before": (
        f"{_PUBLISH} --key-file steward.key --previous release --out next"
    ),
    "Several sensitive columns, the promise kept for what they tell together": (
        f"{_PUBLISH} --joint --out release"
    ),
    "Several releases of the same people: a private ledger, which refuses one too many": (
        f"{_PUBLISH} --ledger people.ledger --out release"
    ),
    "A receipt, with which an audit repeats the publication and compares": (
        f"{_PUBLISH} --receipt release.receipt --out release"
    ),
    "One table in several files": "publish part-*.parquet FLAGS PROMISE BY --out release",
    "A table in PostgreSQL": "publish DATABASE FLAGS PROMISE BY --out release",
    "Promises compared: what each gives away, what its answers are worth": (
        "compare FILE FLAGS --out comparison"
    ),
    "What every attack reaches": "attack FILE release READS --targets 2000 --verbose",
    "A report with a receipt, or with chosen attacks and questions": (
        "report release --table FILE READS --attack linkage --questions 500"
    ),
}


def table_flags(table: Mapping[str, Any], *, reads: bool = False) -> list[str]:
    """What was said of a table, as flags; `reads` has only how its file is written."""
    said = [] if reads else _given(table, ROLES)
    for option in TABLE_OPTIONS:
        if option.reads or not reads:
            said += flag_words(f"--{option.flag_name}", table["options"].get(option.name))
    return said


def _given(table: Mapping[str, Any], roles: tuple[str, ...]) -> list[str]:
    said = []
    for role in roles:
        columns = [name for name, value in table["roles"].items() if value == role]
        said += flag_words(f"--{role}", ",".join(columns))
    return said
