"""Questions with error bars against the plain counts of DuckDB on the raw file.

python -m benchmarks.query_speed [--rounds 31] [--write]

CPU time of 500,000 published records (`sal500k`), medians of alternating runs; both connections
are open and warm, as they are for an analyst's second question. Needs SFUMATO_DATA.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import duckdb

import sfumato as sf
from benchmarks.measure import CENSUS_QUASI, DATA, own_cpu, report

RELEASES = (("rho-privacy(0.05, 1/3)", "uniform"), ("l-diversity(5)", "optimal"))
QUESTIONS = {  # with the ratio that 0.2 had on a quiet machine, for the first release
    "no sensitive column": ("SELECT COUNT(*) FROM release WHERE age BETWEEN 30 AND 40", None),
    "by value, a range of ages": (
        "SELECT salary_class, COUNT(*) FROM release WHERE age BETWEEN 30 AND 40 "
        "GROUP BY salary_class",
        1.95,
    ),
    "one value, two conditions": (
        "SELECT COUNT(*) FROM release WHERE salary_class = 20 AND gender = 1 AND age < 50",
        2.35,
    ),
    "OR across both": (
        "SELECT gender, COUNT(*) FROM release WHERE salary_class < 10 OR age > 60 GROUP BY gender",
        2.24,
    ),
    "AVG by value": ("SELECT salary_class, AVG(age) FROM release GROUP BY salary_class", 2.5),
    "by two quasi-identifiers and value": (
        "SELECT education, gender, salary_class, COUNT(*) FROM release "
        "GROUP BY education, gender, salary_class",
        1.85,
    ),
    "some values in 2,000 groups": (
        "SELECT age, education, gender, COUNT(*) FROM release WHERE salary_class < 20 "
        "GROUP BY age, education, gender",
        3.13,
    ),
    "every value in 2,000 groups": (
        "SELECT age, education, gender, salary_class, COUNT(*) FROM release "
        "GROUP BY age, education, gender, salary_class",
        3.43,
    ),
}


def cpu_seconds(run: Callable[[], object]) -> float:
    before = own_cpu()
    run()
    return own_cpu() - before


def ratio(
    release: sf.OpenedRelease, raw: duckdb.DuckDBPyConnection, sql: str, rounds: int
) -> list[float]:
    """CPU milliseconds of DuckDB and of sfumato, and their ratio."""
    theirs, ours = [], []
    plain = sql.replace("FROM release", f"FROM read_parquet('{DATA / 'sal500k.parquet'}')")
    for _ in range(rounds):
        theirs.append(cpu_seconds(lambda: raw.sql(plain).to_arrow_table()))
        ours.append(cpu_seconds(lambda: release.sql(sql, threads=2).to_arrow()))
    there, here = statistics.median(theirs), statistics.median(ours)
    return [1e3 * there, 1e3 * here, here / there]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    raw = duckdb.connect()
    raw.execute("SET threads = 2")
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = sf.read(DATA / "sal500k.parquet", quasi=CENSUS_QUASI, sensitive="salary_class")
        for guarantee, mechanism in RELEASES:
            path = Path(folder, mechanism)
            sf.publish(table, guarantee, to=path, mechanism=mechanism, seed=1)
            release = sf.open(path)
            for name, (sql, before) in QUESTIONS.items():
                known = before if mechanism == "uniform" and before else ""
                rows.append([mechanism, name, *ratio(release, raw, sql, options.rounds), known])
    note = "500,000 records of `sal500k`; the same question to DuckDB on the raw Parquet file."
    heads = ("release", "question", "DuckDB, CPU ms", "sfumato, CPU ms", "ratio", "ratio of 0.2")
    report("Asking", note, heads, rows, options.write)


if __name__ == "__main__":
    main()
