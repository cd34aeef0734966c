"""What people have in several sensitive columns, counted: combinations of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import drop_missing
from sfumato.errors import DataError
from sfumato.profile import Histogram, Holdings, Profile
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors


def count_holdings(table: Table, histograms: Mapping[str, Histogram]) -> Holdings:
    """One pass; DuckDB groups, and spills where it must.

    >>> from sfumato.engines.counting import take_profile
    >>> from sfumato.table import read
    >>> people = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 2]})
    >>> declared = read(people, quasi="", sensitive="a,b")
    >>> count_holdings(declared, take_profile(declared).histograms).of.tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    sizes = combination_sizes(table, histograms)
    coders = {name: SensitiveCoder(table, name, h.values) for name, h in histograms.items()}
    schema = pa.schema([("code", pa.int64())])

    def coded() -> Iterator[pa.RecordBatch]:
        for batch in table.batches(table.sensitive):
            batch = drop_missing(table, batch)
            codes = tuple(coder(batch.column(name)) for name, coder in coders.items())
            flat = np.ravel_multi_index(codes, tuple(sizes)).astype(np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(flat)], schema=schema)

    connection = scratch_database()
    connection.register("coded", pa.RecordBatchReader.from_batches(schema, coded()))
    with reading_errors(table.source):
        found = connection.sql("SELECT code, count(*) AS n FROM coded GROUP BY code ORDER BY code")
        counted = found.to_arrow_table()
    held = unravelled(counted.column("code").to_numpy(), sizes)
    return Holdings(
        tuple(histograms.values()), held, counted.column("n").to_numpy().astype(np.int64)
    )


def combination_sizes(table: Table, histograms: Mapping[str, Histogram]) -> list[int]:
    """How many values each column has; combinations of too many cannot be numbered."""
    sizes = [len(histogram.values) for histogram in histograms.values()]
    if int(np.prod(sizes, dtype=object)) >= 1 << 62:
        raise DataError(
            f"The sensitive columns {', '.join(histograms)} of {table.label} have too many "
            f"combinations ({' × '.join(map(str, sizes))}). Coarsen or drop some."
        )
    return sizes


def with_holdings(table: Table, profile: Profile) -> Holdings | None:
    """The combinations of a table's sensitive columns, where there are several."""
    return count_holdings(table, profile.histograms) if len(table.sensitive) > 1 else None


def unravelled(flat: IntArray, sizes: list[int]) -> IntArray:
    """The codes of every column, by (combination, column)."""
    return np.stack(np.unravel_index(flat, tuple(sizes)), axis=1).astype(np.int64)
