"""Sums over the records on Spark: DuckDB beside the records, against Spark's own SQL.

python -m benchmarks.spark_query [ROWS] [--rounds N]

A census of so many rows is published by uniform, once on Spark (a file for every 786,432 rows) and
once here (one file). What each question asks of the records (`RecordSums`) is computed by DuckDB on
the executors, as `sf.open(…, engine="spark")` does, and by the same sums in Spark's own SQL over
the same files. Both answers must be equal. Medians of alternating rounds, all warm, local[2]; CPU
is that of this process, the JVM and all Python workers together.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot

import sfumato as sf
from benchmarks.measure import DATA, generated, print_table
from benchmarks.spark_publish import TreeCpu, session
from sfumato.datasets import GENERATORS
from sfumato.queries.session import session_of
from sfumato.queries.statements import RecordSums

QUESTIONS = {
    "GROUP BY value, one condition": (
        "SELECT occupation, COUNT(*) FROM release WHERE age BETWEEN 30 AND 40 GROUP BY occupation"
    ),
    "one value, two conditions": (
        "SELECT COUNT(*) FROM release WHERE occupation = 'carpenter' AND gender = 'female' "
        "AND age < 50"
    ),
    "OR across both": (
        "SELECT gender, COUNT(*) FROM release WHERE occupation < 'd' OR age > 60 GROUP BY gender"
    ),
    "AVG by value": "SELECT occupation, AVG(age) FROM release GROUP BY occupation",
    "by two quasi columns and value": (
        "SELECT education, gender, occupation, COUNT(*) FROM release "
        "GROUP BY education, gender, occupation"
    ),
    "some thousand groups": (
        "SELECT age, education, marital, COUNT(*) FROM release GROUP BY age, education, marital"
    ),
}


def published(rows: int, spark: Any) -> dict[str, Path]:
    """The two releases, made once."""
    roles = GENERATORS["census"]
    source, found = generated("census", rows), {}
    for engine in ("spark", "local"):
        place = DATA / f"asked-{engine}-{rows}"
        if not place.exists():
            frame = spark.read.parquet(str(source)) if engine == "spark" else str(source)
            sf.publish(
                frame,
                "rho-privacy(0.1, 1/3)",
                to=place,
                mechanism="uniform",
                quasi=roles.quasi,
                sensitive=roles.sensitive,
            )
        found[f"by {engine}, {len(sf.open(place).records)} file(s)"] = place
    return found


def asked(place: Path, spark: Any, sql: str) -> tuple[Any, list[RecordSums]]:
    """The session on Spark, and the sums that a question asks of it."""
    release = sf.open(place, engine=spark)
    there = session_of(release, engine=spark)
    seen: list[RecordSums] = []
    before = there.sums

    def spied(sums: RecordSums) -> pa.Table:
        seen.append(sums)
        return before(sums)

    there.sums = spied
    release.sql(sql)
    there.sums = before
    return (release, there), seen


def by_workers(there: Any, sums: RecordSums) -> pa.Table:
    return there.sums(sums)


def by_spark(spark: Any, there: Any, sums: RecordSums) -> pa.Table:
    frame = spark.read.parquet(*(f"file://{path}" for path in there.paths))
    frame.createOrReplaceTempView("records")
    return spark.sql(sqlglot.transpile(sums.sql, "duckdb", "spark")[0]).toArrow()


def assert_alike(keys: int, one: pa.Table, other: pa.Table) -> None:
    """The same sums for the same keys, which are the first columns."""
    names = one.column_names
    order = [(name, "ascending") for name in names[:keys]]
    tables = [table.sort_by(order) if keys else table for table in (one, other)]
    for name in names:
        left, right = (table.column(name).combine_chunks() for table in tables)
        if name in names[:keys]:
            assert left.to_pylist() == right.to_pylist(), name
        else:
            np.testing.assert_allclose(
                left.cast(pa.float64()).to_numpy(), right.cast(pa.float64()).to_numpy(), rtol=1e-9
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    cpu, spark = TreeCpu(), session()
    lines: list[tuple[object, ...]] = []

    def cost(run: Callable[[], object]) -> tuple[float, float]:
        began, before = time.perf_counter(), cpu.total()
        run()
        return time.perf_counter() - began, cpu.total() - before

    for files, place in published(given.rows, spark).items():
        for name, sql in QUESTIONS.items():
            (_, there), seen = asked(place, spark, sql)
            sums = max(seen, key=lambda each: len(each.sql))
            runs: dict[str, Callable[[], pa.Table]] = {
                "DuckDB": lambda there=there, sums=sums: by_workers(there, sums),
                "Spark": lambda there=there, sums=sums: by_spark(spark, there, sums),
            }
            assert_alike(len(sums.keys), *(run() for run in runs.values()))
            spent: dict[str, list[tuple[float, float]]] = {way: [] for way in runs}
            for _ in range(given.rounds):
                for way, run in runs.items():
                    spent[way].append(cost(run))
            wall, used = (
                {way: statistics.median(each[k] for each in spent[way]) for way in runs}
                for k in (0, 1)
            )
            lines.append(
                (
                    files,
                    name,
                    wall["DuckDB"],
                    wall["Spark"],
                    wall["DuckDB"] / wall["Spark"],
                    used["DuckDB"],
                    used["Spark"],
                    used["DuckDB"] / used["Spark"],
                )
            )
    print_table(
        f"Sums over {given.rows:,} records on Spark, local[2]",
        (
            "release",
            "question",
            "DuckDB, wall s",
            "Spark's SQL, wall s",
            "Spark faster by",
            "DuckDB, CPU s",
            "Spark's SQL, CPU s",
            "Spark cheaper by",
        ),
        lines,
    )


if __name__ == "__main__":
    main()
