"""Commands and their flags, declared: a flag is a line, and what commands share is done here.

A command is a function of what its flags say. It gives back what is to be shown, as text or, with
`--json`, as one JSON object.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from sfumato.cli import stopping
from sfumato.cli.app import app
from sfumato.cli.refusals import all_problems
from sfumato.cli.show import progress_line, show_json
from sfumato.errors import SfumatoError, UsageError
from sfumato.limits import limited, memory_of_machine, size
from sfumato.table_options import TABLE_OPTIONS, TableOption

QUESTION = 120.0  # seconds that a question may take, here and on the page
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Flag:
    """A parameter of a command. `default` is ... where it must be given; `flag` is how it is said
    where that is not `--name`; `argument` says that it stands by itself."""

    name: str
    kind: Any
    help: str
    default: Any = None
    flag: str = ""
    panel: str | None = None
    hidden: bool = False
    least: float | None = None
    argument: bool = False

    def parameter(self) -> inspect.Parameter:
        kind = self.kind if self.default is not None else self.kind | None
        if self.argument:
            shown = typer.Argument(self.default, help=self.help)
        else:
            said = self.flag or f"--{self.name.replace('_', '-')}"
            more: dict[str, Any] = {"hidden": self.hidden, "rich_help_panel": self.panel}
            shown = typer.Option(self.default, said, help=self.help, min=self.least, **more)
        only = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, only, default=shown, annotation=kind)


TABLE = Flag(
    "table", str,
    "Parquet, CSV, Arrow, Excel, SPSS, SAS or Stata file; a glob takes many. "
    "Or postgresql://host/db?table=NAME, or s3://bucket/path.", ..., argument=True,
)  # fmt: skip
RELEASE = Flag("release", Path, "The release folder.", ..., argument=True)
PLOT = Flag("plot", Path, "Draw it with its error bars: .html, .png or .svg.")
THREADS = Flag("threads", int, "Threads to use; all by default.", hidden=True)
CONFIDENCE = Flag("confidence", float, "Of the intervals.", 0.95)
ESTIMATOR = Flag("estimator", str, "How to estimate; the release's default otherwise.")
ATTACKS = Flag("attacks", list[str], "An attack; all by default. Repeatable.", flag="--attack")
TARGETS = Flag("targets", int, "How many people are attacked; 2,000 by default.", least=1)
QUESTIONS = Flag("questions", int, "How many questions are asked.", 1000, least=1)
_JSON = Flag("as_json", bool, "One JSON object on standard output.", False, "--json")
_LIMITS = (
    Flag("timeout", float, "Seconds after which to stop; 0 for never.", 0.0, hidden=True),
    Flag("memory_limit", str, "Memory to use; half of the machine's.", hidden=True),
    Flag("spill_limit", str, "Disk to use; half of what is free.", hidden=True),
)


@dataclass(frozen=True)
class Shown:
    """What a command found: to be printed, or as JSON; the exit code; and what comes after it is
    shown, which is told whether that was JSON."""

    text: Any
    document: Any
    code: int = 0
    then: Callable[[bool], None] = lambda as_json: None


def command(
    *flags: Flag, roles: bool = False, reads: bool = False, stage: str = "", timeout: float = 0.0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command of a function that takes these flags by name.

    With `roles` it takes what is said of a table as `roles`, ready for `read`: nothing where
    nothing was said, and only how it is to be read where nothing else was. With `reads` its `table`
    or `tables` are ready to be read. With a first `stage` it may take long: it is given a callback
    `progress`, and has flags that limit time, which is `timeout` else, memory and disk.
    """
    options = [option for option in TABLE_OPTIONS if roles or (reads and option.reads)]
    limits = [replace(flag, default=timeout) if flag.name == "timeout" else flag
              for flag in _LIMITS if stage]  # fmt: skip

    def declared(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*, as_json: bool = False, **named: Any) -> None:
            said = {option: named.pop(option.name) for option in options}
            held = {flag.name: named.pop(flag.name) for flag in limits}
            for name in _THREADS if named.get("threads") is not None else ():
                os.environ[name] = str(named["threads"])  # before numpy is loaded
            if roles:
                named["roles"] = _roles(said)
            elif reads:
                _find_sources(named, said)
            if "guarantee" in named:  # as often as it was said: all are kept
                promises = named["guarantee"]
                named["guarantee"] = " and ".join(promises) if promises else None
            found = _called(function, named, held, stage)
            if found is None:
                return
            shown = found if isinstance(found, Shown) else Shown(found, found)
            if as_json:
                show_json(shown.document)
            else:
                print(shown.text)
            shown.then(as_json)
            if shown.code:
                raise typer.Exit(shown.code)

        first = [flag for flag in flags if flag.argument]
        others = [flag for flag in flags if not flag.argument]
        listed = [flag.parameter() for flag in first]
        listed += [_table_flag(option).parameter() for option in options]
        listed += [flag.parameter() for flag in (*others, *limits)]
        if function.__name__ not in ("serve", "demo"):  # what they print comes as they go
            listed.append(_JSON.parameter())
        run.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
        return app.command()(run)

    return declared


def _called(
    function: Callable[..., Any], named: dict[str, Any], held: dict[str, Any], stage: str
) -> Any:
    """What a command finds; where a table is refused, all that is wrong with it."""
    if not stage:
        return function(**named)
    with _limited(**held), progress_line(stage) as progress:
        try:
            return function(**named, progress=progress)
        except SfumatoError as error:
            raise (all_problems(error, named) if "roles" in named else error) from None


def _limited(timeout: float, memory_limit: str | None, spill_limit: str | None) -> ExitStack:
    """Hold what follows to its limits."""
    if timeout < 0:
        raise UsageError(f"--timeout takes seconds from 0 up. Got {timeout:g} instead.")
    memory = size(memory_limit, "--memory-limit") if memory_limit else memory_of_machine() // 2
    spill = size(spill_limit, "--spill-limit") if spill_limit else None
    stack = ExitStack()
    stack.enter_context(stopping.held_to(timeout, memory))
    stack.enter_context(limited(memory=memory, spill=spill))
    return stack


def _roles(said: Mapping[TableOption, Any]) -> dict[str, Any]:
    given = {option for option, value in said.items() if value != option.default}
    declares = any(not option.reads for option in given)
    return {
        option.name: option.from_flags(value)
        for option, value in said.items()
        if declares or option in given
    }


def _find_sources(named: dict[str, Any], said: Mapping[TableOption, Any]) -> None:
    given = {option.name: value for option, value in said.items() if value != option.default}
    if not given:
        return
    from sfumato.table.reading import Reading
    from sfumato.table.sources import find_source

    reading = Reading.of(**given)
    if named.get("table") is not None:
        named["table"] = find_source(named["table"], reading)


def _table_flag(option: TableOption) -> Flag:
    kind = {"each": list[str], "switch": bool}.get(option.form, str)
    shown = {"hidden": option.seldom, "panel": option.panel}
    return Flag(option.name, kind, option.help, option.default, f"--{option.flag_name}", **shown)  # type: ignore[arg-type]
