"""The first pass on Spark: histograms by partition, keys and cells, by Spark's own group-by."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.engines.binning import Packer, add_batch, bins_of, reduced, tallies
from sfumato.engines.coding import (
    MOST_VALUES,
    SensitiveCoder,
    ValueCounter,
    sensitive_domain,
    without_nan,
)
from sfumato.engines.counting import quasi_codes
from sfumato.engines.stream import StreamSection
from sfumato.errors import DataError
from sfumato.mechanisms import RecordPlan
from sfumato.profile import BinnedCounts, Cells, Histogram, Profile
from sfumato.scratch import scratch_database
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import SchemaSource, named, numbered, quoted


@dataclass(frozen=True, eq=False)
class PartitionCounts:
    """How often each partition has each value of a column: the counts that are not zero."""

    partitions: IntArray
    codes: IntArray
    counts: IntArray

    def of(self, chosen: Any, values: int) -> IntArray:
        """The histogram of the chosen entries."""
        found = np.bincount(self.codes[chosen], self.counts[chosen], minlength=values)
        return found.astype(np.int64)  # exact: sums below 2⁵³


@dataclass(frozen=True, eq=False)
class Sections:
    """The partitions of a frame as sections of one stream, in the order of their numbers.

    `sizes` says of how many things each of `columns` counts.
    """

    sizes: Mapping[str, int]
    columns: Mapping[str, PartitionCounts]

    def section(self, number: int) -> StreamSection:
        before, here = {}, {}
        for name, counted in self.columns.items():
            before[name] = counted.of(counted.partitions < number, self.sizes[name])
            here[name] = counted.of(counted.partitions == number, self.sizes[name])
        first = next(iter(self.columns))
        return StreamSection(int(before[first].sum()), int(here[first].sum()), before, here)


def count_keys(
    table: Table, frame: Any, plan: RecordPlan, profile: Profile
) -> dict[str, PartitionCounts]:
    """How often each partition has each of what a plan's ranks count among (`RecordPlan.keys`)."""
    from pyspark.sql import functions

    coders = {n: SensitiveCoder(table, n, h.values) for n, h in profile.histograms.items()}
    columns, (name,) = [*table.quasi, *coders], plan.ranked(profile)
    tree, keys = plan.tree, plan.keys

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            plain = normalize(named(batch, columns), columns)
            codes = {column: coder(plain.column(column)) for column, coder in coders.items()}
            key = keys(codes, None if tree is None else tree.numbers(plain))[name]
            yield pa.RecordBatch.from_arrays([pa.array(key, pa.int64())], names=["code"])

    chosen = numbered(whole_records(table, frame, columns), columns)
    counted = (
        chosen.mapInArrow(place, "code long")
        .groupBy("code", functions.spark_partition_id().alias("partition"))
        .agg(functions.count("*").alias("count"))
        .toArrow()
    )
    found = (
        np.asarray(counted.column(each).to_numpy(), np.int64)
        for each in ("partition", "code", "count")
    )
    return {name: PartitionCounts(*found)}


def count_binned(table: Table, frame: Any, column: str, values: tuple[Value, ...]) -> BinnedCounts:
    """Counts by bins of all quasi columns and one sensitive column; the driver holds the cells."""
    from pyspark.sql import functions

    columns = [*table.quasi, column]
    described = replace(table, source=SchemaSource(table.label, table.source.schema))
    chosen = numbered(whole_records(table, frame, columns), columns)

    def tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = tallies(described)
        for batch in batches:
            add_batch(found, normalize(named(batch, columns), columns))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)])], names=["found"])

    whole = tallies(described)
    for row in chosen.mapInArrow(tally, "found binary").toLocalIterator():
        for name, tallied in pickle.loads(row.found).items():
            whole[name].learn(tallied)
    packer = Packer(described, column, values, bins_of(whole))

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield packer(normalize(named(batch, columns), columns))

    shape = ", ".join(f"{name} long" for name in packer.schema.names)
    cells = (
        chosen.mapInArrow(pack, shape)
        .groupBy(packer.schema.names)
        .agg(functions.count("*").alias("n"))
        .toArrow()
    )
    connection = scratch_database()
    connection.register("counted", cells)
    connection.execute("CREATE TABLE cells AS SELECT * FROM counted")
    return reduced(connection, packer)


def whole_records(table: Table, frame: Any, columns: Sequence[str]) -> Any:
    """The named columns; with `missing="drop"`, of the records that have every sensitive value."""
    if table.missing == "drop":
        frame = frame.filter(is_whole(table))
    return frame.select([quoted(column) for column in columns])


def is_whole(table: Table) -> Any:
    """Which records count: with `missing="drop"`, those that have every sensitive value."""
    from pyspark.sql import functions

    counts = functions.lit(True)
    for column in table.sensitive if table.missing == "drop" else ():
        counts = counts & functions.col(quoted(column)).isNotNull()
        if pa.types.is_floating(table.type_of(column)):
            counts = counts & ~functions.isnan(functions.col(quoted(column)))
    return counts


def take_profile(table: Table, frame: Any) -> tuple[Profile, Sections]:
    """The histogram of every sensitive column, and of every partition. One scan per column."""
    histograms, partitions = {}, {}
    for column in table.sensitive:
        found = _count_values(table, whole_records(table, frame, [column]), column)
        counter = ValueCounter(table, column)
        for value, _, counts in found:
            counter.counts[value] = counter.counts.get(value, 0) + int(counts.sum())
        counter.check_number()
        if not counter.counts:
            raise DataError(_no_rows(table, frame))
        values = sensitive_domain(table, column, counter.counts)
        totals = np.array([counter.counts.get(value, 0) for value in values], np.int64)
        histograms[column] = Histogram(column, values, totals)
        code = {value: place for place, value in enumerate(values)}
        partitions[column] = PartitionCounts(
            np.concatenate([numbers for _, numbers, _ in found]),
            np.concatenate([np.full(len(n), code[value], np.int64) for value, n, _ in found]),
            np.concatenate([counts for _, _, counts in found]),
        )
    rows = {histogram.rows for histogram in histograms.values()}
    if len(rows) > 1:
        raise DataError(f"{table.label} changed while it was being counted. Use a fixed copy.")
    whole = rows.pop()
    dropped = frame.count() - whole if table.missing == "drop" else 0
    profile = Profile(whole, histograms, dropped=dropped)
    return profile, Sections({n: len(h.values) for n, h in histograms.items()}, partitions)


def _count_values(table: Table, frame: Any, column: str) -> list[tuple[Value, IntArray, IntArray]]:
    """For each value of the only column: the partitions that hold it, and how often."""
    from pyspark.sql import functions

    counted = (
        frame.select(functions.col(quoted(column)).alias("value"))
        .groupBy("value", functions.spark_partition_id().alias("partition"))
        .agg(functions.count("*").alias("count"))
        .groupBy("value")
        .agg(functions.collect_list("partition"), functions.collect_list("count"))
        .limit(MOST_VALUES + 2)  # one more than allowed, and the missing
        .toArrow()
        .combine_chunks()
    )
    if counted.num_rows == 0:
        return []
    (batch,) = counted.to_batches()
    values = normalize(batch, [batch.schema.names[0]]).column(0)
    lists = [batch.column(1), batch.column(2)]
    return [
        (
            value,
            np.asarray(lists[0][place].values.to_numpy(), np.int64),
            np.asarray(lists[1][place].values.to_numpy(), np.int64),
        )
        for place, value in enumerate(without_nan(values).to_pylist())
    ]


def _no_rows(table: Table, frame: Any) -> str:
    if frame.isEmpty():
        return f"{table.label} has no rows."
    return f"No row of {table.label} has every sensitive value."


def check_keys(table: Table, frame: Any) -> int:
    """How many rows repeat the key of another row; a missing key is refused."""
    from pyspark.sql import functions

    if table.key is None:
        return 0
    key = functions.col(quoted(table.key))
    counted = frame.agg(
        functions.count("*").alias("total"),
        functions.count(key).alias("present"),
        functions.countDistinct(key).alias("different"),
    ).first()
    if counted.present < counted.total:
        raise DataError(
            f"The key column {table.key!r} of {table.label} is missing in "
            f"{counted.total - counted.present:,} rows."
        )
    return int(counted.total - counted.different)


def count_cells(table: Table, frame: Any, column: str, values: tuple[Value, ...]) -> Cells:
    """Counts by all quasi columns and one sensitive column; the driver holds the cells only."""
    from pyspark.sql import functions

    columns = [*table.quasi, column]
    chosen = whole_records(table, frame, columns)
    counted = (
        chosen.groupBy([quoted(name) for name in columns])
        .agg(functions.count("*").alias("number of records"))
        .toArrow()
        .combine_chunks()
    )
    (batch,) = counted.to_batches()
    plain = normalize(batch, batch.schema.names)
    domains, key = [], np.zeros(batch.num_rows, np.int64)
    combinations = len(values)
    for name in table.quasi:
        array = plain.column(name)
        unique = array.unique()
        domain = unique.take(pc.sort_indices(unique))  # a null comes last
        combinations *= len(domain)
        if combinations >= 1 << 63:
            raise DataError(
                f"The quasi-identifiers of {table.label} have too many combinations to count. "
                f"Coarsen "
                "or drop some."
            )
        key = key * len(domain) + quasi_codes(array, domain)
        domains.append(domain)
    shown = without_nan(plain.column(column)).to_pylist()
    code = {value: place for place, value in enumerate(values)}
    sensitive = np.array([code[value] for value in shown], np.int64)
    order = np.lexsort((sensitive, key))
    return Cells(
        table.quasi,
        tuple(tuple(domain.to_pylist()) for domain in domains),
        key[order],
        sensitive[order],
        plain.column("number of records").to_numpy()[order],
    )
