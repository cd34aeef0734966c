"""Checks: what any table promises as it stands, whoever anonymized it.

Records with equal quasi columns form a class. Nulls are values, an index is not data, and the
order of rows means nothing. See `docs/audit-and-attack.md` for every measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sfumato.checks import measures
from sfumato.checks.counting import ClassCounts, CountedTable
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


def check(
    origin: Any,
    *,
    quasi: Sequence[str] | str,
    sensitive: Sequence[str] | str,
    drop: Sequence[str] | str = (),
    require: Sequence[str | Requirement] = (),
) -> Check:
    """Every measure of a table at once. One pass over the source, O(rows log rows).

    `origin` is a path or a frame. `require` are limits in text form.

    >>> people = pa.table({"zip": [1, 1, 2, 2], "disease": ["flu", "flu", "flu", "HIV"]})
    >>> found = check(people, quasi="zip", sensitive="disease", require=["l-diversity(2)"])
    >>> found["disease"]["k-anonymity"], found["disease"]["distinct l-diversity"], found.holds
    (2, 1, False)
    """
    limits = [parse_requirement(text) if isinstance(text, str) else text for text in require]
    source = find_source(origin)
    quasi, sensitive = _roles(source, quasi, sensitive, drop)
    columns, requirements = [], []
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
            cells = table.count(f"s{number}", name)
            columns.append(_measure(cells))
            requirements += [limit(cells) for limit in limits]
    alone, classes = int((cells.sizes == 1).sum()), len(cells.sizes)
    found = (tuple(columns), tuple(requirements), notes)
    return Check(source.label, table.rows, quasi, classes, alone, *found)


MEASURES: tuple[tuple[str, Callable[[ClassCounts], measures.Worst], str], ...] = (
    ("k-anonymity", measures.k_anonymity, ""),
    ("distinct l-diversity", measures.distinct_l, ""),
    ("l-diversity", measures.frequency_l, "1 / the largest share in a class"),
    ("beta-likeness", measures.basic_beta, ""),
    ("enhanced beta-likeness", measures.enhanced_beta, ""),
    ("t-closeness", measures.t_equal, ""),
)


def _measure(cells: ClassCounts) -> ColumnCheck:
    worst = [(name, measure(cells), note) for name, measure, note in MEASURES]
    found = tuple(TableMeasure(name, at.figure, at.row, note) for name, at, note in worst)
    priors = (cells.totals / cells.totals.sum()).tolist()
    posteriors = tuple(
        Posterior(value, prior, float(share), row)
        for value, prior, (share, row) in zip(
            cells.values, priors, measures.largest_posteriors(cells), strict=True
        )
    )
    return ColumnCheck(cells.column, found, posteriors)


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
