"""Checks: what any table promises as it stands, whoever anonymized it.

Records with equal quasi columns form a class. Nulls are values, an index is not data, and the
order of rows means nothing. See `docs/audit-and-attack.md` for every measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from sfumato.checks import measures
from sfumato.checks.counting import ClassCounts, CountedTable, is_ordered
from sfumato.checks.report import Check, ColumnCheck, Posterior, TableMeasure
from sfumato.checks.requirements import (
    REQUIREMENTS,
    Requirement,
    RequirementResult,
    parse_requirement,
)
from sfumato.checks.spellings import spelling_notes
from sfumato.columns import list_some
from sfumato.errors import DataError
from sfumato.scratch import scratch_database
from sfumato.table.sources import Source, find_source

MOST_RECURSIVE = 12  # recursive diversity is listed up to this l


def check(
    origin: Any,
    *,
    quasi: Sequence[str] | str,
    sensitive: Sequence[str] | str,
    drop: Sequence[str] | str = (),
    domain: Mapping[str, str | Sequence[Any]] | None = None,
    require: Sequence[str | Requirement] = (),
) -> Check:
    """Every measure of a table at once. One pass over the source, O(rows log rows).

    `origin` is a path or a frame. `domain` states the order of a sensitive column that has none of
    its own, for the ordered distance. `require` are limits in text form.

    >>> people = pa.table({"zip": [1, 1, 2, 2], "disease": ["flu", "flu", "flu", "HIV"]})
    >>> found = check(people, quasi="zip", sensitive="disease", require=["l-diversity(2)"])
    >>> found["disease"]["k-anonymity"], found["disease"]["distinct l-diversity"], found.holds
    (2, 1, False)
    """
    limits = [parse_requirement(text) if isinstance(text, str) else text for text in require]
    source = find_source(origin)
    quasi, sensitive = _roles(source, quasi, sensitive, drop)
    orders, columns, requirements = _orders(domain or {}, sensitive), [], []
    with scratch_database() as database:  # left to the collector it can crash the process
        table = CountedTable(database, source, quasi, sensitive)
        if table.rows == 0:
            raise DataError(f"{source.label} has no rows: there is nothing to check.")
        notes = tuple(
            note
            for short, name in zip(table.names, (*quasi, *sensitive), strict=True)
            for note in spelling_notes(name, table.distinct(short))
        )
        for number, name in enumerate(sensitive):
            order = orders.get(name)
            if order is not None:
                order = _stated(order, table.distinct(f"s{number}"), name)
            has_order = order is not None or is_ordered(source.schema.field(name).type)
            cells = table.count(f"s{number}", name, has_order, order)
            columns.append(_measure(cells))
            requirements += [limit(cells) for limit in limits]
    alone, classes = int((cells.sizes == 1).sum()), len(cells.sizes)
    found = (tuple(columns), tuple(requirements), notes)
    return Check(source.label, table.rows, quasi, classes, alone, *found)


MEASURES: tuple[tuple[str, Callable[[ClassCounts], measures.Worst | None], str], ...] = (
    ("k-anonymity", measures.k_anonymity, ""),
    ("distinct l-diversity", measures.distinct_l, ""),
    ("entropy l-diversity", measures.entropy_l, ""),
    ("l-diversity", measures.frequency_l, "1 / the largest share in a class"),
    ("beta-likeness", measures.basic_beta, ""),
    ("enhanced beta-likeness", measures.enhanced_beta, ""),
    ("t-closeness, equal distance", measures.t_equal, ""),
    ("t-closeness, ordered distance", measures.t_ordered, ""),
    ("delta-disclosure", measures.delta_disclosure, ""),
)


def _measure(cells: ClassCounts) -> ColumnCheck:
    found = []
    for name, measure, note in MEASURES:
        worst = measure(cells)  # None where the values have no order
        figure, row = (None, None) if worst is None else (worst.figure, worst.row)
        found.append(TableMeasure(name, figure, row, note))
    most = min(int(measures.distinct_l(cells).figure), MOST_RECURSIVE)
    recursive = {l: float(measures.recursive_c(cells, l).figure) for l in range(2, most + 1)}  # noqa: E741
    priors = (cells.totals / cells.totals.sum()).tolist()
    posteriors = tuple(
        Posterior(value, prior, float(share), row)
        for value, prior, (share, row) in zip(
            cells.values, priors, measures.largest_posteriors(cells), strict=True
        )
    )
    return ColumnCheck(cells.column, tuple(found), recursive, posteriors)


def _stated(order: Sequence[Any], values: Sequence[Any], name: str) -> list[Any]:
    """The stated domain in the type of the values, all of which it must list."""
    kind = type(next((value for value in values if value is not None), ""))
    with suppress(TypeError, ValueError):
        stated = [kind(value) for value in order]
        if {value for value in values if value is not None and value == value} <= {*stated}:
            return stated
    raise DataError(f"The domain stated for column {name!r} does not list all of its values.")


def _orders(domain: Mapping[str, Any], sensitive: Sequence[str]) -> dict[str, list[Any]]:
    orders = {}
    for column, order in domain.items():
        if column not in sensitive:
            raise DataError(f"A domain is stated for {column!r}, which is not a sensitive column.")
        parts = order.split(",") if isinstance(order, str) else order
        orders[column] = [part.strip() if isinstance(part, str) else part for part in parts]
    return orders


def _roles(source: Source, *roles: Sequence[str] | str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The quasi-identifiers and sensitive columns; every column of the table has one role."""
    quasi, sensitive, drop = (
        tuple(name.strip() for name in (given.split(",") if isinstance(given, str) else given))
        for given in roles
    )
    quasi, sensitive, drop = (tuple(filter(None, names)) for names in (quasi, sensitive, drop))
    names, declared = source.schema.names, (*quasi, *sensitive, *drop)
    available = f"The columns are: {list_some(names, most=50)}."
    if not sensitive:
        raise DataError(f"Name at least one sensitive column. {available}")
    for name in declared:
        if name not in names:
            raise DataError(f"{source.label} has no column {name!r}. {available}")
        if declared.count(name) > 1 or names.count(name) > 1:
            raise DataError(f"Column {name!r} is there twice. Every column has one role.")
    left = [name for name in names if name not in declared]
    if left:
        raise DataError(
            f"{source.label} has columns without a role: {list_some(left, most=50)}. Declare each "
            "as quasi or sensitive, because people may be known by a column that was forgotten, or "
            f"leave them out: --drop '{','.join(left)}'."
        )
    for name in (*quasi, *sensitive):
        if pa.types.is_nested(kind := source.schema.field(name).type):
            raise DataError(
                f"Column {name!r} of {source.label} is {kind}. Write ranges and sets as text first."
            )
    return quasi, sensitive


__all__ = [
    "REQUIREMENTS",
    "Check",
    "ClassCounts",
    "ColumnCheck",
    "Posterior",
    "RequirementResult",
    "TableMeasure",
    "check",
    "parse_requirement",
]
