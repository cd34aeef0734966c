"""What an estimate costs beside the plain count: it should be at most three times as much.

A GROUP BY on the sensitive column with a condition, on 500,000 published records, against the same
COUNT(*) on the raw Parquet file in DuckDB with the same settings. CPU time, medians of alternating
runs; both connections are open and warm, as they are for an analyst's second question.

    .venv/bin/python -m benchmarks.query_speed
"""

from __future__ import annotations

import os
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import duckdb

import sfumato as sf
from benchmarks.measure import own_cpu, print_table
from sfumato.limits import database_memory

LIMIT = 3.0
ROUNDS = 31
DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
QUASI = ["age", "gender", "education", "marital", "race", "workclass", "country"]
QUESTIONS = {
    "GROUP BY salary_class, age": (
        "SELECT salary_class, COUNT(*) FROM release WHERE age BETWEEN 30 AND 40 "
        "GROUP BY salary_class"
    ),
    "one value, two conditions": (
        "SELECT COUNT(*) FROM release WHERE salary_class = 20 AND gender = 1 AND age < 50"
    ),
    "OR across both": (
        "SELECT gender, COUNT(*) FROM release WHERE salary_class < 10 OR age > 60 GROUP BY gender"
    ),
    "AVG by value": "SELECT salary_class, AVG(age) FROM release GROUP BY salary_class",
    "by two quasi columns and value": (
        "SELECT education, gender, salary_class, COUNT(*) FROM release "
        "GROUP BY education, gender, salary_class"
    ),
    "some values in 2,000 groups": (
        "SELECT age, education, gender, COUNT(*) FROM release WHERE salary_class < 20 "
        "GROUP BY age, education, gender"
    ),
    "every value in 2,000 groups": (
        "SELECT age, education, gender, salary_class, COUNT(*) FROM release "
        "GROUP BY age, education, gender, salary_class"
    ),
}


def cpu_seconds(run: Callable[[], object]) -> float:
    before = own_cpu()
    run()
    return own_cpu() - before


def main() -> None:
    raw = DATA / "sal500k.parquet"
    if not raw.exists():
        print(f"\n(query speed skipped: {raw} is not there; set SFUMATO_DATA)")
        return
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.WeakPromiseWarning)
        table = sf.read(raw, quasi=QUASI, sensitive="salary_class")
        sf.publish(table, "rho-privacy(0.05, 1/3)", to=Path(folder) / "release", seed=1)
        release = sf.open(Path(folder) / "release")
        connection = duckdb.connect()
        memory = f"{database_memory(len(QUASI) + 1)}B"
        connection.execute(f"SET threads = 2; SET memory_limit = '{memory}'")
        rows = []
        for name, sql in QUESTIONS.items():
            plain = sql.replace("FROM release", f"FROM read_parquet('{raw}')")
            theirs, ours = [], []
            for _ in range(ROUNDS):
                theirs.append(cpu_seconds(lambda sql=plain: connection.sql(sql).to_arrow_table()))
                ours.append(cpu_seconds(lambda sql=sql: release.sql(sql, threads=2).to_arrow()))
            there, here = statistics.median(theirs), statistics.median(ours)
            rows.append((name, 1e3 * there, 1e3 * here, here / there, "" if rows else f"{LIMIT:g}"))
        print_table(
            "Questions to 500,000 records (sal500k)",
            ("question", "DuckDB on the raw file, CPU ms", "with error bars", "ratio", "bar"),
            rows,
        )


if __name__ == "__main__":
    main()
