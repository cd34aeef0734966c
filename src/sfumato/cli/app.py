"""The program: its commands, its job file, its exit codes."""

from __future__ import annotations

import os
import re
import signal
import sys
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import stopping
from sfumato.errors import SfumatoError, UsageError
from sfumato.limits import limit_behind
from sfumato.table_options import TABLE_OPTIONS
from sfumato.textform import promise_text
from sfumato.version import __version__

JOB = "sfumato.toml"  # the job file that is taken where it lies in the folder
SHARED = "table"  # the section of a job file for what is said of the table
FILE = "file"  # in it: where the table is
GROUPS = {  # of the commands, in the order of the help
    "Start": ("init", "publish", "query", "audit", "report"),
    "Explore": ("describe", "advise", "compare", "attack", "check"),
    "Analyst": ("crosstab", "complete"),
    "More": ("serve", "generate", "keygen", "demo"),
}

app = typer.Typer(
    name="sfumato",
    help="Publish a table of people: totals stay sharp, single lines vanish.",
    no_args_is_help=True,
    add_completion=False,
    epilog="Every command also takes --timeout, --memory-limit, --spill-limit and --threads where "
    "it may take long, and the flags that say how a file is written: see docs/tables.md.",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def options(
    job: Annotated[
        Path | None, typer.Option(help="A TOML file that holds what the flags say.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish a table of people: totals stay sharp, single lines vanish."""


def read_job(path: Path, commands: Mapping[str, Any]) -> dict[str, Any]:
    """What a job file says of every command: one TOML table each, keys named like the flags.

    `[publish]`, `guarantee = "rho-privacy(1/13, 1/6)"`, … What is said of the table can stand once,
    under `[table]`, for every command that takes it: `quasi = ["age", "sex"]`. A name that no
    command or flag has is refused: a promise must not get lost in a misspelling.
    """
    named = f"The job file {str(path)!r}"
    try:
        job = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(f"There is no job file {str(path)!r}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the job file {str(path)!r}: {error}.") from None
    for section, values in job.items():
        if not isinstance(values, dict):
            raise UsageError(
                f"{named} has the key {section!r} outside a table. Put it under [publish] or "
                "another command."
            )
        if section not in commands and section != SHARED:
            raise UsageError(
                f"{named} has a table [{section}], but there is no such command. Commands: "
                f"{', '.join(sorted(commands))}; [{SHARED}] is for all of them."
            )
    shared = {key.replace("_", "-"): value for key, value in job.pop(SHARED, {}).items()}
    table_flags = {FILE, *(option.flag_name for option in TABLE_OPTIONS)}
    if unknown := sorted(shared.keys() - table_flags):
        raise UsageError(
            f"{named} sets {unknown[0]!r} under [{SHARED}], which nothing says of a table. There "
            f"are: {', '.join(sorted(table_flags))}."
        )
    shared |= _places(job, shared)
    settings: dict[str, Any] = {}
    for command, declared in commands.items():
        flags = {option.lstrip("-"): flag for flag in declared.params for option in flag.opts}
        own = {key.replace("_", "-"): value for key, value in job.get(command, {}).items()}
        if unknown := sorted(own.keys() - flags.keys()):
            raise UsageError(
                f"{named} sets {unknown[0]!r} under [{command}], which that command does not have. "
                f"It has: {', '.join(sorted(flags))}."
            )
        said = {key: value for key, value in shared.items() if key in flags} | own
        if said:
            settings[command] = {
                flags[key].name: _flag_value(key, value, bool(flags[key].multiple))
                for key, value in said.items()
            }
    return settings


def _places(job: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, str]:
    """Where table and release are, for every command that has an argument of that name."""
    places = {"table": shared.get(FILE), "release": job.get("publish", {}).get("out")}
    return {name: str(place_name) for name, place_name in places.items() if place_name is not None}


def _flag_value(key: str, value: Any, multiple: bool) -> Any:
    """
    >>> _flag_value("recode", {"age": "rare(20)"}, True), _flag_value("quasi", ["a", "b"], False)
    (['age=rare(20)'], 'a,b')
    """
    if key == "guarantee" and isinstance(value, dict):
        value = promise_text(value)  # by column
    if multiple and isinstance(value, dict):
        return [f"{column}={_flag_value('', text, False)}" for column, text in value.items()]
    if multiple:
        return [str(part) for part in value] if isinstance(value, list) else [str(value)]
    return ",".join(map(str, value)) if isinstance(value, list) else value


def run(program: typer.Typer | None = None, name: str = "sfumato") -> None:
    """Run the program, or another in its manner; every error is one message and an exit code."""
    _own_standard_output()
    # outside the handlers: an error that is still held at exit holds its database open
    sys.exit(_run(program or _whole_program(), name))


def _own_standard_output() -> None:
    """Keep standard output for answers: what a library prints by itself (HiGHS does) is a note."""
    out = sys.stdout
    if id(out) != id(sys.__stdout__):  # somebody else's, such as a test's
        return
    try:
        kept = os.dup(out.fileno())
        os.dup2(sys.stderr.fileno(), out.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or no file at all
        return
    # open until the very end, like any standard output
    sys.stdout = os.fdopen(kept, "w", encoding=out.encoding, errors=out.errors, closefd=False)


def _whole_program() -> typer.Typer:
    from sfumato.cli import explore, more, serve, start  # noqa: F401  registers them

    groups = {name: group for group, names in GROUPS.items() for name in names}
    named = {command.callback.__name__: command for command in app.registered_commands}  # type: ignore[union-attr]
    app.registered_commands[:] = [named[name] for name in groups]
    for name, group in groups.items():
        named[name].rich_help_panel = group
    return app


def _run(program: typer.Typer, name: str) -> int:
    warnings.showwarning = _show_warning
    stopping.watch()
    try:
        root = typer.main.get_command(program)
        commands: Mapping[str, Any] = getattr(root, "commands", {})
        arguments, job = _with_job(sys.argv[1:], commands)
        settings = None if job is None else read_job(Path(job), commands)
        root(arguments, prog_name=name, default_map=settings)
    except SfumatoError as error:
        _complain(error.with_flags)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (stopping.Stopped, KeyboardInterrupt):
        return _stopped()
    except OSError as error:
        where = f" {str(error.filename)!r}" if error.filename else ""
        _complain(f"Cannot use{where or ' a file'}: {error.strerror or error}.")
        return 2
    except Exception as error:
        if stopping.received() is not None:  # DuckDB tells a signal as an error of its own
            return _stopped()
        reached = limit_behind(error)
        if reached is None:
            raise
        _complain(str(reached))
        return reached.exit_code
    return 0


def _stopped() -> int:
    number = stopping.received() or signal.SIGINT
    _complain(stopping.message(number))
    return stopping.exit_code(number)


def _with_job(arguments: list[str], commands: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """The arguments without `--job`, which may stand anywhere, and the job file that is meant.

    One that lies in the folder is meant by a command on a table or release that names none, or the
    same as the file. A question, or a crosstab's columns, alone are for its release.

    >>> _with_job(["publish", "people.csv", "--job", "job.toml"], {})
    (['publish', 'people.csv'], 'job.toml')
    """
    ends = arguments.index("--") if "--" in arguments else len(arguments)
    for index, argument in enumerate(arguments[:ends]):
        flag, equals, path = argument.partition("=")
        if flag == "--job" and (equals or index + 1 < len(arguments)):
            rest = arguments[:index] + arguments[index + (1 if equals else 2) :]
            return rest, path if equals else arguments[index + 1]
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    if name not in commands or name == "init" or not Path(JOB).is_file():
        return arguments, None
    command, rest = commands[name], arguments[arguments.index(name) + 1 :]
    try:
        job = tomllib.loads(Path(JOB).read_text(encoding="utf-8"))
        places = _places(job, job.get(SHARED, {}))
        empty = command.make_context(name, [], resilient_parsing=True)
        named, *_ = command.make_parser(empty).parse_args(list(rest))
    except Exception:  # whoever reads the file or the arguments says what is wrong
        return arguments, JOB
    texts = {key: value for key, value in named.items() if isinstance(value, str)}
    needed = [p.name for p in command.params if p.param_type_name == "argument" and p.required]
    alone = needed[:1] == ["release"] and "release" in texts and needed[-1] not in texts
    if alone and texts["release"] != places.get("release", texts["release"]):
        index = arguments.index(texts["release"])  # it is what is asked of the release
        arguments = [*arguments[:index], places["release"], *arguments[index:]]
        texts["release"] = places["release"]
    asked = [parameter.name for parameter in command.params if parameter.name in places]
    same = all(texts.get(key, places[key]).rstrip("/") == places[key].rstrip("/") for key in asked)
    return arguments, JOB if asked and same else None


def _complain(message: str) -> None:
    # the address of a database may stand where a file or folder was expected
    shown = re.sub(r"(\w+:/+)\S*@", r"\1…@", message)
    print(f"sfumato: {shown}", file=sys.stderr)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"sfumato: warning: {message}", file=sys.stderr)
