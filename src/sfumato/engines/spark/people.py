"""People with several rows on Spark: which rows are published, and counts of those.

Rows get the same words as on one machine, which belong to their place in the table or, under a key
file, to their key. Spark sorts the rows of every person, and puts all rows in the table's order
again; so a release is that of the local engine. What it sorts stays on the executors' disks until
the release is written: it is the raw table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.columns import Value
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.ranking import BEYOND, RankedRows, refuse_absent, with_domains
from sfumato.engines.spark.counting import (
    count_binned,
    count_cells,
    count_combinations,
    is_whole,
    take_profile,
)
from sfumato.engines.spark.frames import (
    Batches,
    frame_of,
    many_partitions,
    quoted_column,
    with_numbers,
)
from sfumato.engines.spark.kinds import count_binned_kinds, count_holders
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import kept_on_disk
from sfumato.engines.stream import changed
from sfumato.profile import BinnedCounts, Cells, Holders, Kinds, Profile
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import SchemaSource, SparkSource, quoted

_PLACE, _OWN, _POSITION, _WORD = "sfumato place", "sfumato own", "sfumato position", "sfumato word"


@dataclass(frozen=True, eq=False)
class FrameCounts:
    """Counts of a table on Spark."""

    table: Table
    frame: Any

    def profile(self) -> Profile:
        return take_profile(self.table, self.frame)[0]

    def cells(self, column: str, values: tuple[Value, ...]) -> Cells:
        return count_cells(self.table, self.frame, column, values)

    def binned(self, column: str, values: tuple[Value, ...]) -> BinnedCounts:
        return count_binned(self.table, self.frame, column, values)

    def kinds(self, profile: Profile) -> Kinds | None:
        if len(self.table.sensitive) > 1:
            return count_combinations(self.table, self.frame, profile.histograms)
        return None

    def binned_kinds(self, profile: Profile) -> BinnedCounts | None:
        if profile.kinds is None:
            return None
        return count_binned_kinds(self.table, self.frame, profile, profile.kinds)


@dataclass(frozen=True, eq=False)
class RankedFrame(RankedRows):
    """A kept frame with the place of every row among its person's, 0 for rows that do not count,
    and how many rows that person has."""

    table: Table
    sizes: IntArray
    frame: Any

    def chosen(self, rows: int) -> Table:
        frame = self.frame.filter(quoted_column(_PLACE) <= rows).drop(_PLACE, _OWN)
        source = SparkSource(frame, self.table.label)
        return replace(self.table, source=source, rows_per_person=rows)

    def counts(self, table: Table) -> FrameCounts:
        return FrameCounts(table, frame_of(table))

    def holders(self, table: Table) -> dict[str, Holders]:
        return count_holders(table, frame_of(table))


def rank_rows(table: Table, frame: Any, draws: Draws, held: ExitStack) -> RankedFrame:
    """Put every person's rows in a random order; `held` is how long the frame is kept."""
    from pyspark.sql import Window, functions

    table = with_domains(table, take_profile(table, frame)[0].histograms)
    key = [str(table.key)] if draws.origin == "key-file" else []
    needed = [str(table.person), *table.quasi, *table.sensitive]
    columns = list(dict.fromkeys([*needed, *([str(table.key)] if table.key else [])]))
    worded = _with_words(table, frame, columns, key, draws, held)
    counts = is_whole(table)
    mine = Window.partitionBy(quoted_column(str(table.person)), counts)
    place = functions.row_number().over(
        mine.orderBy(quoted_column(_WORD), quoted_column(_POSITION))
    )
    place = functions.least(place, functions.lit(BEYOND))
    kept = (
        worded.withColumn(_PLACE, functions.when(counts, place).otherwise(0))
        .withColumn(_OWN, functions.count("*").over(mine))
        .repartitionByRange(many_partitions(frame), quoted_column(_POSITION))
        .sortWithinPartitions(quoted(_POSITION))
        .select([quoted(name) for name in (*columns, _PLACE, _OWN)])
    )
    kept = held.enter_context(kept_on_disk(kept))
    counted = (
        kept.filter(quoted_column(_PLACE) > 0)
        .groupBy(quoted(_OWN))
        .agg(
            functions.count_if(quoted_column(_PLACE) == 1).alias("people"),
            functions.count_if(quoted_column(str(table.person)).isNull()).alias("absent"),
        )
        .toArrow()
    )
    own, people, absent = (np.asarray(each.to_numpy(), np.int64) for each in counted.columns)
    refuse_absent(table, int(absent.sum()))
    sizes = np.bincount(own, people, minlength=1).astype(np.int64)
    return RankedFrame(table, sizes, kept)


def _with_words(
    table: Table,
    frame: Any,
    columns: Sequence[str],
    key: Sequence[str],
    draws: Draws,
    held: ExitStack,
) -> Any:
    """The rows with their position in the table and their random word, as a signed number."""
    from pyspark.sql import functions

    partition = functions.spark_partition_id().alias("partition")
    counted = frame.groupBy(partition).agg(functions.count("*").alias("rows")).toArrow()
    sizes = dict(zip(*(column.to_pylist() for column in counted.columns), strict=True))
    starts, start = {}, 0
    for number in sorted(sizes):
        starts[number] = start
        start += sizes[number]
    described = replace(table, source=SchemaSource(table.label, table.source.schema))
    sealed = Sealed(draws, frame.sparkSession)
    held.callback(sealed.close)

    def words(batches: Batches) -> Iterator[tuple[IntArray, ...]]:
        from pyspark import TaskContext

        context, drawn = TaskContext.get(), sealed.open()
        assert context is not None
        number = context.partitionId()
        read = starts.get(number, 0)
        for batch in batches:
            address: Address = Positions(read, batch.num_rows)
            if key:
                own = normalize(batch, key).column(0).to_pylist()
                address = drawn.persons("rows", [str(each).encode() for each in own])
            word = drawn.words("rows", address) ^ np.uint64(1 << 63)  # in the same order, signed
            yield np.arange(read, read + batch.num_rows), word.view(np.int64)
            read += batch.num_rows
        if read != starts.get(number, 0) + sizes.get(number, 0):
            raise changed(described, f"partition {number} has another number of rows than before")

    return with_numbers(frame, columns, [_POSITION, _WORD], words)
