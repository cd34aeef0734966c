"""Publishing against a plain pyarrow copy of the same file: CPU, memory and size.

python -m benchmarks.publish_speed [ROWS] [--mechanisms uniform,optimal] [--spark] [--write]

The reference is a copy of the Parquet file with a writer thread, run beside every mechanism.
`--spark` publishes with Spark against Spark's own copy instead. The last lines are what starting
costs against an empty Python.
"""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import SFUMATO, Cost, cost_of, generated, report
from sfumato.datasets import GENERATORS

GUARANTEES = {  # that each mechanism keeps
    "uniform": "rho-privacy(0.08, 1/3)",
    "fine-grain": "fine-rho-privacy(theta=8)",
    "partitioned": "rho-privacy(0.08, 1/3)",
    "splu": "small-sum(groups=5)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "f-privacy(theta=8, floor=0.02)",
    "local": "f-privacy(theta=8, floor=0.02)",
}
AT_MOST = {  # × copy at 20 million rows
    "uniform": 2.2,
    "splu": 2.6,
    "partitioned": 2.84,
    "sps": 3.23,
    "optimal": 3.33,
    "local": 4.5,
}
MEGABYTES = 600
STARTING = {
    "import sfumato": ["-c", "import sfumato"],
    "sfumato --help": [*SFUMATO[1:], "--help"],
}
SPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.read.parquet(sys.argv[1]).write.parquet(sys.argv[2])
"""


def copy(source: str, target: str) -> None:
    """The named reference: batch by batch, text columns stay dictionary codes."""
    schema = pq.read_schema(source)
    texts = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)
    ]
    file = pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False)
    handed: queue.Queue[pa.RecordBatch | None] = queue.Queue(maxsize=2)

    def write() -> None:
        writer = None
        while (batch := handed.get()) is not None:
            if writer is None:
                writer = pq.ParquetWriter(target, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    for batch in file.iter_batches(1 << 20):
        handed.put(batch)
    handed.put(None)
    thread.join()


def publish_command(source: Path, target: Path, *more: str) -> list[str]:
    """The command line that publishes a generated census."""
    roles = GENERATORS["census"]
    columns = ["--quasi", ",".join(roles.quasi), "--sensitive", roles.sensitive]
    return [*SFUMATO, "publish", str(source), "--out", str(target), *columns, *more]


def size_of(folder: Path) -> float:
    """Megabytes on disk."""
    files = [folder] if folder.is_file() else folder.rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def lines(rows: int, mechanisms: Sequence[str], spark: bool) -> Iterator[Sequence[object]]:
    source = generated("census", rows)
    engine = ["--engine", "spark"] if spark else []
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        for number, mechanism in enumerate(mechanisms):
            copied, release = Path(folder, f"copy{number}"), Path(folder, f"release{number}")
            reference = [sys.executable, "-m", "benchmarks.publish_speed", "--copy"]
            if spark:
                reference = [sys.executable, "-c", SPARK]
            plain = cost_of([*reference, str(source), str(copied)])
            named = ["--guarantee", GUARANTEES[mechanism], "--mechanism", mechanism]
            cost = cost_of(publish_command(source, release, *named, *engine))
            yield (
                mechanism,
                *_cells(cost, plain, size_of(release), size_of(copied), rows, mechanism),
            )


def _cells(
    cost: Cost, plain: Cost, size: float, plain_size: float, rows: int, mechanism: str
) -> Iterator[object]:
    ratio, most = cost.cpu / plain.cpu, AT_MOST.get(mechanism)
    kept = cost.megabytes <= MEGABYTES and (most is None or ratio <= most)
    yield from (plain.cpu, cost.cpu, ratio, round(cost.megabytes), f"{size / plain_size:.2f}")
    yield from ("" if most is None else most, ("ok" if kept else "over") if rows >= 2e7 else "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=2_000_000)
    parser.add_argument("--mechanisms", default=",".join(GUARANTEES))
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--copy", nargs=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.copy:
        copy(*options.copy)
        return
    heads = ("", "copy, CPU s", "CPU s", "ratio", "MB", "size / copy", "at most × at 20M", "")
    chosen = options.mechanisms.split(",")
    with tempfile.TemporaryDirectory() as folder:  # compiles what is imported
        small = publish_command(generated("census", 1000), Path(folder, "release"))
        cost_of([*small, "--guarantee", "l-diversity(2)"])
    rows = list(lines(options.rows, chosen, options.spark))
    empty = min(cost_of([sys.executable, "-c", "pass"]).cpu for _ in range(5))
    for name, arguments in STARTING.items():
        best = min(cost_of([sys.executable, *arguments]).cpu for _ in range(5))
        rows.append((name, empty, best, best / empty, "", "", "", ""))
    engine = "Spark, against Spark's own copy" if options.spark else "against a pyarrow copy"
    note = f"{options.rows:,} generated census records, {engine}; the last lines: an empty Python."
    report(f"Publishing{' on Spark' if options.spark else ''}", note, heads, rows, options.write)


if __name__ == "__main__":
    main()
