"""The Spark engine: two passes over a DataFrame, where it lies; the release on the driver's disk.

The first pass counts, the driver plans, the second pass publishes partition by partition
(`worker`). On a cluster the finished files come to the driver one after the other, so no folder
need be visible from all machines, and the driver holds no more of a large table than of a small
one. On one machine the tasks put them into the folder themselves.
"""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.columns import Value
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_draws, choose_plan, with_cells
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.files import published_records, write_records, write_side
from sfumato.engines.order import pile_count
from sfumato.engines.publication import Publication, check_choices, key_caveats, make_manifest
from sfumato.engines.quasi import PlainColumn
from sfumato.engines.spark import worker
from sfumato.engines.spark.counting import (
    check_keys,
    count_cells,
    take_profile,
    whole_records,
)
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import job_settings, spark_errors, steady
from sfumato.engines.stream import CellStream, RecordStream
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import CellPlan, Mechanism, parse_mechanism
from sfumato.profile import Cells
from sfumato.release import BundleWriter
from sfumato.table import Table
from sfumato.table.spark import SchemaSource, SparkSource, numbered


def publish(
    table: Table,
    guarantee: Guarantee | str,
    *,
    to: str | Path,
    mechanism: Mechanism | str | None = None,
    seed: int | None = None,
    key_file: str | Path | None = None,
    order: str = "shuffle",
    repeated_keys: str = "refuse",
    progress: Progress = no_progress,
) -> Publication:
    """Publish a table whose source is a Spark DataFrame; the parameters of the local engine."""
    began = time.perf_counter()
    promise = parse_guarantee(guarantee) if isinstance(guarantee, str) else guarantee
    way = parse_mechanism(mechanism) if isinstance(mechanism, str) else mechanism
    check_choices(order, repeated_keys)
    if order == "keep":
        raise UsageError(
            "Rows on Spark have no order to keep. Leave --order out, or publish with --engine "
            "local."
        )
    assert isinstance(table.source, SparkSource)
    draws = choose_draws(table, seed, key_file)
    # people's draws follow the key file; the order of rows must be fresh all the same
    order_draws = Draws.system() if draws.origin == "key-file" else draws
    given = table.source.frame
    roles = replace(table, source=SchemaSource(table.label, table.source.schema))
    with (
        BundleWriter(to) as bundle,
        spark_errors(table.label),
        job_settings(given.sparkSession),
        steady(given) as frame,
    ):
        caveats = key_caveats(table, check_keys(table, frame), repeated_keys)
        progress("counting", 0, 0)
        profile, sections = take_profile(table, frame)
        profile = with_cells(table, profile, promise, way, partial(_cells, frame))
        way, plan = choose_plan(profile, promise, way, draws, whole=False)
        stream: RecordStream
        if isinstance(plan, CellPlan):  # rows follow from counts: the driver makes them
            stream = CellStream(roles, profile, plan, draws, 1 << 17, True, progress)
            columns = write_records(bundle.folder, stream, order, order_draws)
        else:
            stream = RecordStream(roles, profile, plan, draws, 1, False, progress)
            piles = pile_count(stream.expected)
            work = worker.Work(roles, profile, plan, sections, draws, order_draws, piles)
            write_parts(bundle.folder, stream, frame, work, beside=_on_one_machine(frame))
            columns = stream.columns()
        for stem, pieces in plan.side_tables(published_records(bundle.folder)).items():
            write_side(bundle.folder / f"{stem}.parquet", pieces, stream)
        manifest = bundle.finish(
            make_manifest(
                table,
                profile,
                promise,
                way,
                plan,
                rows=stream.published,
                columns=columns,
                order=order,
                randomness=draws.origin,
                caveats=caveats,
            )
        )
    return Publication(Path(to), manifest, profile.rows, time.perf_counter() - began)


def _cells(frame: Any, table: Table, column: str, values: tuple[Value, ...]) -> Cells:
    return count_cells(table, frame, column, values)


def _on_one_machine(frame: Any) -> bool:
    context = getattr(frame.sparkSession, "_sc", None)
    return context is not None and bool(context.master.startswith("local"))


def write_parts(
    folder: Path, stream: RecordStream, frame: Any, work: worker.Work, *, beside: bool
) -> None:
    """The second pass: a file for every pile, and what the quasi columns show in all of them.

    `beside` says that the tasks run where the folder is.
    """
    table = work.table
    columns = [*table.quasi, *table.sensitive]
    if work.draws.origin == "key-file" and table.key is not None:
        columns.append(table.key)
    shown = [PlainColumn(table, name) for name in table.quasi]
    stream.quasi = list(shown)
    prints = Prints(stream)
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
                stream.published += part.records
                stream.progress("publishing", stream.published, stream.expected)
    if stream.published != stream.expected:
        raise stream.changed(
            f"{stream.expected:,} records were to be published, and {stream.published:,} arrived"
        )
    if not stream.published:
        _place(folder, 0, 1).write_bytes(worker.empty_file(work))
    for column in shown:
        column.check_stated()


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

    def __init__(self, stream: RecordStream) -> None:
        self._stream = stream
        self._known: dict[tuple[int, int], int] = {}

    def add(self, told: Iterable[Any]) -> None:
        for partition, chunk, said in np.asarray(told).tolist():
            if self._known.setdefault((partition, chunk), said) != said:
                raise self._stream.changed(
                    f"partition {partition} was read twice, and differed. A DataFrame whose rows "
                    "come in another order each time cannot be published"
                )
