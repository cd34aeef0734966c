"""The command that the page names is one that the command line takes as it stands."""

from __future__ import annotations

import shlex

import typer

from sfumato.cli.app import _whole_program
from sfumato.web.commands import publish_command

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


def test_the_command_line_takes_the_command() -> None:
    program, name, *words = shlex.split(publish_command(TABLE, "l-diversity(3)", "optimal"))
    assert (program, name) == ("sfumato", "publish")
    group = typer.main.get_command(_whole_program())
    command = group.commands[name]  # type: ignore[attr-defined]
    context = command.make_context(name, words)
    assert not context.args
    given = context.params
    assert given["guarantee"] in ("l-diversity(3)", ["l-diversity(3)"])
    assert given["mechanism"] == "optimal"
    assert given["person"] == "nbr"
    assert given["recode"] == ["age=round(5)"]
