"""One `publish` for every engine: the table is published where it lies, unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.engines import local
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.publication import Publication
from sfumato.engines.republishing import as_before
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, parse_mechanism
from sfumato.release import Release
from sfumato.table import Table, read
from sfumato.table.sources import ParquetSource
from sfumato.table.spark import SparkSource

ENGINES = ("local", "spark")


def publish(
    table: Any,
    guarantee: Guarantee | str,
    *,
    to: str | Path,
    mechanism: Mechanism | str | None = None,
    engine: str | None = None,
    seed: int | None = None,
    key_file: str | Path | None = None,
    order: str = "shuffle",
    repeated_keys: str = "refuse",
    batch_rows: int = 1 << 17,
    threads: int | None = None,
    progress: Progress = no_progress,
    trace: str | Path | None = None,
    previous: Release | str | Path | None = None,
    **roles: Any,
) -> Publication:
    """Publish `table` under `guarantee` into the folder `to`.

    `table` comes from `read`, or is anything that `read` takes, with its roles: `quasi`,
    `sensitive` and so on. `mechanism` None picks the one with the smallest predicted error.
    `engine` is "local" or "spark"; None is Spark for a Spark DataFrame, this machine otherwise.
    `seed` makes the release repeatable and therefore worthless as protection: for experiments.
    `key_file` with a key column ties every draw to the person. `order` is "shuffle" or "keep".
    `trace` is a folder, private to the steward, for what an audit can follow the plan by, where the
    mechanism has that. `previous` is an earlier release under the same key file, whose operators
    and domains are taken over so that nobody is drawn again. `batch_rows` and `threads` are the
    local engine's.

    >>> import tempfile, pyarrow as pa
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> done = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                mechanism="uniform", to=tempfile.mkdtemp() + "/release")
    >>> done.manifest.rows
    4
    """
    if engine is not None and engine not in ENGINES:
        raise UsageError(f"'engine' must be one of {', '.join(ENGINES)}. Got {engine!r} instead.")
    if not isinstance(table, Table):
        table = read(table, **roles)
    elif roles:
        raise UsageError(f"The table has its roles already; {', '.join(roles)} cannot change them.")
    if previous is not None:
        promise = parse_guarantee(guarantee) if isinstance(guarantee, str) else guarantee
        way = parse_mechanism(mechanism) if isinstance(mechanism, str) else mechanism
        table, mechanism = as_before(table, promise, way, key_file, previous)
    if engine is None:
        engine = "spark" if isinstance(table.source, SparkSource) else "local"
    if engine == "spark":
        if trace is not None:
            raise UsageError("The Spark engine writes no trace. Leave it out, or publish locally.")
        from sfumato.engines.spark import engine as spark

        return spark.publish(
            on_spark(table),
            guarantee,
            to=to,
            mechanism=mechanism,
            seed=seed,
            key_file=key_file,
            order=order,
            repeated_keys=repeated_keys,
            progress=progress,
        )
    return local.publish(
        table,
        guarantee,
        to=to,
        mechanism=mechanism,
        seed=seed,
        key_file=key_file,
        order=order,
        repeated_keys=repeated_keys,
        batch_rows=batch_rows,
        threads=threads,
        progress=progress,
        trace=trace,
    )


def on_spark(table: Table) -> Table:
    """The table with its records on Spark: a DataFrame as it is, Parquet files opened there."""
    from dataclasses import replace

    from sfumato.engines.spark.session import open_files

    if isinstance(table.source, SparkSource):
        return table
    if isinstance(table.source, ParquetSource):
        source = open_files([str(path) for path in table.source.paths], table.label)
        return replace(table, source=source)
    raise UsageError(
        f"The Spark engine takes Parquet files and Spark DataFrames, not {table.label}. Publish it "
        "with the local engine."
    )
