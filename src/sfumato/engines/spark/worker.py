"""What executors do in the second pass: publish the records of a partition.

Nothing here depends on which attempt of a task runs, on the machine, or on when: a record's rank
and draws follow from its partition's number and its place in it. Published rows travel batch by
batch, each as a single value that Spark need not look into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, IntArray
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import partition
from sfumato.engines.spark.staging import PART, FrameStaged
from sfumato.engines.stream import StreamSection, apply_plan
from sfumato.mechanisms import RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.spark import to_bytes
from sfumato.table.staging import codes_of

PUBLISHED = "rows binary"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class Work:
    """All that a task needs; the table comes without its rows."""

    table: Table
    columns: Sequence[str]
    profile: Profile
    plan: RecordPlan
    draws: Draws
    counted: Mapping[str, tuple[IntArray, ...]]  # by what ranks count among: partition, code, n

    def section(self, number: int) -> StreamSection:
        """The partitions are sections of one stream, in the order of their numbers."""
        before, here = dict[str, IntArray](), dict[str, IntArray]()
        for name, counts in self.plan.ranked(self.profile).items():
            part, code, n = self.counted[name]
            for counted, chosen in ((before, part < number), (here, part == number)):
                weighed = np.bincount(code[chosen], n[chosen], minlength=len(counts))
                counted[name] = weighed.astype(np.int64)  # exact: sums below 2⁵³
        first = next(iter(here))
        return StreamSection(int(before[first].sum()), int(here[first].sum()), before, here)

    def published(self, number: int, batches: Batches) -> Batches:
        """The records of one partition through the plan."""
        staged = self.table.source
        assert isinstance(staged, FrameStaged)
        records = (staged.coded(self.columns, batch.columns) for batch in batches)
        section = self.section(number)
        return apply_plan(self.table, self.profile, self.plan, self.draws, section, records)


def count_sections(
    table: Table, plan: RecordPlan, profile: Profile
) -> dict[str, tuple[IntArray, ...]]:
    """How often each partition has each of what a plan's ranks count among (`RecordPlan.keys`)."""
    ranked, sensitive, keys, tree = (
        list(plan.ranked(profile)),
        table.sensitive,
        plan.keys,
        plan.tree,
    )
    names = [f"k{index}" for index in range(len(ranked))]
    schema = pa.schema([(name, pa.int64()) for name in names])

    def place(batch: pa.RecordBatch) -> pa.RecordBatch:
        blocks = None if tree is None else tree.numbers(batch)
        section = keys(codes_of(batch, sensitive), blocks)
        return pa.RecordBatch.from_arrays([pa.array(section[n]) for n in ranked], schema=schema)

    assert isinstance(table.source, FrameStaged)
    people, columns = table.source.map((*table.quasi, *table.sensitive), place, schema), {}
    for name, column in zip(names, ranked, strict=True):
        counted = people.count(PART, name)
        columns[column] = tuple(np.asarray(c.to_numpy(), np.int64) for c in counted.columns)
    return columns


def publisher(work: Sealed[Work]) -> Callable[[Batches], Batches]:
    """The function of a task that publishes a partition (`PUBLISHED`)."""

    def publish_partition(batches: Batches) -> Batches:
        for batch in work.open().published(partition(), batches):
            yield pa.RecordBatch.from_arrays([pa.array([to_bytes(batch)])], names=["rows"])

    return publish_partition


def published_rows(batches: Batches) -> Batches:
    """What `publisher` gave, again as rows."""
    for batch in batches:
        for rows in batch.column(0):
            yield from pa.ipc.open_stream(rows.as_buffer())
