"""A table that another tool made of the raw one: its records as an adversary sees them.

The adversary knows the person's true quasi values, and takes the records that have them. Records of
a synthetic table are nobody's, and are found so all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.attacks.people import People, plain
from sfumato.attacks.views import RecordsView
from sfumato.columns import list_some
from sfumato.errors import DataError
from sfumato.table import Table
from sfumato.table.sources import find_source
from sfumato.table.staging import codes_among


def see_shown(table: Table, shown: Any, people: People) -> tuple[RecordsView, str | None]:
    """The shown records, and a note on what was left out."""
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
    read = {
        name: _as(pa.chunked_array([b.column(name) for b in batches]), table, name, source.label)
        for name in names
    }
    assert people.histogram is not None
    array = read.pop(people.column)
    codes = codes_among(array, pa.array(people.histogram.values, array.type))
    coded = np.flatnonzero(codes >= 0)
    note = None
    if len(coded) < len(codes):
        note = f"{len(codes) - len(coded):,} records show a value that nobody has: left out."
    quasi = [people.domains.codes(k, column)[coded] for k, column in enumerate(read.values())]
    return RecordsView(quasi, codes[coded], people.values), note


def _as(column: pa.ChunkedArray, table: Table, name: str, label: str) -> pa.Array:
    """The column in the raw table's type: text that spells its values will do."""
    kind, array = table.type_of(name), plain(column)
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return array.cast(wanted)
    except pa.ArrowException:
        raise DataError(
            f"Column {name!r} of {label} is {array.type} and does not read as {wanted}, the raw "
            "table's type. The tables are matched by their quasi-identifiers: recode the raw table "
            "as the other one is."
        ) from None
