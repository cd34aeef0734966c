"""The local engine: two passes over the table, in bounded memory, on one machine."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_draws, choose_plan, with_cells
from sfumato.engines.counting import Progress, check_keys, no_progress, take_profile
from sfumato.engines.files import published_records, write_records, write_side
from sfumato.engines.stream import CellStream, RecordStream
from sfumato.engines.tracing import TraceWriter
from sfumato.engines.whole import publish_whole
from sfumato.errors import DataError, UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import CellPlan, Mechanism, parse_mechanism
from sfumato.mechanisms.generalized import WholePlan
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
            kind = CellStream if isinstance(plan, CellPlan) else RecordStream
            stream = kind(table, profile, plan, draws, batch_rows, use_threads, progress, tracing)
            columns = write_records(bundle.folder, stream, order, order_draws)
            rows = stream.published
            records = published_records(bundle.folder)
            for stem, pieces in plan.side_tables(records).items():
                write_side(bundle.folder / f"{stem}.parquet", pieces, stream)
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
