"""Commands that the page names: each is one that the command line takes as it stands."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import typer

from sfumato.cli.app import _whole_program
from sfumato.web.commands import commands

TABLE = {
    "label": "hospital stays.csv",
    "roles": {
        "age": "quasi",
        "sex": "quasi",
        "ill": "sensitive",
        "nbr": "person",
        "stay": "drop",
    },
    "options": {
        "missing": "drop",
        "missing_markers": "?,NA",
        "recode": {"age": "round(5)"},
        "categorical": ["sex"],
        "separator": ";",
    },
}
FOUND = commands(TABLE, "l-diversity(3)", "optimal")


@pytest.mark.parametrize("told", FOUND, ids=lambda told: told["command"].split()[1])
def test_the_command_line_takes_every_command(told: dict[str, Any]) -> None:
    program, name, *words = shlex.split(told["command"])
    assert program == "sfumato"
    group = typer.main.get_command(_whole_program())
    command = group.commands[name]  # type: ignore[attr-defined]
    context = command.make_context(name, words)
    assert not context.args
    given = context.params
    if name == "publish":
        assert given["guarantee"] in ("l-diversity(3)", ["l-diversity(3)"])
        assert given["person"] == "nbr"
        assert given["recode"] == ["age=round(5)"]


def test_all_that_the_page_leaves_to_the_command_line_is_named() -> None:
    every = " ".join(told["command"] for told in FOUND)
    for part in ("advise", "check", "optimal(fakes=2)", "--key-file", "--previous",
                 "postgresql://", "part-*.parquet", "attack", "compare", "--joint", "--ledger",
                 "--receipt"):  # fmt: skip
        assert part in every
