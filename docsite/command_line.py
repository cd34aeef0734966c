"""The reference of the command line, from the program itself."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

from sfumato.cli.app import _whole_program


def command_line_page() -> str:
    """One section per command, with every argument and flag."""
    commands: dict[str, Any] = get_command(_whole_program()).commands  # type: ignore[attr-defined]
    parts = [
        "# The command line",
        "Written by the program itself. `sfumato COMMAND --help` shows the same in a terminal. A "
        "job file (`--job FILE`) may hold what flags say; see "
        "[For the steward](../steward.md). Exit codes: 0 done, 2 wrong input, 3 a promise "
        "that cannot be kept, 4 a check that fails, 5 "
        "something that could not be looked at, 128 + n stopped by signal n.",
    ]
    for name, command in commands.items():
        parts += [f"## {name}", command.help or "", _usage(name, command), _table(command)]
    return "\n\n".join(parts) + "\n"


def _usage(name: str, command: Any) -> str:
    arguments = [p.name.upper() for p in command.params if p.param_type_name == "argument"]
    needed = [
        f"{p.opts[0]} {p.name.upper()}"
        for p in command.params
        if p.param_type_name == "option" and p.required
    ]
    return f"```text\nsfumato {' '.join([name, *arguments, *needed, '[OPTIONS]'])}\n```"


def _table(command: Any) -> str:
    rows = ["| argument or flag | default | meaning |", "| --- | --- | --- |"]
    for parameter in command.params:
        flag = parameter.param_type_name == "option"
        names = ", ".join(f"`{opt if flag else opt.upper()}`" for opt in parameter.opts)
        told = (parameter.help or "").replace("|", "\\|").replace("\n", " ")
        rows.append(f"| {names} | {_default(parameter)} | {told} |")
    return "\n".join(rows)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    if parameter.default in (None, "", False):
        return ""
    return f"`{parameter.default}`"
