"""The first pass: from a table to its profile, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns import Value
from sfumato.draws import BoolArray, IntArray
from sfumato.engines.coding import SensitiveCoder, ValueCounter, sensitive_domain
from sfumato.errors import DataError
from sfumato.pace import Progress as Progress  # told to everybody above
from sfumato.profile import Cells, Histogram, Profile
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors


def no_progress(stage: str, done: int, total: int) -> None:
    """Progress for nobody."""


def take_profile(
    table: Table,
    *,
    threads: bool = True,
    progress: Progress = no_progress,
) -> Profile:
    """The histogram of every sensitive column.

    >>> from sfumato.table import read
    >>> people = pa.table({"age": [30, 41, 52], "disease": ["flu", "HIV", "flu"]})
    >>> take_profile(read(people, quasi="age", sensitive="disease")).histograms["disease"].counts
    array([1, 2])
    """
    counters = {column: ValueCounter(table, column) for column in table.sensitive}
    rows = whole = 0
    for batch in table.batches(table.sensitive, 1 << 20, threads):
        rows += batch.num_rows
        batch = drop_missing(table, batch)
        whole += batch.num_rows
        for column, counter in counters.items():
            counter.add(batch.column(column))
        progress("counting", rows, 0)
    if rows == 0:
        raise DataError(f"{table.label} has no rows.")
    if whole == 0:
        raise DataError(f"No row of {table.label} has every sensitive value.")
    histograms = {}
    for column, counter in counters.items():
        values = sensitive_domain(table, column, counter.counts)
        counts = np.array([counter.counts.get(value, 0) for value in values], np.int64)
        histograms[column] = Histogram(column, values, counts)
    return Profile(whole, histograms, dropped=rows - whole)


def drop_missing(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """With `missing="drop"`, the records that have every sensitive value."""
    keep = whole_rows(table, batch)
    return batch if keep.all() else batch.filter(pa.array(keep))


def whole_rows(table: Table, batch: pa.RecordBatch) -> BoolArray:
    """Which records count: with `missing="drop"`, those that have every sensitive value."""
    keep = np.ones(batch.num_rows, np.bool_)
    for column in table.sensitive if table.missing == "drop" else ():
        array = batch.column(column)
        absent = array.is_null(nan_is_null=pa.types.is_floating(array.type))
        keep &= ~absent.to_numpy(zero_copy_only=False)
    return keep


def check_keys(table: Table) -> int:
    """How many rows repeat the key of another row; a missing key is refused."""
    if table.key is None:
        return 0
    reader = pa.RecordBatchReader.from_batches(
        pa.schema([pa.field(table.key, table.type_of(table.key))]),
        (plain_batch(batch) for batch in table.batches([table.key])),
    )
    connection = scratch_database()
    connection.register("people", reader)
    name = '"' + table.key.replace('"', '""') + '"'
    with reading_errors(table.source):
        total, present, different = connection.execute(
            f"SELECT count(*), count({name}), count(DISTINCT {name}) FROM people"
        ).fetchall()[0]
    if present < total:
        raise DataError(
            f"The key column {table.key!r} of {table.label} is missing in {total - present:,} rows."
        )
    return int(total - different)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without dictionaries, of which every batch may have another."""
    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def count_cells(table: Table, column: str, values: tuple[Value, ...]) -> Cells:
    """Counts by all quasi columns and one sensitive column."""
    coder = SensitiveCoder(table, column, values)
    return _cells(table, len(values), lambda batch: coder(batch.column(column)))


def _cells(table: Table, values: int, code: Callable[[pa.RecordBatch], IntArray]) -> Cells:
    """Counts by all quasi columns and a code below `values`.

    Every combination becomes one mixed-radix int64 key before DuckDB groups (it spills under its
    memory limit): three times faster than grouping by the columns themselves. Two passes: the
    domains, then the keys.
    """
    domains = quasi_domains(table)
    radix = np.array([len(domain) for domain in domains], dtype=object)
    if int(np.prod(radix)) * values >= 1 << 63:
        raise DataError(
            f"The quasi-identifiers of {table.label} have too many combinations to count "
            f"({' × '.join(str(r) for r in radix)}). Coarsen or drop some."
        )

    def keyed() -> Iterator[pa.RecordBatch]:
        for batch in table.batches((*table.quasi, *table.sensitive)):
            batch = drop_missing(table, batch)
            key = np.zeros(batch.num_rows, np.int64)
            for name, domain in zip(table.quasi, domains, strict=True):
                key *= len(domain)
                key += quasi_codes(batch.column(name), domain)
            key *= values
            key += code(batch)
            yield pa.RecordBatch.from_arrays([pa.array(key)], names=["code"])

    keys, counts = _counted(table, pa.schema([("code", pa.int64())]), keyed())
    sensitive = keys % values
    keys //= values
    named = tuple(tuple(domain.to_pylist()) for domain in domains)
    return Cells(table.quasi, named, keys, sensitive, counts)


def _counted(
    table: Table, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> tuple[IntArray, IntArray]:
    """The different codes in ascending order, and how often each occurs."""
    connection = scratch_database(counting=True)
    connection.register("coded", pa.RecordBatchReader.from_batches(schema, batches))
    with reading_errors(table.source):
        found = connection.sql("SELECT code, count(*) AS n FROM coded GROUP BY code")
        counted = found.to_arrow_table()
    code, number = counted.column("code").to_numpy(), counted.column("n").to_numpy()
    order = np.argsort(code)  # here, and not in the database, which would hold them once more
    return code[order], number[order]


def quasi_domains(table: Table) -> list[pa.Array]:
    """The sorted values of every quasi column, a null last where one occurs."""
    found: list[pa.Array | None] = [None] * len(table.quasi)
    for batch in table.batches((*table.quasi, *table.sensitive)):
        batch = drop_missing(table, batch)  # people who are left out leave no trace
        for index, name in enumerate(table.quasi):
            array = batch.column(name)
            if pa.types.is_dictionary(array.type):  # which codes occur, before any text is read
                unique = array.dictionary.take(array.indices.unique()).unique()
            else:
                unique = array.unique()
            known = found[index]
            found[index] = unique if known is None else pa.concat_arrays([known, unique]).unique()
    domains = []
    for name, values in zip(table.quasi, found, strict=True):
        if values is None:
            values = pa.array([], table.type_of(name))
        domains.append(values.take(pa.compute.sort_indices(values)))  # a null comes last
    return domains


def quasi_codes(array: pa.Array, domain: pa.Array) -> npt.NDArray[Any]:
    """The index of each value in its domain, as whole numbers; null finds null."""
    if pa.types.is_dictionary(array.type):
        mapping = pa.compute.index_in(array.dictionary, value_set=domain)
        codes = pa.compute.take(mapping, array.indices, boundscheck=False)
        if codes.null_count:  # a null comes last, and where there is none, none is looked for
            codes = codes.fill_null(len(domain) - 1)
        return np.asarray(codes.to_numpy())
    return np.asarray(pa.compute.index_in(array, value_set=domain).to_numpy())
