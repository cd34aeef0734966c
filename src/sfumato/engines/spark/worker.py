"""What executors do in the second pass: publish the records of a partition.

Nothing here depends on which attempt of a task runs, on the machine, or on when: a record's rank
and draws follow from its partition's number and its place in it. Published rows travel batch by
batch, each as a single value that Spark need not look into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sfumato.draws import Draws
from sfumato.engines.compact import CompactRows, compact
from sfumato.engines.quasi import QuasiColumn
from sfumato.engines.spark.counting import Sections
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import partition
from sfumato.engines.spark.staging import restored_batch
from sfumato.engines.stream import apply_plan
from sfumato.mechanisms import RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.sources import Source
from sfumato.table.spark import named, to_bytes

PUBLISHED = "rows binary"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class Work:
    """All that a task needs."""

    table: Table  # its roles; its source has a schema and no rows
    columns: Mapping[str, str]  # how its columns are called where they are coded
    domains: Mapping[str, pa.Array]
    profile: Profile
    plan: RecordPlan
    sections: Sections
    draws: Draws

    def rows(self) -> CompactRows:
        """The columns of the release, before any row is noted."""
        quasi = [QuasiColumn(self.table, n, self.domains.get(n)) for n in self.table.quasi]
        return CompactRows(self.table, self.profile, quasi)

    def published(self, number: int, batches: Batches) -> Batches:
        """The records of one partition through the plan, in compact form."""
        table = replace(self.table, source=PartitionSource(self, batches))
        section = self.sections.section(number)
        for batch, made in apply_plan(table, self.profile, self.plan, self.draws, section):
            yield compact(table, self.profile, batch, made)


class PartitionSource(Source):
    """The coded batches of one partition as Spark hands them over: once."""

    def __init__(self, work: Work, batches: Batches) -> None:
        self.label, self.schema = work.table.label, work.table.source.schema
        self._work, self._batches = work, batches

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        coded_names = {name: self._work.columns[name] for name in columns}
        for batch in self._batches:
            yield restored_batch(
                named(batch, list(coded_names.values())), coded_names, self._work.domains
            )


def publisher(work: Sealed[Work]) -> Callable[[Batches], Batches]:
    """The function of a task that publishes a partition (`PUBLISHED`)."""

    def publish_partition(batches: Batches) -> Batches:
        for batch in work.open().published(partition(), batches):
            yield pa.RecordBatch.from_arrays([pa.array([to_bytes(batch)])], names=["rows"])

    return publish_partition


def compact_rows(batches: Batches) -> Batches:
    """Published rows in compact form again."""
    for batch in batches:
        for rows in batch.column(0):
            yield from pa.ipc.open_stream(rows.as_buffer())
