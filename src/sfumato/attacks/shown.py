"""A table that another tool made of the raw one: its records as an adversary sees them.

Two ways to find a person in it. By quasi columns: the adversary knows the person's true quasi
values, and takes the records that have them (records of a synthetic table are nobody's, and are
found so all the same). By row: the adversary knows which record is the person's, row i of the
table being row i of the raw one; the quasi columns that it shows may then be anything, ranges
written as text for example, and rules are learned on them as they stand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.attacks.people import Codes, Domains, People, plain
from sfumato.attacks.views import RecordsView
from sfumato.columns import list_some
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import take_profile
from sfumato.errors import DataError
from sfumato.table import Table
from sfumato.table.sources import find_source

Match = Literal["quasi", "row"]
MATCHES: tuple[Match, ...] = ("quasi", "row")


def see_shown(
    table: Table, shown: Any, match: Match, people: People
) -> tuple[People, RecordsView, str | None]:
    """The people as they are looked for, the shown records, and a note on what was left out."""
    source = find_source(shown)
    names = (*table.quasi, people.column)
    lacking = [name for name in names if name not in source.schema.names]
    if lacking:
        raise DataError(
            f"{source.label} has no column {list_some(lacking)}. It needs the quasi and sensitive "
            f"columns of the table; its columns are: {list_some(source.schema.names, most=50)}."
        )
    batches = list(source.batches(names, 1 << 17))
    if not sum(batch.num_rows for batch in batches):
        raise DataError(f"{source.label} has no rows: there is nothing to attack.")
    read = {name: plain(pa.chunked_array([b.column(name) for b in batches])) for name in names}
    coder = SensitiveCoder(
        table, people.column, take_profile(table).histograms[people.column].values
    )
    values = _as(read.pop(people.column), table.type_of(people.column), people.column, source.label)
    codes = coder(values)
    coded = np.flatnonzero(codes >= 0)
    note = None
    if len(coded) < len(codes):
        note = f"{len(codes) - len(coded):,} records show a value that nobody has: left out."
    if match == "row":
        rows = table_rows(table)
        if len(codes) != rows:
            raise DataError(
                f"{source.label} has {len(codes):,} rows and the raw table {rows:,}: they can not "
                "be matched by row. Match them by their quasi-identifiers."
            )
        domains = Domains(table.quasi, tuple(column.unique() for column in read.values()))
        all_codes = [domains.codes(k, column) for k, column in enumerate(read.values())]
        people = replace(people, domains=domains, codes=[c[people.rows] for c in all_codes])
        view_codes: Codes = [c[coded] for c in all_codes]
        return people, RecordsView(view_codes, codes[coded], people.values, rows=coded), note
    view_codes = [
        people.domains.codes(k, _as(column, table.type_of(name), name, source.label))[coded]
        for k, (name, column) in enumerate(read.items())
    ]
    return people, RecordsView(view_codes, codes[coded], people.values), note


def table_rows(table: Table) -> int:
    """How many rows the raw table has, those without a sensitive value included."""
    return sum(batch.num_rows for batch in table.batches(table.sensitive[:1]))


def _as(array: pa.Array, kind: pa.DataType, column: str, label: str) -> pa.Array:
    """The array in the raw table's type: text that spells its values will do."""
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return array.cast(wanted)
    except pa.ArrowException:
        raise DataError(
            f"Column {column!r} of {label} is {array.type} and does not read as {wanted}, the raw "
            "table's type. A sensitive column must show values; quasi-identifiers may show "
            "ranges or "
            "other text where the tables are matched by row."
        ) from None
