"""The local engine: two passes over the table, in bounded memory, on one machine."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_draws, choose_plan, with_cells
from sfumato.engines.counting import Progress, check_keys, no_progress, take_profile
from sfumato.engines.files import published_records, write_records, write_side
from sfumato.engines.publication import (
    Publication,
    check_choices,
    key_caveats,
    make_manifest,
)
from sfumato.engines.stream import CellStream, RecordStream
from sfumato.engines.tracing import TraceWriter
from sfumato.engines.whole import publish_whole
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import CellPlan, Mechanism, parse_mechanism
from sfumato.mechanisms.generalized import WholePlan
from sfumato.release import BundleWriter
from sfumato.table import Table


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
    check_choices(order, repeated_keys)
    if batch_rows < 1:
        raise UsageError(f"'batch_rows' must be at least 1. Got {batch_rows} instead.")
    draws = choose_draws(table, seed, key_file)
    use_threads = threads is None or threads > 1
    with (
        BundleWriter(to) as bundle,
        nullcontext() if trace is None else TraceWriter(trace, to) as tracing,
    ):
        caveats = key_caveats(table, check_keys(table), repeated_keys)
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
            kind = CellStream if isinstance(plan, CellPlan) else RecordStream
            stream = kind(table, profile, plan, draws, batch_rows, use_threads, progress, tracing)
            columns = write_records(bundle.folder, stream, order, order_draws)
            rows = stream.published
            records = published_records(bundle.folder)
            for stem, pieces in plan.side_tables(records).items():
                write_side(bundle.folder / f"{stem}.parquet", pieces, stream)
        manifest = bundle.finish(
            make_manifest(
                table,
                profile,
                promise,
                way,
                plan,
                rows=rows,
                columns=columns,
                order=order,
                randomness=draws.origin,
                caveats=caveats,
            )
        )
    return Publication(Path(to), manifest, profile.rows, time.perf_counter() - began)
