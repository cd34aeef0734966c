"""The flags that several commands share, and what they say together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.table import Table

Origin = Annotated[
    str,
    typer.Argument(
        help="Parquet, CSV or Arrow file; a glob takes many. Or postgresql://host/db?table=NAME."
    ),
]
Folder = Annotated[Path, typer.Argument(help="The release folder.")]
Quasi = Annotated[str, typer.Option(help="Quasi columns, published as they are: a,b,c")]
Sensitive = Annotated[str, typer.Option(help="Sensitive columns: d,e")]
Key = Annotated[str | None, typer.Option(help="Column that identifies the person; not published.")]
Drop = Annotated[str, typer.Option(help="Columns to leave out.")]
Numeric = Annotated[str, typer.Option(help="Columns to treat as numeric.")]
Categorical = Annotated[str, typer.Option(help="Columns to treat as categorical.")]
Domain = Annotated[
    list[str] | None, typer.Option(help="Stated domain: age=16..93 or sex=F,M. Repeatable.")
]
BinEdges = Annotated[
    list[str] | None, typer.Option("--bins", help="Bins: cost=0,100,1000. Repeatable.")
]
Hierarchies = Annotated[
    list[str] | None,
    typer.Option(
        "--hierarchy", help="CSV, leaf to root, for a categorical quasi column: city=cities.csv."
    ),
]
MissingValues = Annotated[
    str, typer.Option(help="Rows without a sensitive value: refuse, value (of its own), drop.")
]
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


def declared_table(
    origin: Any,
    quasi: str,
    sensitive: str,
    key: str | None,
    drop: str,
    numeric: str,
    categorical: str,
    domain: list[str] | None,
    bins: list[str] | None,
    missing: str,
    hierarchies: list[str] | None = None,
) -> Table:
    """The table that the flags declare."""
    from sfumato.table import read

    return read(
        origin,
        quasi=quasi,
        sensitive=sensitive,
        key=key,
        drop=drop,
        numeric=numeric,
        categorical=categorical,
        domain=pairs(domain, "--domain"),
        bins=pairs(bins, "--bins"),
        missing=missing,  # type: ignore[arg-type]
        hierarchies=pairs(hierarchies, "--hierarchy"),
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


def pairs(given: list[str] | None, flag: str) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        column, equals, value = text.partition("=")
        if not equals or not column.strip() or not value.strip():
            raise UsageError(f"{flag} takes COLUMN=…, for example {flag} age=16..93. Got {text!r}.")
        pairs[column.strip()] = value.strip()
    return pairs
