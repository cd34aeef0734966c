"""Limits by value, from a steward's file: how its rows are read and matched to a domain."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from sfumato.columns import Value, list_some, value_text, value_to_json
from sfumato.errors import DataError, UsageError
from sfumato.profile import Histogram

EVERY_OTHER = "*"  # the row that stands for all values without a row of their own


def label(value: Value) -> str:
    """How a limits file writes a value.

    >>> label(None), label("flu"), label(3)
    ('(missing)', 'flu', '3')
    """
    return "(missing)" if value is None else str(value_to_json(value))


def limits_file(path: str | Path) -> str:
    """How messages name a limits file."""
    return f"the limits file {str(path)!r}"


def read_limit_rows(
    path: str | Path, needed: Sequence[str], optional: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """The columns `needed` and `optional` of a CSV file, stripped; '' where nothing stands."""
    where = limits_file(path)
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
            if not set(needed) <= set(reader.fieldnames):
                first = ", ".join(needed if optional else needed[:-1])
                last = f"may have {', '.join(optional)}" if optional else needed[-1]
                raise DataError(
                    f"Cannot use {where}: it needs the columns {first} and {last}; found "
                    f"{list_some(list(reader.fieldnames)) or 'none'}."
                )
            rows = [
                tuple((row.get(name) or "").strip() for name in (*needed, *optional))
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"Cannot read {where}: {error}.") from None
    if not rows:
        raise DataError(f"Cannot use {where}: it has no rows.")
    return rows


def file_as_limits(
    name: str, positional: list[str], keywords: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Arguments of a text form, with `name(@limits.csv)` read as `name(limits=@limits.csv)`.

    >>> file_as_limits("f-privacy", ["@limits.csv"], {})
    ([], {'limits': '@limits.csv'})
    """
    if not positional or not positional[0].startswith("@"):
        return positional, keywords
    if len(positional) > 1 or "limits" in keywords:
        raise UsageError(f"{name} takes one file. Write {name}(@limits.csv).")
    return [], {**keywords, "limits": positional[0]}


def check_rows_fit(listed: Iterable[str], histogram: Histogram, nothing: str) -> None:
    """Every value has a row, its own or that of `*`, and every row a value.

    `nothing` tells how a row is written that promises nothing.
    """
    rows = set(listed)
    names = [label(value) for value in histogram.values]
    missing = [
        value_text(value)
        for value, name in zip(histogram.values, names, strict=True)
        if name not in rows and EVERY_OTHER not in rows
    ]
    foreign = [repr(row) for row in sorted(rows - {*names, EVERY_OTHER})]
    if not missing and not foreign:
        return
    problem = (
        f"have no row for {list_some(missing)}"
        if missing
        else f"name {list_some(foreign)}, which the column does not have"
    )
    raise DataError(
        f"The limits for column {histogram.column!r} {problem}. Give every value a row "
        f"({nothing} promises nothing), or add a row for '*'."
    )
