"""What is said of the columns of a table, checked against what its source has."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.columns import Kind, Range, Values, list_some
from sfumato.errors import DataError, UsageError
from sfumato.table.plain import usual_texts
from sfumato.table.recodes import is_number
from sfumato.table.sources import Source

if TYPE_CHECKING:
    from sfumato.table import Table

LISTS = ("quasi", "sensitive", "drop")  # roles that several columns can have
_EXACT = 1 << 53  # up to here a float that is whole is the number that was written
_MOST_STATED = 1 << 20  # values that a range of whole numbers may list


def _publishable(kind: pa.DataType) -> bool:
    """Whether a Parquet file gives this type back, and SQL can compare it."""
    types = pa.types
    if types.is_decimal(kind):
        return bool(types.is_decimal128(kind))
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    )


def names_of(given: Sequence[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def refuse_repeated(names: Sequence[str], label: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{label} has more than one column named {list_some([repr(n) for n in twice])}. "
            "Rename them so that every column has a name of its own."
        )


def check_roles(
    roles: dict[str, tuple[str, ...]],
    there: Sequence[str],
    label: str,
    made: tuple[str, ...] = (),
    drop_rest: bool = False,
) -> None:
    """Every column that is there, or is `made`, has one role; `drop_rest` gives one to the rest."""
    refuse_repeated(there, label)
    if made and made[0] in there:
        raise UsageError(
            f"--count-rows names a new column, and {label} has a column {made[0]!r} already. "
            "Choose another name."
        )
    names = [*there, *made]
    available = f"The columns are: {list_some(names, most=50)}."
    if drop_rest:
        named = {name for columns in roles.values() for name in columns}
        roles["drop"] += tuple(name for name in names if name not in named)
    owner: dict[str, str] = {}
    for role, columns in roles.items():
        for column in columns:
            if column not in names:
                near = get_close_matches(column, names, 1)
                meant = [near[0] if named == column and near else named for named in columns]
                wanted = [role for role in meant if role != column]
                raise DataError(
                    f"{label} has no column {column!r} (named as {role}). {available}"
                ).repaired_by(**{role: wanted if role in LISTS else next(iter(wanted), None)})
            if column in owner:
                raise DataError(
                    f"Column {column!r} is named as {owner[column]} and as {role}. "
                    "Every column has one role."
                )
            owner[column] = role
    if not roles["sensitive"]:
        raise DataError(f"Name at least one sensitive column. {available}")
    undeclared = [name for name in names if name not in owner]
    if undeclared:
        raise DataError(
            f"{label} has columns without a role: {list_some(undeclared, most=50)}. Declare each "
            "as quasi, sensitive, key, person or drop; nothing is published by accident. "
            "--drop-rest drops them all."
        ).repaired_by(drop_rest=True)
    lower: dict[str, str] = {}
    for name in (*roles["quasi"], *roles["sensitive"]):
        if name.lower() in lower:
            raise DataError(
                f"The columns {lower[name.lower()]!r} and {name!r} of {label} differ only in case, "
                "which SQL cannot tell apart. Rename one."
            )
        lower[name.lower()] = name
    for reserved in ("part", "bucket"):
        for taken in (reserved, *(f"{reserved}_{name}".lower() for name in roles["sensitive"])):
            if taken in lower:
                raise DataError(
                    f"A release uses the column name {taken!r} itself. Rename that column of "
                    f"{label}."
                )


def kinds_of(
    source: Source,
    published: tuple[str, ...],
    numeric: tuple[str, ...],
    categorical: tuple[str, ...],
) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for column in published:
        kind = source.schema.field(column).type
        if pa.types.is_null(kind):
            raise DataError(
                f"Column {column!r} of {source.label} has no value in any row, so nothing says "
                "what its values would be. Drop it."
            )
        if column in source.foreign or not _publishable(kind):
            there = source.foreign.get(column, kind)
            raise DataError(
                f"Column {column!r} of {source.label} is {there}: only numbers, texts, booleans, "
                "dates and times can be published. Convert it first, or drop it."
            )
        if column in numeric and not is_number(kind):
            raise DataError(f"Column {column!r} of {source.label} is {kind}, not numeric.")
        is_numeric = column in numeric or (is_number(kind) and column not in categorical)
        kinds[column] = "numeric" if is_numeric else "categorical"
    return kinds


def stated_domain(column: str, given: str | Sequence[Any], table: Table) -> Values | Range:
    if column not in table.kinds:
        raise DataError(f"A domain is stated for {column!r}, which is not a published column.")
    kind = table.type_of(column)
    if isinstance(given, str) and ".." in given:
        low, _, high = given.partition("..")
        try:
            ends = [float(low), float(high)]
        except ValueError:
            raise UsageError(
                f"Cannot read the domain {given!r}: write for example 16..93."
            ) from None
        if not is_number(kind):
            raise UsageError(
                f"The domain {given!r} is a range, but column {column!r} is {kind}. "
                "List its values."
            )
        exact = all(end.is_integer() and abs(end) <= _EXACT for end in ends)
        first, last = (int(end) if exact else end for end in ends)
        if not first <= last:
            raise UsageError(f"The domain {given!r} of column {column!r} ends before it begins.")
        if table.kinds[column] == "categorical":
            if not exact or not pa.types.is_integer(kind):
                raise UsageError(
                    f"The domain {given!r} is a range, but column {column!r} is categorical. "
                    "List its values."
                )
            if last - first >= _MOST_STATED:
                raise UsageError(
                    f"The domain {given!r} of column {column!r} has {last - first + 1:,} values; "
                    f"state at most {_MOST_STATED:,}."
                )
            return Values(tuple(range(int(first), int(last) + 1)))
        return Range(first, last)
    parts = list(given)
    if isinstance(given, str):  # a value with a comma stands in quotes
        listed = next(csv.reader([given], skipinitialspace=True))
        parts = [part.strip() for part in listed or [""]]
    try:
        typed = pa.array(parts).cast(kind) if isinstance(given, str) else pa.array(parts, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise UsageError(
            f"The domain stated for column {column!r} does not fit its type {kind}."
        ) from None
    values = tuple(usual_texts(typed).to_pylist())
    if len(set(values)) != len(values):
        raise UsageError(f"The domain stated for column {column!r} names a value twice.")
    return Values(values)
