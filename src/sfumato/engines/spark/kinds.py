"""What people hold in all their rows, counted on Spark, and who is who among those of a kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.blocks import BlockTree
from sfumato.draws import IntArray
from sfumato.engines.binning import KIND, CombinationPacker
from sfumato.engines.coding import SensitiveCoder, without_nan
from sfumato.engines.kinds import combination_sizes
from sfumato.engines.spark.counting import binned_by, take_profile, whole_records
from sfumato.engines.spark.frames import Batches, many_partitions, quoted_column, with_numbers
from sfumato.profile import BinnedCounts, Histogram, Holders, Kinds, Profile
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import SchemaSource, quoted

PLACED = (KIND, "sfumato rank")  # what a placed frame has besides the table's columns
_CODE, _BLOCK, _POSITION = "sfumato code", "sfumato block", "sfumato position"


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


def count_binned_kinds(table: Table, frame: Any, profile: Profile, kinds: Kinds) -> BinnedCounts:
    """People by the bins of quasi columns and by all that they hold, as on one machine."""
    described = replace(table, source=SchemaSource(table.label, table.source.schema))
    columns = [*table.quasi, *table.sensitive]
    whole = replace(profile, kinds=kinds)
    return binned_by(
        described,
        whole_records(table, frame, columns),
        columns,
        lambda bins: CombinationPacker(described, whole, bins),
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

    With a tree, kinds are by block. People of a kind are ranked by their places in the table, as on
    one machine; a task sorts those of a kind.
    """
    from pyspark.sql import Window, functions

    columns = [*table.quasi, *table.sensitive]
    people = _of_kinds(table, frame, columns, histograms, kinds, tree, of_block)
    of_kind = Window.partitionBy(quoted(KIND)).orderBy(quoted(_POSITION))
    rank = (functions.row_number().over(of_kind) - 1).cast("long")
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

    needed = list(dict.fromkeys([*columns, *table.sensitive]))
    people = _coded(table, frame, needed, histograms, tree)
    sizes = tuple(combination_sizes(table, histograms))
    code = np.ravel_multi_index(tuple(kinds.held.T), sizes).astype(np.int64)
    blocks = np.zeros(len(code), np.int64) if of_block is None else of_block
    numbers = pa.table({_CODE: code, _BLOCK: blocks, KIND: np.arange(len(code))})
    known = functions.broadcast(frame.sparkSession.createDataFrame(numbers))
    return people.join(known, [_CODE, _BLOCK])


def _coded(
    table: Table,
    frame: Any,
    columns: Sequence[str],
    histograms: Mapping[str, Histogram],
    tree: BlockTree | None = None,
) -> Any:
    """The rows with the code of their combination, their block, and their position."""
    from pyspark.sql import functions

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
    return coded.withColumn(_POSITION, functions.monotonically_increasing_id())
