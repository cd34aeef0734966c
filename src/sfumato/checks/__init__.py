"""Checks: what any table promises as it stands, whoever anonymized it.

Records with equal quasi columns form a class. Nulls are values, an index is not data, and the
order of rows means nothing. See `docs/audit-and-attack.md` for every measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.checks.classes import ClassCounts, count_classes
from sfumato.checks.measures import (
    MEASURES,
    Requirement,
    largest_posteriors,
    parse_requirement,
)
from sfumato.checks.report import Check, ColumnCheck, Posterior, TableMeasure
from sfumato.checks.spellings import spelling_notes
from sfumato.errors import DataError
from sfumato.pace import Progress
from sfumato.table import Table, as_table
from sfumato.table.staging import no_progress, stage, staged


def check(
    origin: Any,
    *,
    require: Sequence[str | Requirement] = (),
    progress: Progress = no_progress,
    **roles: Any,
) -> Check:
    """Every measure of a table at once. O(rows log rows).

    `origin` is a `Table`, or anything that `read` takes, with its roles; a missing sensitive value
    is a value unless `missing` says otherwise. `require` are limits in text form.

    >>> import pyarrow as pa
    >>> people = pa.table({"zip": [1, 1, 2, 2], "disease": ["flu", "flu", "flu", "HIV"]})
    >>> found = check(people, quasi="zip", sensitive="disease", require=["l-diversity(2)"])
    >>> found["disease"]["k-anonymity"], found["disease"]["distinct-l-diversity"], found.holds
    (2, 1, False)
    """
    limits = [parse_requirement(text) if isinstance(text, str) else text for text in require]
    if not isinstance(origin, Table) and roles.get("missing", "refuse") == "refuse":
        roles |= {"missing": "value"}
    table = stage(as_table(origin, roles, progress=progress))
    rows = staged(table)
    if rows.number == 0:
        raise DataError(f"{table.label} has no rows: there is nothing to check.")
    notes = tuple(
        note
        for name, domain in rows.domains.items()
        for note in spelling_notes(name, domain.to_pylist())
    )
    columns, requirements = [], []
    for name in table.sensitive:
        cells = count_classes(table, name)
        columns.append(_measured(cells))
        requirements += [limit(cells) for limit in limits]
    alone, classes = int((cells.sizes == 1).sum()), len(cells.sizes)
    found = (tuple(columns), tuple(requirements), notes)
    return Check(table.label, rows.number, table.quasi, classes, alone, *found)


def _measured(cells: ClassCounts) -> ColumnCheck:
    worst = [(measure, measure.worst(cells)) for measure in MEASURES]
    found = tuple(TableMeasure(m.name, at.figure, at.row, m.note) for m, at in worst)
    priors = (cells.totals / cells.totals.sum()).tolist()
    posteriors = tuple(
        Posterior(value, prior, float(share), row)
        for value, prior, (share, row) in zip(
            cells.values, priors, largest_posteriors(cells), strict=True
        )
    )
    return ColumnCheck(cells.column, found, posteriors)


__all__ = ["Check", "check", "parse_requirement"]
