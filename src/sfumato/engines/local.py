"""The local engine: two passes over the table, in bounded memory, on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import Column, Values
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.coding import SensitiveCoder, person_keys
from sfumato.engines.counting import (
    Progress,
    check_keys,
    count_cells,
    drop_missing,
    no_progress,
    take_profile,
)
from sfumato.engines.from_cells import cell_outcomes, cell_quasi_columns
from sfumato.engines.order import KeptOrder, Order, ShuffledOrder
from sfumato.engines.quasi import QuasiColumn, quasi_column
from sfumato.engines.tracing import TraceWriter
from sfumato.engines.whole import publish_whole
from sfumato.engines.writing import RecordWriter
from sfumato.errors import DataError, UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import (
    Batch,
    CellPlan,
    Mechanism,
    Plan,
    mechanisms_for,
    parse_mechanism,
)
from sfumato.mechanisms.generalized import WholePlan
from sfumato.profile import Profile
from sfumato.release import BundleWriter, Manifest
from sfumato.table import Table
from sfumato.version import __version__


@dataclass(frozen=True)
class Publication:
    """What `publish` did: where the release is and what it holds."""

    release: Path
    manifest: Manifest
    rows: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "release": str(self.release),
            "kind": self.manifest.kind,
            "mechanism": self.manifest.mechanism,
            "guarantee": self.manifest.guarantee,
            "rows": self.rows,
            "rows_published": self.manifest.rows,
            "withheld": self.manifest.withheld,
            "seconds": round(self.seconds, 3),
            "plan": self.manifest.plan,
        }


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
    batch_rows: int = 1 << 17,
    threads: int | None = None,
    progress: Progress = no_progress,
    trace: str | Path | None = None,
) -> Publication:
    """Publish `table` under `guarantee` into the folder `to`.

    `mechanism` None picks the one with the smallest predicted error. `seed` makes the release
    repeatable and therefore worthless as protection: for experiments. `key_file` with a key column
    ties every draw to the person. `order` is "shuffle" or "keep". `trace` is a folder, private to
    the steward, for what an audit can follow the plan by, where the mechanism has that.
    """
    began = time.perf_counter()
    promise = parse_guarantee(guarantee) if isinstance(guarantee, str) else guarantee
    way = parse_mechanism(mechanism) if isinstance(mechanism, str) else mechanism
    if order not in ("shuffle", "keep"):
        raise UsageError(f"'order' must be shuffle or keep. Got {order!r} instead.")
    if batch_rows < 1:
        raise UsageError(f"'batch_rows' must be at least 1. Got {batch_rows} instead.")
    draws = choose_draws(table, seed, key_file)
    use_threads = threads is None or threads > 1
    with (
        BundleWriter(to) as bundle,
        nullcontext() if trace is None else TraceWriter(trace, to) as tracing,
    ):
        caveats = _key_caveats(table, repeated_keys)
        profile = take_profile(table, threads=use_threads, progress=progress)
        profile = with_cells(table, profile, promise, way)
        way, plan = choose_plan(profile, promise, way, draws)
        if isinstance(plan, CellPlan) and order == "keep":
            raise UsageError(f"'{way}' makes new rows, so there is no order to keep.")
        if isinstance(plan, CellPlan) and tracing is not None:
            raise UsageError(f"'{way}' makes new rows from counts, so it has no trace.")
        # people's draws follow the key file; the order of rows must be fresh all the same
        order_draws = Draws.system() if draws.origin == "key-file" else draws
        if isinstance(plan, WholePlan):
            columns, rows = publish_whole(
                bundle.folder, table, profile, plan, draws, order, use_threads, progress, trace
            )
        else:
            kind = _CellStream if isinstance(plan, CellPlan) else _Stream
            stream = kind(table, profile, plan, draws, batch_rows, use_threads, progress, tracing)
            columns = _write_records(bundle.folder, stream, order, order_draws)
            rows = stream.published
            records = _published_records(bundle.folder / "records.parquet")
            for stem, pieces in plan.side_tables(records).items():
                _write_side(bundle.folder / f"{stem}.parquet", pieces, stream)
        manifest = bundle.finish(
            Manifest(
                sfumato=__version__,
                kind=plan.kind,
                mechanism=str(way),
                guarantee=str(promise),
                rows=rows,
                withheld=plan.withheld,
                missing=table.missing,
                order="kept" if order == "keep" else "shuffled",
                randomness=draws.origin,
                columns=columns,
                plan=plan.public(),
                statement=tuple(plan.statement(promise, h) for h in profile.histograms.values()),
                does_not_protect=promise.does_not_protect,
                caveats=(*plan.caveats(), *caveats, *_table_caveats(table)),
            )
        )
    return Publication(Path(to), manifest, profile.rows, time.perf_counter() - began)


def choose_draws(table: Table, seed: int | None, key_file: str | Path | None) -> Draws:
    """The draws a run asks for: secure ones unless told otherwise."""
    if seed is not None and key_file is not None:
        raise UsageError("Give a seed or a key file, not both.")
    if key_file is not None:
        if table.key is None:
            raise UsageError("A key file ties draws to people: name their key column with --key.")
        return Draws.from_key_file(key_file)
    return Draws.system() if seed is None else Draws.from_seed(seed)


def with_cells(
    table: Table, profile: Profile, guarantee: Guarantee, mechanism: Mechanism | None
) -> Profile:
    """The profile with its cells, where a mechanism in question looks at them."""
    ways = mechanisms_for(guarantee) if mechanism is None else [mechanism]
    if not any(way.needs_cells for way in ways) or len(profile.histograms) != 1:
        return profile
    (histogram,) = profile.histograms.values()
    return replace(profile, cells=count_cells(table, histogram.column, histogram.values))


def choose_plan(
    profile: Profile, guarantee: Guarantee, mechanism: Mechanism | None, draws: Draws
) -> tuple[Mechanism, Plan]:
    """The given mechanism's plan, or the plan with the smallest predicted error.

    Draws under a key file belong to people, so only plans that publish a record by itself, not by
    its rank in the stream, can use them.
    """
    if mechanism is not None and not mechanism.keeps(guarantee):
        able = [str(other) for other in mechanisms_for(guarantee)]
        raise UsageError(
            f"The mechanism '{mechanism}' does not keep '{guarantee}'. "
            f"Mechanisms that do: {', '.join(able) or 'none yet'}."
        )
    ways = mechanisms_for(guarantee) if mechanism is None else [mechanism]
    if not ways:
        raise UsageError(f"No mechanism keeps '{guarantee}' yet.")
    plans = [(way, way.plan(profile, guarantee, draws.child("plan"))) for way in ways]
    if draws.origin == "key-file":
        plans = [
            (way, plan)
            for way, plan in plans
            if not plan.needs_rank and not isinstance(plan, CellPlan)
        ]
        if not plans:
            raise UsageError(
                f"{' and '.join(str(way) for way in ways)} would place people by their rank in the "
                "table or draw for whole groups, so a person would not be published alike each "
                "time. With --key-file use a mechanism that draws for each record alone, such as "
                "uniform."
            )
    return min(plans, key=lambda pair: pair[1].predicted_error())


class _Stream:
    """The second pass: published records in compact form, batch by batch."""

    def __init__(
        self,
        table: Table,
        profile: Profile,
        plan: Plan,
        draws: Draws,
        batch_rows: int,
        threads: bool,
        progress: Progress,
        tracing: TraceWriter | None = None,
    ) -> None:
        self.table, self.profile, self.plan, self.draws = table, profile, plan, draws
        self.tracing = tracing
        self.batch_rows, self.threads, self.progress = batch_rows, threads, progress
        self.quasi: list[QuasiColumn] = []
        self.sensitive: tuple[str, ...] = ()  # the sensitive columns that records show
        self.extra: tuple[str, ...] = ()
        self.expected = profile.rows - plan.withheld
        self.published = 0
        self._coders = {
            column: SensitiveCoder(table, column, histogram.values)
            for column, histogram in profile.histograms.items()
        }
        self._left = {column: h.counts.copy() for column, h in profile.histograms.items()}
        self._seen = {
            column: np.zeros(len(histogram.values), np.int64)
            for column, histogram in profile.histograms.items()
        }

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        table, plan = self.table, self.plan
        by_person = self.draws.origin == "key-file"
        columns = [*table.quasi, *table.sensitive, *([table.key] if by_person else [])]
        start = 0
        for batch in table.batches([str(c) for c in columns], self.batch_rows, self.threads):
            batch = drop_missing(table, batch)
            codes = {c: coder(batch.column(c)) for c, coder in self._coders.items()}
            self._check_counts(codes)
            addresses: dict[str, Address] = dict.fromkeys(codes, Positions(start, batch.num_rows))
            if by_person:
                for column, code in codes.items():
                    values = self.profile.histograms[column].values
                    keys = person_keys(batch.column(table.key), code, values)
                    addresses[column] = self.draws.persons(column, keys)
            ranks = {}
            if plan.needs_rank:
                ranks = {c: ranks_in_value(code, self._seen[c]) for c, code in codes.items()}
            given = Batch(codes, ranks, addresses)
            outcome = plan.apply(given, self.draws)
            if self.tracing is not None:
                self.tracing.add(given, outcome, plan.trace(given))
            start += batch.num_rows
            self.sensitive, self.extra = tuple(outcome.codes), tuple(outcome.extra)
            taken = sorted(set(self.extra) & {*table.quasi, *table.sensitive})
            if taken:
                raise DataError(
                    f"Column {taken[0]!r} of {table.label} has the name of a column that the "
                    "release adds. Rename it."
                )
            if not self.quasi:
                self.quasi = [quasi_column(table, n, batch.column(n).type) for n in table.quasi]
            made = [*outcome.codes.values(), *outcome.extra.values()]
            kept = outcome.keep
            if kept is not None and not kept.all():
                batch = batch.filter(pa.array(kept))
                made = [array[kept] for array in made]
            arrays = [column.add(batch.column(column.name)) for column in self.quasi]
            arrays += [pa.array(array.astype(np.int32)) for array in made]
            self.published += batch.num_rows
            self.progress("publishing", start, self.profile.rows)
            names = [*table.quasi, *self.sensitive, *self.extra]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
        for quasi in self.quasi:
            quasi.check_stated()
        if start != self.profile.rows or self.published != self.expected:
            raise self._changed(f"counted {self.profile.rows:,} rows, then read {start:,}")

    def _check_counts(self, codes: Mapping[str, IntArray]) -> None:
        """The plan fits the counted values: a table that shows others now is not published."""
        for column, code in codes.items():
            left = self._left[column]
            if len(code) and int(code.min()) >= 0:
                left -= np.bincount(code, minlength=len(left))
            if len(code) and (int(code.min()) < 0 or int(left.min()) < 0):
                raise self._changed(f"the values of column {column!r} are not those counted before")

    def _changed(self, how: str) -> DataError:
        return DataError(
            f"{self.table.label} changed while it was being published: {how}. Publish from a fixed "
            "copy."
        )

    def restore(self, compact: pa.Table, *, ordered: bool) -> pa.Table:
        """Compact columns back to values."""
        names = compact.schema.names
        arrays = [
            column.restore(_chunk(compact, column.name), ordered=ordered) for column in self.quasi
        ]
        arrays += [self._sensitive_values(_chunk(compact, name), name) for name in self.sensitive]
        arrays += [_chunk(compact, name) for name in self.extra]
        return pa.Table.from_arrays(arrays, names=names)

    def restore_side(self, side: pa.Table) -> pa.Table:
        """A piece of a side table, its sensitive columns from codes to values."""
        for place, name in enumerate(side.schema.names):
            if name in self.profile.histograms:
                side = side.set_column(
                    place, name, self._sensitive_values(_chunk(side, name), name)
                )
        return side

    def _sensitive_values(self, codes: pa.Array, name: str) -> pa.Array:
        values = pa.array(self.profile.histograms[name].values, self.sensitive_type(name))
        missing = values.null_count  # null, where it is a value, is the last one
        if missing:
            codes = pa.compute.if_else(
                pa.compute.equal(codes, len(values) - 1), pa.scalar(None, pa.int32()), codes
            )
        return pa.DictionaryArray.from_arrays(codes, values.slice(0, len(values) - missing))

    def sensitive_type(self, name: str) -> pa.DataType:
        return pa.string() if name in self.table.bins else self.table.type_of(name)

    def columns(self) -> tuple[Column, ...]:
        sensitive = (
            Column(
                name,
                "sensitive",
                "categorical" if name in self.table.bins else self.table.kinds[name],
                str(self.sensitive_type(name)),
                Values(histogram.values),
                self.table.bins[name].edges if name in self.table.bins else None,
            )
            for name, histogram in self.profile.histograms.items()
        )
        return (*(column.column() for column in self.quasi), *sensitive)


class _CellStream(_Stream):
    """Rows that a plan makes from the profile's cells; the table is not read again."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        assert isinstance(self.plan, CellPlan)
        for batch, outcome in cell_outcomes(self.table, self.plan, self.draws, self.batch_rows):
            self.sensitive, self.extra = tuple(outcome.codes), tuple(outcome.extra)
            if not self.quasi:
                self.quasi = cell_quasi_columns(self.table, self.plan, batch)
            arrays = [column.add(batch.column(column.name)) for column in self.quasi]
            made = [*outcome.codes.values(), *outcome.extra.values()]
            arrays += [pa.array(array.astype(np.int32)) for array in made]
            self.published += batch.num_rows
            self.progress("publishing", self.published, self.expected)
            names = [*self.table.quasi, *self.sensitive, *self.extra]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
        for quasi in self.quasi:
            quasi.check_stated()
        assert self.published == self.expected, (self.published, self.expected)


def _write_records(folder: Path, stream: _Stream, order: str, draws: Draws) -> tuple[Column, ...]:
    ordered = order != "keep"
    writer = RecordWriter(
        folder / "records.parquet", lambda compact: stream.restore(compact, ordered=ordered)
    )
    way: Order
    if ordered:
        way = ShuffledOrder(writer.write, stream.expected, draws, folder / "piles")
    else:
        way = KeptOrder(writer.write)
    empty: pa.Table | None = None
    try:
        for batch in stream:
            empty = pa.Table.from_batches([batch.slice(0, 0)])
            way.add(batch)
        way.finish()
        writer.close(empty)
    finally:
        way.close()
        writer.stop()
    return stream.columns()


def _published_records(path: Path) -> Callable[[], Iterator[pa.RecordBatch]]:
    def read() -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            yield from file.iter_batches()

    return read


def _write_side(path: Path, pieces: Iterable[pa.Table], stream: _Stream) -> None:
    writer = RecordWriter(path, stream.restore_side)
    try:
        for piece in pieces:
            writer.write(piece)
        writer.close()
    finally:
        writer.stop()


def ranks_in_value(codes: IntArray, seen: IntArray) -> IntArray:
    """How many earlier records have the same value; `seen` carries the counts between batches.

    >>> ranks_in_value(np.array([1, 0, 1, 1]), np.array([5, 7])).tolist()
    [7, 5, 8, 9]
    """
    narrow = codes.astype(np.uint16) if len(seen) <= 1 << 16 else codes
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(codes, minlength=len(seen))
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(codes), np.int64)
    sorted_codes = codes[order]
    ranks[order] = np.arange(len(codes)) + (seen - starts)[sorted_codes]
    seen += counts
    return ranks


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _key_caveats(table: Table, repeated_keys: str) -> list[str]:
    if repeated_keys not in ("refuse", "allow"):
        raise UsageError(f"'repeated_keys' must be refuse or allow. Got {repeated_keys!r} instead.")
    repeated = check_keys(table)
    if repeated and repeated_keys == "refuse":
        raise DataError(
            f"The key column {table.key!r} of {table.label} repeats in {repeated:,} rows, but the "
            "promises count one record per person. Keep one row each, or accept a weaker promise "
            "with --repeated-keys allow."
        )
    if not repeated:
        return []
    return [
        "Some people have several records. The promise holds for each record by itself; about a "
        "person with several, more can be concluded."
    ]


def _table_caveats(table: Table) -> list[str]:
    found = []
    if len(table.sensitive) > 1:
        found.append(
            f"The promise holds for each of the columns {', '.join(table.sensitive)} by itself. "
            "Where they depend on one another, the published values of one tell about another, "
            "and together they may tell more than the promise about one allows."
        )
    if table.missing == "drop":
        found.append(
            "Records without a sensitive value were left out; the counts do not include them."
        )
    return found
