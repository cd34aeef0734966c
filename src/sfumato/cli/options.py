"""The flags that several commands share, and what they say together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.errors import UsageError
from sfumato.table_options import TABLE_OPTIONS, TableOption

Origin = Annotated[
    str,
    typer.Argument(
        help="Parquet, CSV or Arrow file; a glob takes many. Or postgresql://host/db?table=NAME."
    ),
]
Folder = Annotated[Path, typer.Argument(help="The release folder.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Bound = Annotated[
    str | None, typer.Option(help="Reconstruction privacy: exact (default) or chernoff.")
]
MergeBy = Annotated[
    str | None,
    typer.Option("--merge", help="Reconstruction privacy: components (default), complete, none."),
]
Significance = Annotated[
    str | None, typer.Option(help="Of the test for merging quasi values; 0.05 by default.")
]
Threads = Annotated[int | None, typer.Option(help="Threads to use; all by default.")]


def table_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of every table option, where its parameter `roles` stands.

    It has them there as `read` takes them; nothing where nothing was said of the table.
    """
    given = inspect.signature(command, eval_str=True).parameters
    flags = [_flag(option) for option in TABLE_OPTIONS]
    own = [[each] if each.name != "roles" else flags for each in given.values()]
    # the command line names all that it gives, so their order is only that of the help
    listed = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in chain(*own)]

    @wraps(command)
    def run(**named: Any) -> None:
        said = {option: named.pop(option.name) for option in TABLE_OPTIONS}
        silent = all(given == option.default for option, given in said.items())
        roles = {option.name: option.from_flags(given) for option, given in said.items()}
        command(**named, roles={} if silent else roles)

    run.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in listed}
    return run


def _flag(option: TableOption) -> inspect.Parameter:
    kinds: dict[str, Any] = {"column": str | None, "each": list[str] | None}
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(option.default, f"--{option.flag_name}", help=option.help),
        annotation=kinds.get(option.form, str),
    )


def chosen_mechanism(
    mechanism: str | None, bound: str | None, merge: str | None, significance: str | None
) -> str | None:
    """The mechanism, or `sps` with what its own flags say."""
    own = {"bound": bound, "merge": merge, "significance": significance}
    given = [f"{name}={value}" for name, value in own.items() if value is not None]
    if not given:
        return mechanism
    if mechanism is not None:
        raise UsageError(
            "--bound, --merge and --significance belong to sps. Leave --mechanism out, or write "
            f"--mechanism 'sps({', '.join(given)})'."
        )
    return f"sps({', '.join(given)})"
