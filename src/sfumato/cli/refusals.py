"""A refused command: all that is wrong at once, and one command to paste instead."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.table_options import TABLE_OPTIONS, flag_words


def all_problems(error: SfumatoError, asked: Mapping[str, Any]) -> SfumatoError:
    """What else would be refused of a table and a promise, where the first can be repaired."""
    if not error.repair and not isinstance(error, InfeasibleGuarantee):
        return error
    from sfumato.outlook.refusals import diagnose

    said = {name: asked.get(name) for name in ("guarantee", "mechanism")}
    left_out = asked.get("left_out", "1/4")
    problems, repairs = diagnose(asked["table"], roles=asked["roles"], left_out=left_out, **said)
    if not problems:
        return error
    lines = [problem.with_flags for problem in problems]
    if len(lines) > 1:
        numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
        lines = [f"{len(lines)} things are wrong:", *numbered]
    if repairs is not None:
        lines.append("This repairs it; look whether it is what you mean:")
        lines.append(f"  {repaired_command(sys.argv[1:], repairs)}")
    refused = SfumatoError("\n".join(lines))
    refused.exit_code = max(problem.exit_code for problem in problems)
    return refused


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
        for index in reversed([k for k, word in enumerate(line) if word == flag]):
            del line[index : index + 2]
        line[:] = [word for word in line if not word.startswith(f"{flag}=")]
        line += flag_words(flag, value)
    return shlex.join(["sfumato", *line])
