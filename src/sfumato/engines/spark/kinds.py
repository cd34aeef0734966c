"""What people hold in all their rows, counted on Spark, and who is who among those of a kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.blocks import BlockTree
from sfumato.draws import IntArray
from sfumato.engines.binning import KIND, CombinationPacker, KindPacker
from sfumato.engines.coding import SensitiveCoder, without_nan
from sfumato.engines.kinds import combination_sizes, has_several_rows, kinds_of_lists
from sfumato.engines.spark.counting import binned_by, take_profile, whole_records
from sfumato.engines.spark.frames import Batches, many_partitions, quoted_column, with_numbers
from sfumato.profile import BinnedCounts, Histogram, Holders, Kinds, Profile
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import SchemaSource, quoted

PLACED = (KIND, "sfumato rank")  # what a placed frame has besides the table's columns
_CODE, _HELD, _BLOCK = "sfumato code", "sfumato held", "sfumato block"
_POSITION, _FIRST = "sfumato position", "sfumato first"


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
