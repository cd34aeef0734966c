"""The Spark engine: two passes over a DataFrame, where it lies; the release on the driver's disk.

The first pass counts, the driver plans, the second pass publishes partition by partition
(`worker`). On a cluster the finished files come to the driver one after the other, so no folder
need be visible from all machines, and the driver holds no more of a large table than of a small
one. On one machine the tasks put them into the folder themselves.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.columns import Value
from sfumato.draws import Draws
from sfumato.engines.compact import CompactRows
from sfumato.engines.engine import Engine, RunOptions
from sfumato.engines.order import pile_count
from sfumato.engines.quasi import PlainColumn
from sfumato.engines.ranking import RankedRows
from sfumato.engines.spark import worker
from sfumato.engines.spark.counting import (
    Sections,
    check_keys,
    count_blocks,
    count_combinations,
    take_profile,
    whole_records,
)
from sfumato.engines.spark.frames import frame_of
from sfumato.engines.spark.kinds import PLACED, place_people
from sfumato.engines.spark.people import FrameCounts, rank_rows
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import job_settings, open_files, spark_errors, steady
from sfumato.engines.stream import changed
from sfumato.errors import UsageError
from sfumato.mechanisms import RecordPlan
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Cells, Histogram, Kinds, Profile
from sfumato.table import Table
from sfumato.table.sources import ParquetSource, Source
from sfumato.table.spark import SchemaSource, SparkSource, numbered


class SparkEngine(Engine):
    """Publishes a DataFrame, or Parquet files that Spark reads."""

    name: ClassVar[str] = "spark"

    def __init__(self, table: Table, options: RunOptions) -> None:
        if options.order == "keep":
            raise UsageError(
                "Rows on Spark have no order to keep. Leave --order out, or publish with --engine "
                "local."
            )
        super().__init__(replace(table, source=_on_spark(table.source)), options)
        self._frame: Any = None
        self._sections: Sections | None = None  # known once the table was counted

    @classmethod
    def source(cls, origin: Any) -> Any:
        if isinstance(origin, str | Path):
            return open_files([str(origin)], str(origin))
        return super().source(origin)

    def __enter__(self) -> Self:
        assert isinstance(self.table.source, SparkSource)
        given = self.table.source.frame
        with ExitStack() as held:
            held.enter_context(spark_errors(self.table.label))
            held.enter_context(job_settings(given.sparkSession))
            self._frame = held.enter_context(steady(given))
            self.held = held.pop_all()
        return self

    def rank_rows(self, table: Table, draws: Draws) -> RankedRows:
        return rank_rows(table, self._frame, draws, self.held)

    def take(self, table: Table) -> None:
        super().take(table)
        self._frame = self.held.enter_context(steady(frame_of(table)))

    def repeated_keys(self) -> int:
        return check_keys(self.table, self._frame)

    def profile(self) -> Profile:
        self.options.progress("counting", 0, 0)
        profile, self._sections = take_profile(self.table, self._frame)
        return profile

    def cells(self, column: str, values: tuple[Value, ...]) -> Cells:
        return self._counts.cells(column, values)

    def binned(self, column: str, values: tuple[Value, ...]) -> BinnedCounts:
        return self._counts.binned(column, values)

    def kinds(self, profile: Profile) -> Kinds | None:
        return self._counts.kinds(profile)

    def binned_kinds(self, profile: Profile) -> BinnedCounts | None:
        return self._counts.binned_kinds(profile)

    @property
    def _counts(self) -> FrameCounts:
        return FrameCounts(self.table, self._frame)

    def combination_counts(self, histograms: Mapping[str, Histogram]) -> FloatArray:
        found = count_combinations(self.table, self._frame, histograms)
        counts = np.zeros(tuple(len(histogram.values) for histogram in histograms.values()))
        counts[tuple(found.held.T)] = found.counts
        return counts

    def apply(
        self, folder: Path, plan: RecordPlan, profile: Profile, draws: Draws, order_draws: Draws
    ) -> tuple[CompactRows, int]:
        assert self._sections is not None
        sections, frame, kinds = self._sections, self._frame, None
        if plan.needs_kinds:
            assert profile.kinds is not None  # counted, else it could not have been planned
            kinds, of_block = plan.placed or (profile.kinds, None)
            placed = place_people(self.table, frame, profile.histograms, kinds, plan.tree, of_block)
            frame = self.held.enter_context(steady(placed))
            sections = take_profile(self.table, frame)[1]
        if plan.tree is not None:  # ranks are counted in blocks, which planning has made
            columns = count_blocks(self.table, frame, plan, profile)
            sections = Sections(profile, columns, plan.tree.blocks)
        described = SchemaSource(self.table.label, self.table.source.schema)
        work = worker.Work(
            replace(self.table, source=described),
            profile,
            plan,
            sections,
            draws,
            order_draws,
            pile_count(profile.rows - plan.withheld),
            kinds=kinds,
        )
        return write_parts(folder, frame, work, self.options, beside=_on_one_machine(frame))


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


def _on_one_machine(frame: Any) -> bool:
    context = getattr(frame.sparkSession, "_sc", None)
    return context is not None and bool(context.master.startswith("local"))


def write_parts(
    folder: Path, frame: Any, work: worker.Work, options: RunOptions, *, beside: bool
) -> tuple[CompactRows, int]:
    """A file for every pile; what the quasi columns show in all of them.

    `beside` says that the tasks run where the folder is.
    """
    table, expected, published = work.table, work.profile.rows - work.plan.withheld, 0
    columns = [*table.quasi, *table.sensitive]
    if work.draws.origin == "key-file" and table.key is not None:
        columns.append(table.key)
    columns += PLACED if work.kinds is not None else ()
    shown = [PlainColumn(table, name) for name in table.quasi]
    rows = CompactRows(table, work.profile)
    rows.quasi = shown
    prints = Prints(table)
    with _arrivals(folder) as arriving:
        work = replace(work, folder=str(arriving.resolve()) if beside else None)
        with closing(Sealed(work, frame.sparkSession)) as sealed:
            made = (
                numbered(whole_records(table, frame, columns), columns)
                .mapInArrow(worker.dealer(sealed), worker.DEALT)
                .groupBy("pile")
                .applyInArrow(worker.gatherer(sealed), worker.GATHERED)
            )
            for part in made.collect() if beside else _one_by_one(made):
                prints.add(np.frombuffer(part.prints, np.int64).reshape(-1, 3))
                for column, seen in zip(shown, pickle.loads(part.seen).values(), strict=True):
                    column.learn(seen)
                place = _place(folder, part.pile, work.piles)
                if beside:
                    (arriving / str(part.pile)).rename(place)
                else:
                    place.write_bytes(part.file)
                published += part.records
                options.progress("publishing", published, expected)
    if published != expected:
        how = f"{expected:,} records were to be published, and {published:,} arrived"
        raise changed(table, how)
    if not published:
        _place(folder, 0, 1).write_bytes(worker.empty_file(work))
    rows.check_stated()
    return rows, published


@contextmanager
def _arrivals(folder: Path) -> Iterator[Path]:
    """A folder for tasks to put files into, and no longer than we wait for them.

    A task that outlives its job would still write. So the folder moves away before it is emptied:
    such a task does not find it any more.
    """
    arriving = folder / "arriving"
    arriving.mkdir()
    try:
        yield arriving
    finally:
        shutil.rmtree(arriving.rename(folder / "left over"))


def _one_by_one(made: Any) -> Iterator[Any]:
    """The rows of a frame, of which the driver holds one at a time.

    All are made at once, and wait on the executors' disks: fetched one by one they would also be
    made one by one.
    """
    from pyspark import StorageLevel

    kept = made.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield from kept.toLocalIterator()
    finally:
        kept.unpersist()


def _place(folder: Path, pile: int, piles: int) -> Path:
    if piles == 1:
        return folder / "records.parquet"
    (folder / "records").mkdir(exist_ok=True)
    return folder / "records" / f"part-{pile:05}.parquet"


class Prints:
    """What every pile says that each partition gave: all must say the same."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[tuple[int, int], int] = {}

    def add(self, told: Iterable[Any]) -> None:
        for partition, chunk, said in np.asarray(told).tolist():
            if self._known.setdefault((partition, chunk), said) != said:
                raise changed(
                    self._table,
                    f"partition {partition} was read twice, and differed. A DataFrame whose rows "
                    "come in another order each time cannot be published",
                )
