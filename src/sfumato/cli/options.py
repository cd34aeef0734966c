"""The flags that several commands share, and what they say together."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import stopping
from sfumato.errors import UsageError
from sfumato.limits import limited, memory_of_machine, size
from sfumato.table_options import TABLE_OPTIONS, TableOption

PROMISE, OUTPUT, RESOURCES = "Promise", "Output", "Resources"  # groups of the help
QUESTION = 120.0  # seconds that a question may take, here and on the page

Origin = Annotated[
    str,
    typer.Argument(
        help="Parquet, CSV, Arrow, Excel, SPSS, SAS or Stata file; a glob takes many. "
        "Or postgresql://host/db?table=NAME, or s3://bucket/path."
    ),
]
Folder = Annotated[Path, typer.Argument(help="The release folder.")]
Plot = Annotated[
    Path | None, typer.Option(help="Draw it with its error bars: .html, .png or .svg.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def _limit_threads(given: int | None) -> int | None:
    """Before numpy is loaded: matrices keep to as many threads as everything else."""
    if given is not None:
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(given)
    return given


Threads = Annotated[
    int | None,
    typer.Option(help="Threads to use; all by default.", callback=_limit_threads, hidden=True),
]


def limit_flags(
    timeout: float = 0.0,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags that limit its time, memory, disk and output, and hold it to them.

    `timeout` is the usual one in seconds, 0 for none.
    """
    flags = [
        _named_flag("timeout", float, timeout, "Seconds after which to stop; 0 for never."),
        _named_flag("memory_limit", str | None, None, "Memory to use; half of the machine's."),
        _named_flag("spill_limit", str | None, None, "Disk to use; half of what is free."),
    ]

    def added(command: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(command, eval_str=True).parameters
        listed = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in parameters.values()
        ]

        @wraps(command)
        def run(**named: Any) -> None:
            seconds, memory, spill = (named.pop(flag.name) for flag in flags)
            if seconds < 0:
                raise UsageError(f"--timeout takes seconds from 0 up. Got {seconds:g} instead.")
            most = size(memory, "--memory-limit") if memory else memory_of_machine() // 2
            disk = size(spill, "--spill-limit") if spill else None
            with stopping.held_to(seconds, most), limited(memory=most, spill=disk):
                command(**named)

        return _signed(run, [*listed, *flags])

    return added


def _named_flag(name: str, kind: Any, default: Any, words: str) -> inspect.Parameter:
    """A flag of every long command, which no help shows."""
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(
            default,
            f"--{name.replace('_', '-')}",
            help=words,
            hidden=True,
        ),
        annotation=kind,
    )


def _signed(run: Callable[..., None], listed: list[inspect.Parameter]) -> Callable[..., None]:
    """Show the command line these parameters."""
    run.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
    return run


def table_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of every table option, where its parameter `roles` stands.

    It has them there as `read` takes them; nothing where nothing was said of the table, and only
    how it is to be read where nothing else was.
    """

    def handed(said: dict[TableOption, Any], named: dict[str, Any]) -> None:
        said_options = {option for option, value in said.items() if value != option.default}
        declares = any(not option.reads for option in said_options)
        roles = {
            option.name: option.from_flags(value)
            for option, value in said.items()
            if declares or option in said_options
        }
        command(**named, roles=roles)

    return _with_flags(command, TABLE_OPTIONS, handed)


def reading_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags that say how a raw table is written, where `reading` stands.

    The command gets its `table`, or all of its `tables`, ready to be read.
    """

    def handed(said: dict[TableOption, Any], named: dict[str, Any]) -> None:
        given = {option.name: value for option, value in said.items() if value != option.default}
        if given:
            from sfumato.table.reading import Reading
            from sfumato.table.sources import find_source

            reading = Reading.of(**given)
            if named.get("table") is not None:
                named["table"] = find_source(named["table"], reading)
            if "tables" in named:
                named["tables"] = [find_source(table, reading) for table in named["tables"]]
        command(**named, reading=given)

    return _with_flags(command, [option for option in TABLE_OPTIONS if option.reads], handed)


def _with_flags(
    command: Callable[..., None],
    options: Sequence[TableOption],
    handed: Callable[[dict[TableOption, Any], dict[str, Any]], None],
) -> Callable[..., None]:
    parameters = inspect.signature(command, eval_str=True).parameters
    flags = [_flag(option) for option in options]
    lists = [
        flags if parameter.name in ("roles", "reading") else [parameter]
        for parameter in parameters.values()
    ]
    # the command line names all that it gives, so their order is only that of the help
    listed = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in chain(*lists)]

    @wraps(command)
    def run(**named: Any) -> None:
        handed({option: named.pop(option.name) for option in options}, named)

    return _signed(run, listed)


def _flag(option: TableOption) -> inspect.Parameter:
    kinds: dict[str, Any] = {
        "column": str | None,
        "text": str | None,
        "each": list[str] | None,
        "switch": bool,
    }
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(
            option.default,
            f"--{option.flag_name}",
            help=option.help,
            hidden=option.seldom,
            rich_help_panel=option.panel,
        ),
        annotation=kinds.get(option.form, str),
    )
