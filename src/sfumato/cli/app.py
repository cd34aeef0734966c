"""The program: its commands, its job file, its exit codes."""

from __future__ import annotations

import os
import re
import sys
import tomllib
import warnings
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
    "More": ("serve", "export", "generate", "keygen", "demo"),
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
    context: typer.Context,
    job: Annotated[
        Path | None, typer.Option(help="A TOML file that holds what the flags say.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish a table of people: totals stay sharp, single lines vanish."""
    if job is not None:
        context.default_map = read_job(job, context)


def read_job(path: Path, context: typer.Context) -> dict[str, Any]:
    """A job file: one TOML table per command, keys named like the flags.

    `[publish]`, `guarantee = "rho-privacy(1/13, 1/6)"`, … What is said of the table can stand once,
    under `[table]`, for every command that takes it: `quasi = ["age", "sex"]`. A name that no
    command or flag has is refused: a promise must not get lost in a misspelling.
    """
    commands: dict[str, Any] = getattr(context.command, "commands", {})
    try:
        job = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(f"There is no job file {str(path)!r}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the job file {str(path)!r}: {error}.") from None
    settings: dict[str, Any] = {}
    for command, values in job.items():
        if not isinstance(values, dict):
            raise UsageError(
                f"The job file {str(path)!r} has the key {command!r} outside a table. Put it under "
                "[publish] or another command."
            )
        if command not in commands and command != SHARED:
            raise UsageError(
                f"The job file {str(path)!r} has a table [{command}], but there is no such "
                f"command. Commands: {', '.join(sorted(commands))}; [{SHARED}] is for all of them."
            )
    shared = {key.replace("_", "-"): value for key, value in job.pop(SHARED, {}).items()}
    places = _places(job, shared)
    table_flags = {FILE, *(option.flag_name for option in TABLE_OPTIONS)}
    for key in shared:
        if key not in table_flags:
            raise UsageError(
                f"The job file {str(path)!r} sets {key!r} under [{SHARED}], which nothing says of "
                f"a table. There are: {', '.join(sorted(table_flags))}."
            )
    for command in commands:
        flags = {
            option.lstrip("-"): parameter
            for parameter in commands[command].params
            for option in parameter.opts
        }
        own_settings = job.get(command, {})
        said = {key: value for key, value in (shared | places).items() if key in flags}
        parsed = {}
        for key, value in (said | own_settings).items():
            parameter = flags.get(key.replace("_", "-")) or flags.get(key)
            if parameter is None:
                raise UsageError(
                    f"The job file {str(path)!r} sets {key!r} under [{command}], which that "
                    f"command does not have. It has: {', '.join(sorted(flags))}."
                )
            if parameter.name == "guarantee" and isinstance(value, dict):
                value = promise_text(value)  # by column
            parsed[parameter.name] = _flag_value(value, bool(parameter.multiple))
        if parsed:
            settings[command] = parsed
    return settings


def _places(job: dict[str, Any], shared: dict[str, Any]) -> dict[str, str]:
    """Where table and release are, for every command that has an argument of that name."""
    places = {"table": shared.get(FILE), "release": job.get("publish", {}).get("out")}
    return {name: str(place_name) for name, place_name in places.items() if place_name is not None}


def _flag_value(value: Any, multiple: bool) -> Any:
    if multiple and isinstance(value, dict):
        return [f"{column}={_joined(text)}" for column, text in value.items()]
    if multiple:
        return [str(part) for part in value] if isinstance(value, list) else [str(value)]
    return _joined(value) if isinstance(value, list) else value


def _joined(value: Any) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, list) else str(value)


def run(program: typer.Typer | None = None) -> None:
    """Run the program, or another in its manner; every error is one message and an exit code."""
    _own_standard_output()
    # outside the handlers: an error that is still held at exit holds its database open
    sys.exit(_run(program or _whole_program()))


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
    from sfumato.cli import (  # noqa: F401  registers them
        advise,
        attack,
        check,
        commands,
        compare,
        export,
        init,
        keys,
        report,
        serve,
        tables,
    )

    groups = {name: group for group, names in GROUPS.items() for name in names}
    for command in app.registered_commands:
        command.rich_help_panel = groups.get(_name(command))
    order = {name: index for index, name in enumerate(groups)}
    app.registered_commands.sort(key=lambda command: order.get(_name(command), len(order)))
    return app


def _name(command: typer.models.CommandInfo) -> str:
    return str(command.name or getattr(command.callback, "__name__", ""))


def _run(program: typer.Typer) -> int:
    warnings.showwarning = _show_warning
    stopping.watch()
    try:
        program(_job_first(_with_job(sys.argv[1:], program)))
    except SfumatoError as error:
        _complain(error.with_flags)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except stopping.Stopped as stopped:
        _complain(stopping.message(stopped.number))
        return stopping.exit_code(stopped.number)
    except KeyboardInterrupt:
        _complain(stopping.message(stopping.received()))
        return stopping.exit_code(stopping.received())
    except OSError as error:
        where = f" {str(error.filename)!r}" if error.filename else ""
        _complain(f"Cannot use{where or ' a file'}: {error.strerror or error}.")
        return 2
    except Exception as error:
        reached = limit_behind(error)
        if reached is None:
            raise
        _complain(str(reached))
        return reached.exit_code
    return 0


def _with_job(arguments: list[str], program: typer.Typer) -> list[str]:
    """The arguments, with the job file that lies in the folder where it is meant.

    It is meant by a command on a table or release that names none, or the same as the file.
    """
    if any(argument.split("=")[0] == "--job" for argument in arguments) or not Path(JOB).is_file():
        return arguments
    commands: dict[str, Any] = getattr(typer.main.get_command(program), "commands", {})
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    if name not in commands or name == "init":
        return arguments
    command, rest = commands[name], arguments[arguments.index(name) + 1 :]
    try:
        job = tomllib.loads(Path(JOB).read_text(encoding="utf-8"))
        places = _places(job, job.get(SHARED, {}))
        empty = command.make_context(name, [], resilient_parsing=True)
        given_flags, *_ = command.make_parser(empty).parse_args(list(rest))
        if name == "query":
            return _with_release(arguments, given_flags, places.get("release"))
    except Exception:  # whoever reads the file or the arguments says what is wrong
        return ["--job", JOB, *arguments]
    asked = [param.name for param in command.params if param.name in places]
    named = {
        param: given_flags[param].rstrip("/")
        for param in asked
        if isinstance(given_flags.get(param), str)
    }
    others = any(places[flag].rstrip("/") != option for flag, option in named.items())
    return arguments if others or not asked else ["--job", JOB, *arguments]


def _with_release(arguments: list[str], given: dict[str, Any], release: str | None) -> list[str]:
    """A question alone is for the release of the job file.

    >>> _with_release(["query", "SELECT 1"], {"release": "SELECT 1"}, "out")
    ['query', 'out', 'SELECT 1']
    """
    question = given.get("release")
    if release is None or not isinstance(question, str) or isinstance(given.get("sql"), str):
        return arguments
    index = arguments.index(question)
    return [*arguments[:index], release, *arguments[index:]]


def _job_first(arguments: list[str]) -> list[str]:
    """The job file belongs to the program, wherever on the line it is named.

    >>> _job_first(["publish", "people.csv", "--job", "job.toml"])
    ['--job', 'job.toml', 'publish', 'people.csv']
    """
    ends = arguments.index("--") if "--" in arguments else len(arguments)
    for index, argument in enumerate(arguments[:ends]):
        if argument == "--job" or argument.startswith("--job="):
            after = index + (1 if "=" in argument else 2)
            return arguments[index:after] + arguments[:index] + arguments[after:]
    return arguments


def _complain(message: str) -> None:
    # the address of a database may stand where a file or folder was expected
    shown = re.sub(r"(\w+:/+)\S*@", r"\1…@", message)
    print(f"sfumato: {shown}", file=sys.stderr)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"sfumato: warning: {message}", file=sys.stderr)
