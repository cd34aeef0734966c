"""Checks: what any table promises as it stands, whoever anonymized it.

Records with equal quasi columns form a class. Nulls are values, an index is not data, and the
order of rows means nothing. See `docs/audit-and-attack.md` for every measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.checks import measures
from sfumato.checks.counting import (
    ClassCounts,
    class_ids,
    count_classes,
    factor,
    raw_codes,
    read_columns,
)
from sfumato.checks.report import Check, ColumnCheck, Posterior, TableMeasure
from sfumato.checks.requirements import (
    REQUIREMENTS,
    Requirement,
    RequirementResult,
    WithinCeilings,
    parse_requirement,
)
from sfumato.checks.spellings import spelling_notes
from sfumato.columns import list_some
from sfumato.errors import DataError
from sfumato.table.sources import Source, find_source

MOST_RECURSIVE = 100  # recursive diversity is listed up to this l


def check(
    origin: Any,
    *,
    quasi: Sequence[str] | str,
    sensitive: Sequence[str] | str,
    drop: Sequence[str] | str = (),
    domain: Mapping[str, str | Sequence[Any]] | None = None,
    require: Sequence[str | Requirement | WithinCeilings] = (),
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
    quasi, sensitive = _names(quasi), _names(sensitive)
    _check_names(source, quasi, sensitive, _names(drop))
    read = read_columns(source, (*quasi, *sensitive))
    rows = len(next(iter(read.values())))
    notes = tuple(note for name, column in read.items() for note in spelling_notes(name, column))
    if rows == 0:
        raise DataError(f"{source.label} has no rows: there is nothing to check.")
    coded = []
    for name in quasi:
        codes, values = raw_codes(read.pop(name))
        coded.append((codes, len(values)))
    ids, first = class_ids(coded, rows)
    del coded
    orders = _orders(domain or {}, sensitive)
    columns, requirements = [], []
    for name in sensitive:
        order = orders.get(name)
        has_order = order is not None or _is_ordered(source.schema.field(name).type)
        cells = count_classes(name, _factor(read.pop(name), order, name), has_order, ids, first)
        columns.append(_measure(cells))
        requirements += [limit.held(cells) for limit in limits]
    alone = int((np.bincount(ids) == 1).sum())
    return Check(
        source.label, rows, quasi, len(first), alone, tuple(columns), tuple(requirements), notes
    )


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
    ("delta-disclosure, values present", measures.delta_disclosure_present, ""),
)


def _measure(cells: ClassCounts) -> ColumnCheck:
    found = []
    for name, measure, note in MEASURES:
        worst = measure(cells)  # None where the values have no order
        figure, row = (None, None) if worst is None else (worst.figure, worst.row)
        found.append(TableMeasure(name, figure, row, note))
    recursive = measures.recursive_all(
        cells, min(int(measures.distinct_l(cells).figure), MOST_RECURSIVE)
    )
    priors = (cells.totals / cells.totals.sum()).tolist()
    posteriors = tuple(
        Posterior(value, prior, float(share), row)
        for value, prior, (share, row) in zip(
            cells.values, priors, measures.largest_posteriors(cells), strict=True
        )
    )
    return ColumnCheck(cells.column, tuple(found), recursive, posteriors)


def _factor(column: pa.ChunkedArray, order: Sequence[Any] | None, name: str) -> Any:
    if order is None:
        return factor(column)
    _, values = raw_codes(column)
    kind = type(next((v for v in values if v is not None), ""))
    try:
        stated = [kind(value) for value in order]
        return factor(column, stated)
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"The domain stated for column {name!r} does not list all of its values."
        ) from None


def _orders(domain: Mapping[str, Any], sensitive: tuple[str, ...]) -> dict[str, list[Any]]:
    orders = {}
    for column, order in domain.items():
        if column not in sensitive:
            raise DataError(f"A domain is stated for {column!r}, which is not a sensitive column.")
        parts = order.split(",") if isinstance(order, str) else order
        orders[column] = [part.strip() if isinstance(part, str) else part for part in parts]
    return orders


def _is_ordered(kind: pa.DataType) -> bool:
    types = pa.types
    orders = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean,
              types.is_temporal, types.is_null)  # fmt: skip
    return any(is_one(kind) for is_one in orders)


def _names(given: Sequence[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def _check_names(
    source: Source, quasi: tuple[str, ...], sensitive: tuple[str, ...], drop: tuple[str, ...]
) -> None:
    names = source.schema.names
    available = f"The columns are: {list_some(names, most=50)}."
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{source.label} has more than one column named {list_some(twice)}.")
    if not sensitive:
        raise DataError(f"Name at least one sensitive column. {available}")
    declared = [*quasi, *sensitive, *drop]
    for name in declared:
        if name not in names:
            raise DataError(f"{source.label} has no column {name!r}. {available}")
        if declared.count(name) > 1:
            raise DataError(f"Column {name!r} is named twice. Every column has one role.")
    left = [name for name in names if name not in declared]
    if left:
        raise DataError(
            f"{source.label} has columns without a role: {list_some(left, most=50)}. Declare each "
            "as quasi or sensitive, or drop it: people may be known by a column that was forgotten."
        )
    for name in (*quasi, *sensitive):
        kind = source.schema.field(name).type
        if pa.types.is_nested(kind):
            raise DataError(
                f"Column {name!r} of {source.label} is {kind}. Write ranges and sets as text first."
            )


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
