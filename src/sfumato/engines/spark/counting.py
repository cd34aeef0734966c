"""How often each partition has what ranks count among: partitions are sections of one stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.spark.staging import PART
from sfumato.engines.stream import StreamSection
from sfumato.mechanisms import RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.staging import staged


@dataclass(frozen=True, eq=False)
class PartitionCounts:
    """How often each partition has each of `size` codes: the counts that are not zero."""

    size: int
    partitions: IntArray
    codes: IntArray
    counts: IntArray

    def of(self, chosen: Any) -> IntArray:
        """The histogram of the chosen entries."""
        counts = np.bincount(self.codes[chosen], self.counts[chosen], minlength=self.size)
        return counts.astype(np.int64)  # exact: sums below 2⁵³


@dataclass(frozen=True, eq=False)
class Sections:
    """The partitions of a frame as sections of one stream, in the order of their numbers."""

    columns: Mapping[str, PartitionCounts]

    def section(self, number: int) -> StreamSection:
        before, here = {}, {}
        for name, counted in self.columns.items():
            before[name] = counted.of(counted.partitions < number)
            here[name] = counted.of(counted.partitions == number)
        first = next(iter(self.columns))
        return StreamSection(int(before[first].sum()), int(here[first].sum()), before, here)


def count_sections(table: Table, plan: RecordPlan, profile: Profile) -> Sections:
    """How often each partition has each of what a plan's ranks count among (`RecordPlan.keys`)."""
    coders = {n: SensitiveCoder(table, n, h.values) for n, h in profile.histograms.items()}
    ranked = plan.ranked(profile)
    names, tree, keys = [f"k{index}" for index in range(len(ranked))], plan.tree, plan.keys
    schema = pa.schema([(name, pa.int64()) for name in names])

    def place(batch: pa.RecordBatch) -> pa.RecordBatch:
        codes = {column: coder(batch.column(column)) for column, coder in coders.items()}
        section = keys(codes, None if tree is None else tree.numbers(batch))
        return pa.RecordBatch.from_arrays([pa.array(section[n]) for n in ranked], schema=schema)

    people = staged(table).map((*table.quasi, *table.sensitive), place, schema)
    columns = {}
    for name, (column, counts) in zip(names, ranked.items(), strict=True):
        counted = people.count(PART, name)
        arrays = (np.asarray(column.to_numpy(), np.int64) for column in counted.columns)
        columns[column] = PartitionCounts(len(counts), *arrays)
    return Sections(columns)
