"""A refused command: all that is wrong at once, and one command to paste instead."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.table_options import TABLE_OPTIONS


@contextmanager
def all_problems(
    table: Any,
    guarantee: str | None,
    roles: Mapping[str, Any],
    mechanism: str | None = None,
    left_out: str = "1/4",
) -> Iterator[None]:
    """Where the work is refused for something that can be repaired, say what else would be."""
    try:
        yield
    except SfumatoError as error:
        if not error.repair and not isinstance(error, InfeasibleGuarantee):
            raise
        from sfumato.outlook.refusals import diagnose

        diagnosis = diagnose(table, guarantee, roles, left_out, mechanism)
        if not diagnosis.problems:
            raise
        lines = [problem.with_flags for problem in diagnosis.problems]
        if len(lines) > 1:
            numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
            lines = [f"{len(lines)} things are wrong:", *numbered]
        if diagnosis.repaired:
            lines.append("This repairs it; look whether it is what you mean:")
            lines.append(f"  {repaired_command(sys.argv[1:], diagnosis.repairs)}")
        refused = SfumatoError("\n".join(lines))
        refused.exit_code = max(problem.exit_code for problem in diagnosis.problems)
        raise refused from None


def repaired_command(arguments: list[str], repairs: Mapping[str, Any]) -> str:
    """The command line with these options.

    >>> repaired_command(
    ...     ["publish", "a.csv", "--quasi", "agee"], {"quasi": ["age"], "drop_rest": True}
    ... )
    'sfumato publish a.csv --quasi age --drop-rest'
    """
    flags = {option.name: option.flag_name for option in TABLE_OPTIONS}
    line = list(arguments)
    for option, value in repairs.items():
        flag = f"--{flags.get(option, option.replace('_', '-'))}"
        text = ",".join(value) if isinstance(value, list | tuple) else str(value)
        for index in reversed([k for k, word in enumerate(line) if word == flag]):
            del line[index : index + 2]
        line[:] = [word for word in line if not word.startswith(f"{flag}=")]
        line += [flag] if value is True else [flag, text] if value else []
    return shlex.join(["sfumato", *line])
