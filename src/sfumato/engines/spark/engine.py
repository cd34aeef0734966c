"""The Spark engine: a DataFrame, where it lies.

Executors code the rows (`staging`) and count them, the driver plans, and they publish partition by
partition (`worker`). Into a store that takes files whole they write the release, too (`writing`).
Elsewhere published rows come to the driver one partition after the other, in compact form, and are
sorted and written there, as on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from sfumato.draws import Draws
from sfumato.engines.engine import LocalEngine
from sfumato.engines.run import RunOptions, Written
from sfumato.engines.spark import worker
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import (
    job_settings,
    kept_on_disk,
    made_on_disk,
    open_files,
    spark_errors,
)
from sfumato.engines.spark.staging import FrameStaged, stage_frame
from sfumato.engines.spark.writing import StoredRows
from sfumato.engines.spelling import spell
from sfumato.errors import UsageError
from sfumato.mechanisms import CellPlan, Plan, RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.sources import ParquetSource, Source
from sfumato.table.spark import SparkSource, numbered


class SparkEngine(LocalEngine):
    """Publishes a DataFrame, or Parquet files that Spark reads."""

    name: ClassVar[str] = "spark"
    plans: ClassVar[tuple[type[Plan], ...]] = (RecordPlan, CellPlan)

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
        frame = self.table.source.frame
        with ExitStack() as stack:
            stack.enter_context(spark_errors(self.table.label))
            stack.enter_context(job_settings(frame.sparkSession))
            self.options.progress("counting", 0, 0)
            # the result of joins, groupings or functions need not be the same twice, so what was
            # read is kept; it is the raw table: we wait until the executors have removed it
            with kept_on_disk(frame) as kept:
                self.table = stage_frame(self.table, kept, stack)
            self.held = stack.pop_all()
        return self

    def rows(self, plan: RecordPlan, profile: Profile, draws: Draws) -> Iterator[pa.RecordBatch]:
        """The published rows of the frame, partition by partition."""
        read = 0
        with self._published(plan, profile, draws) as (kept, _):
            for row in kept.toLocalIterator():
                batch = pa.ipc.open_stream(row.rows).read_next_batch()
                read += batch.num_rows
                self.options.progress("publishing", read, profile.rows)
                yield batch

    def write(self, folder: Path, plan: Plan, profile: Profile, draws: Draws) -> Written:
        store = self.options.store
        if store is None or not isinstance(plan, RecordPlan):
            return super().write(folder, plan, profile, draws)
        with self._published(plan, profile, draws) as (kept, work):
            stored = StoredRows(kept, work, store)
            write = stored.spell if stored.rows.number else spell
            return self.spelled(folder, plan, profile, stored.rows, stored, write)

    @contextmanager
    def _published(
        self, plan: RecordPlan, profile: Profile, draws: Draws
    ) -> Iterator[tuple[Any, Sealed[worker.Work]]]:
        """The published rows on the executors' disks."""
        table, staged = self.table, self.table.source
        assert isinstance(staged, FrameStaged)
        columns = self.columns(draws)
        counted = worker.count_sections(table, plan, profile)
        work = worker.Work(table, columns, profile, plan, draws, counted)
        chosen = numbered(staged.frame, [staged.columns[name] for name in columns])
        with closing(Sealed(work, staged.frame.sparkSession)) as sealed:
            published = chosen.mapInArrow(worker.publisher(sealed), worker.PUBLISHED)
            with made_on_disk(published) as kept:
                yield kept, sealed


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
