"""What the records of a generalized release must look like: ranges and sets.

A numeric quasi column `age` stands there as `age_low` and `age_high`, a categorical one as a list
under its own name; the sensitive column stands as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.columns import Column, Range, Values, list_some, value_to_json
from sfumato.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa


def shown_as(column: Column) -> tuple[str, ...]:
    """The columns of the file that stand for a quasi column.

    >>> shown_as(Column("age", "quasi", "numeric", "int8", None))
    ('age_low', 'age_high')
    """
    if column.role == "quasi" and column.kind == "numeric":
        return f"{column.name}_low", f"{column.name}_high"
    return (column.name,)


def check_schema(schema: pa.Schema, columns: Sequence[Column], where: str) -> None:
    """Every column is there under its names, with its type, and nothing else is."""
    import pyarrow as pa

    expected = [name for column in columns for name in shown_as(column)]
    if len([c for c in columns if c.role == "sensitive"]) != 1:
        raise BundleError(f"A generalized release has one sensitive column; {where} has others.")
    strangers, lacking = set(schema.names) - set(expected), set(expected) - set(schema.names)
    if lacking or strangers:
        raise BundleError(
            f"The records of {where} must hold {list_some(expected)}; it "
            + (f"lacks {list_some(sorted(lacking))}." if lacking else "")
            + (f"has {list_some(sorted(strangers))} besides." if strangers else "")
        )
    for column in columns:
        for name in shown_as(column):
            found = schema.field(name).type
            if column.role == "quasi" and column.kind == "categorical":
                if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
                    raise BundleError(f"Column {name!r} of {where} is {found}, not a list.")
                found = found.value_type
            if pa.types.is_dictionary(found):
                found = found.value_type
            if str(found) != column.type:
                raise BundleError(
                    f"Column {name!r} of {where} has type {found}; the manifest says {column.type}."
                )


def check_values(connection: Any, records: str, columns: Sequence[Column], where: str) -> None:
    """Ranges run upwards inside the domain; sets are not empty, have no value twice and none from
    outside the domain. `connection` is a DuckDB, `records` the records as a table there."""
    for column in columns:
        if column.role != "quasi":
            continue
        if column.kind == "numeric":
            low, high = (_quoted(name) for name in shown_as(column))
            broken = f"{low} IS NULL OR {high} IS NULL OR {low} > {high}"
            params: list[Any] = []
            if isinstance(column.domain, Range) and column.domain.low is not None:
                broken += f" OR {low} < ? OR {high} > ?"
                params = [column.domain.low, column.domain.high]
            count = connection.execute(
                f"SELECT count(*) FROM {records} WHERE {broken}", params
            ).fetchall()[0][0]
            if count:
                raise BundleError(
                    f"Column {column.name!r} of {where} has {count:,} ranges that end before they "
                    "begin, or lie outside the domain that the manifest states."
                )
            continue
        name = _quoted(column.name)
        count = connection.execute(
            f"SELECT count(*) FROM {records} WHERE {name} IS NULL OR len({name}) = 0 "
            f"OR len(list_distinct({name})) + CAST(list_count({name}) < len({name}) AS INT) "
            f"<> len({name})"
        ).fetchall()[0][0]
        if count:
            raise BundleError(
                f"Column {column.name!r} of {where} has {count:,} sets that are empty or name a "
                "value twice."
            )
        if isinstance(column.domain, Values):
            found = connection.sql(
                f"SELECT DISTINCT unnest({name}) AS v FROM {records}"
            ).to_arrow_table()
            values = {value_to_json(value) for value in found.column("v").to_pylist()}
            strangers = len(values - set(column.domain.values))
            if strangers:
                raise BundleError(
                    f"Column {column.name!r} of {where} has {strangers:,} values outside the "
                    "domain that the manifest states."
                )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
