"""The Spark engine: a DataFrame, where it lies; the release on the driver's disk.

Executors code the rows (`staging`) and count them, the driver plans, and they publish partition by
partition (`worker`). Published rows come to the driver one partition after the other, in compact
form, and are sorted and written there, as on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws
from sfumato.engines.engine import Engine, RunOptions
from sfumato.engines.spark import worker
from sfumato.engines.spark.counting import count_sections
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import (
    job_settings,
    kept_on_disk,
    open_files,
    spark_errors,
    steady,
)
from sfumato.engines.spark.staging import FrameStaged, restored_batch, stage_frame
from sfumato.engines.stream import RowStream, changed
from sfumato.errors import UsageError
from sfumato.mechanisms import Published, RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.sources import ParquetSource, Source
from sfumato.table.spark import SchemaSource, SparkSource, numbered


class SparkEngine(Engine):
    """Publishes a DataFrame, or Parquet files that Spark reads."""

    name: ClassVar[str] = "spark"

    def __init__(self, table: Table, options: RunOptions) -> None:
        if table.person is not None:
            raise UsageError(
                "The Spark engine takes one row of each person: choose them first, or publish "
                "with --engine local."
            )
        super().__init__(replace(table, source=_on_spark(table.source)), options)

    @classmethod
    def source(cls, origin: Any) -> Any:
        if isinstance(origin, str | Path):
            return open_files([str(origin)], str(origin))
        return super().source(origin)

    def __enter__(self) -> Self:
        assert isinstance(self.table.source, SparkSource)
        given = self.table.source.frame
        with ExitStack() as stack:
            stack.enter_context(spark_errors(self.table.label))
            stack.enter_context(job_settings(given.sparkSession))
            frame = stack.enter_context(steady(given))
            self.options.progress("counting", 0, 0)
            self.table = stage_frame(self.table, frame, stack)
            self.held = stack.pop_all()
        return self

    def stream(self, plan: RecordPlan, profile: Profile, draws: Draws) -> RowStream:
        rows = self.table.source
        assert isinstance(rows, FrameStaged)
        described = replace(self.table, source=SchemaSource(rows.label, rows.schema))
        sections = count_sections(self.table, plan, profile)
        work = worker.Work(described, rows.columns, rows.domains, profile, plan, sections, draws)
        return FrameStream(rows.frame, work, self.options)


def _on_spark(source: Source) -> SparkSource:
    """Records on Spark: a DataFrame as it is, Parquet files opened there."""
    if isinstance(source, SparkSource):
        return source
    if isinstance(source, ParquetSource):
        return open_files([str(path) for path in source.paths], source.label)
    raise UsageError(
        f"The Spark engine takes Parquet files and Spark DataFrames, not {source.label}. Publish "
        "it with the local engine."
    )


class FrameStream(RowStream):
    """The published rows of a frame, partition by partition."""

    def __init__(self, frame: Any, work: worker.Work, options: RunOptions) -> None:
        super().__init__(work.table, work.profile, work.plan, options.progress)
        self.frame, self.work = frame, work

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        table, work = self.table, self.work
        columns = [*table.quasi, *table.sensitive]
        if work.draws.origin == "key-file" and table.key is not None:
            columns.append(table.key)
        chosen = numbered(self.frame, [work.columns[name] for name in columns])
        with closing(Sealed(work, self.frame.sparkSession)) as sealed:
            published = chosen.mapInArrow(worker.publisher(sealed), worker.PUBLISHED)
            # all are made at once, each of them once: fetched one by one they would also be made so
            with kept_on_disk(published) as kept:
                kept.count()
                for row in kept.toLocalIterator():
                    batch = pa.ipc.open_stream(row.rows).read_next_batch()
                    compact = self.rows.add(self._shown(batch), self._published(batch))
                    self.published += compact.num_rows
                    self.progress("publishing", self.published, self.expected)
                    yield compact
        if self.published != self.expected:
            arrived = f"{self.published:,} of {self.expected:,} records arrived"
            raise changed(table, arrived)
        self.rows.check_stated()

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The quasi columns, whose codes come without what they mean."""
        names = {name: name for name in self.table.quasi}
        return restored_batch(batch, names, self.work.domains)

    def _published(self, batch: pa.RecordBatch) -> Published:
        arrays = {
            name: np.asarray(batch.column(name).to_numpy(), np.int64)
            for name in batch.schema.names
            if name not in self.table.quasi
        }
        sensitive = {name: arrays.pop(name) for name in self.table.sensitive if name in arrays}
        return Published(sensitive, arrays)
