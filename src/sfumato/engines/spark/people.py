"""People with several rows on Spark: which rows are published, who holds what, and who is who.

Rows get the same words as on one machine, which belong to their place in the table or, under a key
file, to their key. Spark sorts the rows of every person, and puts all rows in the table's order
again; so a release is that of the local engine. What it sorts stays on the executors' disks until
the release is written: it is the raw table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.blocks import BlockTree
from sfumato.columns import Value
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.binning import KIND, CombinationPacker, KindPacker
from sfumato.engines.coding import SensitiveCoder, without_nan
from sfumato.engines.kinds import combination_sizes, has_several_rows, kinds_of_lists
from sfumato.engines.ranking import BEYOND, RankedRows, all_shown, refuse_absent, with_domains
from sfumato.engines.spark.counting import (
    binned_by,
    count_binned,
    count_cells,
    count_combinations,
    is_whole,
    take_profile,
    whole_records,
)
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import kept_on_disk
from sfumato.engines.stream import changed
from sfumato.profile import BinnedCounts, Cells, Histogram, Holders, Kinds, Profile
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import SchemaSource, SparkSource, named, numbered, quoted

PLACED = (KIND, "sfumato rank")  # what a placed frame has besides the table's columns
_PLACE, _OWN, _POSITION, _WORD = "sfumato place", "sfumato own", "sfumato position", "sfumato word"
_CODE, _HELD, _FIRST, _BLOCK = "sfumato code", "sfumato held", "sfumato first", "sfumato block"

Batches = Iterator[pa.RecordBatch]
Numbers = Callable[[Batches], Iterator[tuple[IntArray, ...]]]


@dataclass(frozen=True, eq=False)
class FrameCounts:
    """Counts of a table on Spark."""

    table: Table
    frame: Any

    def profile(self) -> Profile:
        return take_profile(self.table, self.frame)[0]

    def cells(self, column: str, values: tuple[Value, ...]) -> Cells:
        return count_cells(self.table, self.frame, column, values)

    def combined_cells(self, profile: Profile) -> Cells | None:
        return None

    def binned(self, column: str, values: tuple[Value, ...]) -> BinnedCounts:
        return count_binned(self.table, self.frame, column, values)

    def kinds(self, profile: Profile) -> Kinds | None:
        if has_several_rows(self.table):
            return count_kinds(self.table, self.frame, profile.histograms)
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

    def chosen(self, shown: Sequence[int]) -> Table:
        from pyspark.sql import functions

        most = functions.lit(shown[-1])
        if not all_shown(shown):
            stays = functions.array(*(functions.lit(number) for number in shown))
            own = functions.least(quoted_column(_OWN), functions.lit(len(shown)))
            most = functions.element_at(
                stays, functions.greatest(own, functions.lit(1)).cast("int")
            )
        frame = self.frame.filter(quoted_column(_PLACE) <= most).drop(_PLACE, _OWN)
        source = SparkSource(frame, self.table.label)
        return replace(self.table, source=source, rows_per_person=max(shown))

    def person_columns(self) -> tuple[str, ...]:
        return find_person_columns(self.table, self.frame.filter(quoted_column(_PLACE) > 0))

    def counts(self, table: Table) -> FrameCounts:
        return FrameCounts(table, frame_of(table))

    def holders(self, table: Table) -> dict[str, Holders]:
        return count_holders(table, frame_of(table))


def frame_of(table: Table) -> Any:
    assert isinstance(table.source, SparkSource)
    return table.source.frame


def quoted_column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(quoted(name))


def many_partitions(frame: Any) -> int:
    """How many partitions have rows: what was sorted gets as many, for each costs a task."""
    from pyspark.sql import functions

    found = frame.select(functions.spark_partition_id().alias("number")).distinct().count()
    return max(int(found), 1)


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


def with_numbers(frame: Any, columns: Sequence[str], names: Sequence[str], made: Numbers) -> Any:
    """The named columns, and beside them whole numbers that every task makes of its batches."""
    from pyspark.sql import functions
    from pyspark.sql.types import LongType, StructField, StructType

    rows = numbered(frame, columns)
    added = [f"added{place}" for place in range(len(names))]
    schema = StructType([*rows.schema.fields, *(StructField(name, LongType()) for name in added)])

    def run(batches: Batches) -> Batches:
        given: list[pa.RecordBatch] = []

        def read() -> Batches:
            for batch in batches:
                given.append(batch)
                yield named(batch, columns)

        for numbers in made(read()):
            arrays = [*given.pop().columns, *(pa.array(each, pa.int64()) for each in numbers)]
            yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

    return rows.mapInArrow(run, schema).select(
        [functions.col(f"column{place}").alias(name) for place, name in enumerate(columns)]
        + [functions.col(own).alias(name) for own, name in zip(added, names, strict=True)]
    )


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


def find_person_columns(table: Table, frame: Any) -> tuple[str, ...]:
    """The quasi columns that are alike in all rows of every person, a missing value being one."""
    from pyspark.sql import functions

    names = [f"q{place}" for place in range(len(table.quasi))]
    alike = []
    for name, column in zip(names, map(quoted_column, table.quasi), strict=True):
        same = functions.min(column).eqNullSafe(functions.max(column))
        present = functions.count(column)
        present = (present == 0) | (present == functions.count("*"))
        alike.append((same & present).alias(name))
    if not alike:
        return ()
    people = frame.groupBy(quoted(str(table.person))).agg(*alike)
    found = people.agg(*(functions.every(name).alias(name) for name in names)).first()
    return tuple(own for own, name in zip(table.quasi, names, strict=True) if found[name])


def count_holders(table: Table, frame: Any) -> dict[str, Holders]:
    """How many people have each value in some row, for every sensitive column."""
    from pyspark.sql import functions

    person = quoted_column(str(table.person))
    different = functions.count_distinct(person).alias("people")
    whole = whole_records(table, frame, [str(table.person), *table.sensitive])
    people = int(whole.agg(different).first().people)
    found = {}
    for column, histogram in take_profile(table, frame)[0].histograms.items():
        counted = whole.groupBy(quoted_column(column).alias("value")).agg(different).toArrow()
        (batch,) = counted.combine_chunks().to_batches()
        values = without_nan(normalize(batch, ["value"]).column(0)).to_pylist()
        code = {value: place for place, value in enumerate(histogram.values)}
        counts = np.zeros(len(code), np.int64)
        for value, number in zip(values, batch.column("people").to_pylist(), strict=True):
            counts[code[value]] += number
        found[column] = Holders(column, histogram.values, counts, people)
    return found


def count_kinds(table: Table, frame: Any, histograms: Mapping[str, Histogram]) -> Kinds:
    """People by all that they hold in all rows; the driver holds the kinds."""
    from pyspark.sql import functions

    people = _with_people(table, frame, [str(table.person), *table.sensitive], histograms)
    counted = (
        people.filter(quoted_column(_POSITION) == quoted_column(_FIRST))
        .groupBy(quoted(_HELD))
        .agg(functions.count("*").alias("n"))
        .toArrow()
    )
    held, number = (column.to_pylist() for column in counted.columns)
    order = sorted(range(len(held)), key=lambda place: (len(held[place]), held[place]))
    lists = pa.array([held[place] for place in order], pa.list_(pa.int64()))
    counts = np.array([number[place] for place in order], np.int64)
    return kinds_of_lists(tuple(histograms), combination_sizes(table, histograms), lists, counts)


def count_binned_kinds(table: Table, frame: Any, profile: Profile, kinds: Kinds) -> BinnedCounts:
    """People by the bins of quasi columns and by all that they hold, as on one machine."""
    described = replace(table, source=SchemaSource(table.label, table.source.schema))
    if not has_several_rows(table):
        columns = [*table.quasi, *table.sensitive]
        whole = replace(profile, kinds=kinds)
        return binned_by(
            described,
            whole_records(table, frame, columns),
            columns,
            lambda bins: CombinationPacker(described, whole, bins),
        )
    narrow = replace(described, quasi=table.person_columns)
    first = next(iter(profile.histograms.values()))
    people = _of_kinds(table, frame, narrow.quasi, profile.histograms, kinds)
    return binned_by(
        narrow,
        people.filter(quoted_column(_POSITION) == quoted_column(_FIRST)),
        [*narrow.quasi, KIND],
        lambda bins: KindPacker(narrow, first.column, first.values, bins, len(kinds.counts)),
    )


def place_people(
    table: Table,
    frame: Any,
    histograms: Mapping[str, Histogram],
    kinds: Kinds,
    tree: BlockTree | None = None,
    of_block: IntArray | None = None,
) -> Any:
    """The published columns, and the kind and the rank of every row's person (`PLACED`).

    With a tree, kinds are by block. People of a kind are ranked by their first rows, as on one
    machine; a task sorts those of a kind.
    """
    from pyspark.sql import Window, functions

    columns = [*table.quasi, *table.sensitive]
    people = _of_kinds(table, frame, columns, histograms, kinds, tree, of_block)
    of_kind = Window.partitionBy(quoted(KIND)).orderBy(quoted(_FIRST))
    rank = (functions.dense_rank().over(of_kind) - 1).cast("long")
    return (
        people.withColumn(PLACED[1], rank)
        .repartitionByRange(many_partitions(frame), quoted_column(_POSITION))
        .sortWithinPartitions(quoted(_POSITION))
        .select([quoted(name) for name in (*columns, *PLACED)])
    )


def _of_kinds(
    table: Table,
    frame: Any,
    columns: Sequence[str],
    histograms: Mapping[str, Histogram],
    kinds: Kinds,
    tree: BlockTree | None = None,
    of_block: IntArray | None = None,
) -> Any:
    """The rows with the kind of their person."""
    from pyspark.sql import functions

    needed = [*([str(table.person)] if has_several_rows(table) else []), *columns]
    people = _with_people(
        table, frame, list(dict.fromkeys([*needed, *table.sensitive])), histograms, tree
    )
    sizes = tuple(combination_sizes(table, histograms))
    held = [
        np.ravel_multi_index(tuple(each[each[:, 0] >= 0].T), sizes).tolist() for each in kinds.held
    ]
    blocks = np.zeros(len(held), np.int64) if of_block is None else of_block
    numbers = pa.table(
        {
            _HELD: pa.array(held, pa.list_(pa.int64())),
            _BLOCK: pa.array(blocks, pa.int64()),
            KIND: pa.array(np.arange(len(held)), pa.int64()),
        }
    )
    known = functions.broadcast(frame.sparkSession.createDataFrame(numbers))
    return people.join(known, [_HELD, _BLOCK])


def _with_people(
    table: Table,
    frame: Any,
    columns: Sequence[str],
    histograms: Mapping[str, Histogram],
    tree: BlockTree | None = None,
) -> Any:
    """The rows with all that their person holds, their block, and that person's first position."""
    from pyspark.sql import Window, functions

    coders = {name: SensitiveCoder(table, name, h.values) for name, h in histograms.items()}
    sizes = tuple(combination_sizes(table, histograms))
    cut = () if tree is None else tree.columns

    def codes(batches: Batches) -> Iterator[tuple[IntArray, ...]]:
        for batch in batches:
            plain = normalize(batch, [*coders, *cut])
            own = tuple(coder(plain.column(name)) for name, coder in coders.items())
            block = np.zeros(batch.num_rows, np.int64) if tree is None else tree.numbers(plain)
            yield np.ravel_multi_index(own, sizes).astype(np.int64), block

    coded = with_numbers(whole_records(table, frame, columns), columns, [_CODE, _BLOCK], codes)
    placed = coded.withColumn(_POSITION, functions.monotonically_increasing_id())
    if not has_several_rows(table):
        held, first = functions.array(quoted_column(_CODE)), quoted_column(_POSITION)
        return placed.withColumn(_HELD, held).withColumn(_FIRST, first)
    mine = Window.partitionBy(quoted(str(table.person)))
    held = functions.sort_array(functions.collect_list(quoted(_CODE)).over(mine))
    first = functions.min(quoted(_POSITION)).over(mine)
    return placed.withColumn(_HELD, held).withColumn(_FIRST, first)
