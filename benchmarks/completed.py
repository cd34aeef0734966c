"""Completed tables: how far counts from them are off, and what Rubin's intervals hold.

    python -m benchmarks.completed [KIND …] [--rows 30000] [--conditions 60] [--first 0]
                                   [--table occ100k|generated]

A table is published and completed five times. Of every sensitive value within conditions that
random people satisfy, counts are taken from the completed tables and combined (`sf.combine`, no
variances: the count is one of people in the table), and asked by `query` with the default estimator
and with the papers' own (buckets: everybody alike). Errors are mean absolute ones over the true
count, by size of the true count.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.coverage import SOURCES, condition
from benchmarks.measure import own_cpu, print_table

KINDS = {  # mechanism, guarantee, the papers' estimator
    "buckets": ("optimal", "l-diversity(5)", "uniform"),
    "local": ("local", "l-diversity(5)", "uniform"),
    "partitioned": ("partitioned", "rho-privacy(0.08, 1/3, reader=shares)", "inverse"),
    "uniform": ("uniform", "rho-privacy(0.08, 1/3)", "inverse"),
    "splu": ("splu", "small-sum(5)", "paper"),
}
COPIES = 5
SIZES = ((11, 199), (200, 499), (500, 1_999), (2_000, 10**9), (200, 10**9))


def counted(table: pa.Table, where: str, column: str) -> dict[object, float]:
    connection = duckdb.connect()
    connection.register("release", table)
    sql = f"SELECT {column}, COUNT(*) FROM release WHERE {where} GROUP BY 1"
    return dict(connection.execute(sql).fetchall())


def measured(kind: str, name: str, people: pa.Table, conditions: int) -> np.ndarray:
    """By answer: truth, query, the papers' estimate, one copy, combined, whether it held."""
    source = SOURCES[name]
    mechanism, guarantee, paper = KINDS[kind]
    column = source.sensitive
    quasi = [each for each in people.column_names if each != column]
    draw = np.random.default_rng(11)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "release"
        sf.publish(
            people,
            guarantee,
            to=place,
            mechanism=mechanism,
            quasi=quasi,
            sensitive=column,
            seed=7,
        )
        release = sf.open(place, verify=False)
        copies = release.complete(COPIES, seed=5)
        for _ in range(conditions):
            where = condition(people, source, draw)
            truth = counted(people, where, column)
            drawn = [counted(copy, where, column) for copy in copies]
            sql = f"SELECT {column} AS v, COUNT(*) AS n FROM release WHERE {where} GROUP BY 1"
            asked = {row["v"]: row["n"] for row in release.sql(sql).rows()}
            papers = {row["v"]: row["n"] for row in release.sql(sql, estimator=paper).rows()}
            for value, true in truth.items():
                found = [float(each.get(value, 0)) for each in drawn]
                whole = sf.combine(found)
                held = whole.low <= true <= whole.high
                rows.append(
                    [
                        true,
                        asked.get(value, 0.0),
                        papers.get(value, 0.0),
                        found[0],
                        whole.value,
                        held,
                    ]
                )
    return np.array(rows, np.float64)


def lines(kind: str, rows: np.ndarray) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for low, high in SIZES:
        chosen = rows[(rows[:, 0] >= low) & (rows[:, 0] <= high)]
        if len(chosen) < 20:
            continue
        true = chosen[:, 0]
        query, papers, one, whole = (
            float((np.abs(chosen[:, place] - true) / true).mean()) for place in range(1, 5)
        )
        title = f"{low:,} to {high:,}" if high < 10**9 else f"{low:,} and more"
        found.append(
            (
                kind,
                title,
                len(chosen),
                f"{query:.1%}",
                f"{papers:.1%}",
                f"{one:.1%}",
                f"{whole:.1%}",
                f"{whole / query:.2f}",
                f"{chosen[:, 5].mean():.1%}",
            )
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--table", default="occ100k", choices=SOURCES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--conditions", type=int, default=60)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    people = SOURCES[given.table].read().slice(given.first, given.rows)
    for kind in given.kinds:
        began = own_cpu()
        rows = measured(kind, given.table, people, given.conditions)
        print_table(
            f"Completed tables: {given.table}, rows {given.first:,} to "
            f"{given.first + given.rows:,}, {KINDS[kind][1]} by {KINDS[kind][0]}, {COPIES} copies, "
            f"{own_cpu() - began:.0f} CPU s",
            (
                "release",
                "true count",
                "counts",
                "query",
                "papers'",
                "one copy",
                "combined",
                "combined / query",
                "Rubin holds",
            ),
            lines(kind, rows),
        )


if __name__ == "__main__":
    main()
