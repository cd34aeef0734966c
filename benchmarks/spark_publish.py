"""Publishing on Spark against Spark's own Parquet copy, which it may cost 2.5 times.

python -m benchmarks.spark_publish [ROWS …] [--rounds N] [--law ROWS]      (0 leaves a part out)

Costs: one process for each number of rows, with one Spark session (local[2], 4 GB); each round
copies the table with Spark and publishes it three times. CPU is that of the process, the JVM and
all Python workers together. The first round includes the JVM's warming up. `--law` compares what
Spark and the local engine publish for the same people, whose numbers stand in a quasi column.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import DATA, generated, print_table
from sfumato.datasets import GENERATORS

WAYS = {
    "uniform": "rho-privacy(0.1, 1/3)",
    "splu": "small-sum(groups=5)",
    "optimal": "f-privacy(theta=8)",
}


class TreeCpu:
    """CPU seconds of this process and everything below it, ended processes included."""

    def __init__(self) -> None:
        import psutil

        self._me = psutil.Process()
        self._seen: dict[tuple[int, float], float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def total(self) -> float:
        import psutil

        with self._lock:
            for process in [self._me, *self._me.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                    self._seen[process.pid, process.create_time()] = times.user + times.system
                except psutil.Error:
                    continue
            return sum(self._seen.values())

    def _watch(self) -> None:
        while True:
            time.sleep(0.3)
            self.total()


def session() -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def live_heap(spark: Any) -> float:
    """Megabytes of the JVM's heap that are in use after a collection."""
    java = spark.sparkContext._jvm.java.lang
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def peak_megabytes() -> float:
    """Of this process alone: getrusage counts the parent's memory at the time of the fork too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def costs(source: Path, rounds: int) -> dict[str, Any]:
    """In a process of its own: CPU by round and what was done, and the driver's memory."""
    from sfumato.engines.publishing import publish

    roles = GENERATORS["census"]
    cpu, spark = TreeCpu(), session()
    frame = spark.read.parquet(str(source))
    found: list[dict[str, float]] = []

    def cost(work: Callable[[], object]) -> float:
        before = cpu.total()
        work()
        return cpu.total() - before

    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        for number in range(rounds):
            target = f"{folder}/copy-{number}"
            spent = {"Spark copy": cost(lambda: frame.write.parquet(target))}  # noqa: B023
            shutil.rmtree(target)
            for way, promise in WAYS.items():
                place = Path(folder) / f"{way}-{number}"

                def run() -> None:
                    publish(
                        frame,
                        promise,  # noqa: B023
                        to=place,  # noqa: B023
                        mechanism=way,  # noqa: B023
                        quasi=roles.quasi,
                        sensitive=roles.sensitive,
                    )

                spent[way] = cost(run)
                if number == rounds - 1:
                    (DATA / "spark-releases").mkdir(exist_ok=True)
                    kept = DATA / "spark-releases" / f"{way}-{source.stem}"
                    shutil.rmtree(kept, ignore_errors=True)
                    place.rename(kept)
                else:
                    shutil.rmtree(place)
            found.append(spent)
    return {"rounds": found, "heap": live_heap(spark), "python": peak_megabytes()}


def audits(source: Path) -> list[tuple[str, str]]:
    from sfumato.audits import audit

    found = []
    for way in WAYS:
        verdict = audit(str(source), DATA / "spark-releases" / f"{way}-{source.stem}")
        found.append((way, "holds" if verdict.holds else "FAILS"))
    return found


def numbered(rows: int) -> Path:
    """People with numbers of their own and an occupation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = DATA / f"numbered-{rows}.parquet"
    if not path.exists():
        occupation = pq.read_table(generated("census", rows), columns=["occupation"])
        person = pa.array(np.arange(rows, dtype=np.int64))
        pq.write_table(occupation.add_column(0, "person", person), path, row_group_size=1 << 20)
    return path


def law(rows: int) -> list[tuple[object, ...]]:
    """Chi-square of what Spark published against what the local engine did, and its power."""
    import duckdb
    from scipy import stats

    from sfumato.engines.publishing import publish

    source = numbered(rows)
    session()
    lines: list[tuple[object, ...]] = []
    for way, promise in WAYS.items():
        tables = []
        with tempfile.TemporaryDirectory(dir=source.parent) as folder:
            for engine in ("spark", "local"):
                place = Path(folder) / engine
                publish(
                    str(source),
                    promise,
                    to=place,
                    mechanism=way,
                    engine=engine,
                    quasi="person",
                    sensitive="occupation",
                )
                records = f"'{place}/records/*.parquet'"
                if engine == "local":
                    records = f"'{place}/records.parquet'"
                # b is what the release shows beside the truth a
                if way == "optimal":  # who stands where: people and buckets in tenths
                    last = duckdb.sql(f"SELECT max(bucket) + 1 FROM {records}").fetchall()[0][0]
                    pairs = (
                        f"SELECT person * 10 // {rows} AS a, bucket::BIGINT * 10 // {last} AS b "
                        f"FROM {records}"
                    )
                else:  # which values share groups is drawn by splu's plan: there, own or not
                    shown = "(r.occupation = t.occupation)" if way == "splu" else "r.occupation"
                    pairs = (
                        f"SELECT t.occupation AS a, {shown} AS b FROM {records} r "
                        f"JOIN '{source}' t USING (person)"
                    )
                counted = duckdb.sql(
                    f"SELECT a, b, count(*) AS n FROM ({pairs}) GROUP BY a, b ORDER BY a, b"
                ).fetchall()
                tables.append({(a, b): n for a, b, n in counted})
        cells = sorted(set(tables[0]) | set(tables[1]))
        first, second = (np.array([t.get(cell, 0) for cell in cells], float) for t in tables)
        expected = (first + second) / 2
        statistic = float((((first - expected) ** 2 + (second - expected) ** 2) / expected).sum())
        groups = len({a for a, _ in cells})
        freedom = len(cells) - groups
        # an engine that left one person in 200 where they were: how far apart that would be
        share = _stay(cells, expected, 0.005)
        noncentral = float(((share - expected) ** 2 / (2 * expected)).sum())
        limit = stats.chi2.isf(1e-4, freedom)
        power = float(stats.ncx2.sf(limit, freedom, noncentral))
        chance = float(stats.chi2.sf(statistic, freedom))
        lines.append((way, freedom, statistic, f"{chance:.3g}", f"{power:.4f}"))
    return lines


def _stay(cells: list[tuple[Any, Any]], expected: Any, part: float) -> Any:
    """The table if a part of every row stood on the diagonal."""
    rows: dict[Any, float] = {}
    for (a, _), count in zip(cells, expected, strict=True):
        rows[a] = rows.get(a, 0.0) + count
    moved = np.array([part * rows[a] if b is True or a == b else 0.0 for a, b in cells])
    return expected * (1 - part) + moved


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=[2_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--law", type=int, default=10_000_000)
    parser.add_argument("--child", type=Path)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(costs(given.child, given.rounds)))
        return
    lines: list[tuple[object, ...]] = []
    memory: list[tuple[object, ...]] = []
    verdicts: list[tuple[object, ...]] = []
    sizes = [rows for rows in given.rows if rows]
    for rows in sizes:
        source = generated("census", rows)
        command = [sys.executable, "-m", "benchmarks.spark_publish", "--child", str(source)]
        done = subprocess.run(
            [*command, "--rounds", str(given.rounds)], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        for number, spent in enumerate(found["rounds"], 1):
            lines += [
                (f"{rows:,}", number, what, seconds, seconds / spent["Spark copy"])
                for what, seconds in spent.items()
            ]
        memory.append((f"{rows:,}", round(found["python"]), round(found["heap"])))
        verdicts += [(f"{rows:,}", *verdict) for verdict in audits(source)]
    if sizes:
        columns = ("rows", "round", "what", "CPU s", "× copy")
        print_table("Publishing a census on Spark, local[2]", columns, lines)
        columns = ("rows", "driver's Python, peak MB", "JVM heap in use at the end, MB")
        print_table("Memory of the driver", columns, memory)
        print_table("Audits of these releases", ("rows", "mechanism", "verdict"), verdicts)
    if given.law:
        columns = ("mechanism", "degrees of freedom", "chi-square", "p", "power")
        print_table(
            f"Spark against the local engine, {given.law:,} people", columns, law(given.law)
        )


if __name__ == "__main__":
    main()
