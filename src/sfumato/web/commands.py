"""The command line's words for what the page is doing: one command, ready to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sfumato.table_options import ROLES, TABLE_OPTIONS, flag_words


def publish_command(table: Mapping[str, Any], guarantee: str, mechanism: str | None) -> str:
    """The same release, of the declared table under the promise in hand.

    >>> table = {"label": "my people.csv", "roles": {"age": "quasi", "ill": "sensitive"},
    ...          "options": {"missing": "drop"}}
    >>> publish_command(table, "l-diversity(3)", None)
    "sfumato publish 'my people.csv' --quasi age --sensitive ill --missing drop \
--guarantee 'l-diversity(3)' --out release"
    """
    said = []
    for role in ROLES:
        columns = [name for name, value in table["roles"].items() if value == role]
        said += flag_words(f"--{role}", ",".join(columns))
    for option in TABLE_OPTIONS:
        said += flag_words(f"--{option.flag_name}", table["options"].get(option.name))
    by = ["--mechanism", mechanism] if mechanism else []
    words = ["publish", str(table["label"]), *said, "--guarantee", guarantee, *by]
    return shlex.join(["sfumato", *words, "--out", "release"])
