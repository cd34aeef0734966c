"""Publishing with default flags against a plain pyarrow copy of the same file, CPU and memory.

python -m benchmarks.publish_speed [ROWS …] [--ways uniform,optimal] [--repeat N] [--write]

Every mechanism that `publish` offers by itself for census records, shuffled as by default and with
`--order keep` where there is an order to keep. Each is compared with the copies of the same run,
one beside every mechanism. Modules are compiled before, as where sfumato is installed. `BEFORE` is
what was measured with 20 million rows before; at most 0.7 of that is asked for, and at most 580 MB.
With `--write` the table takes the place of the last one of its title in RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import DATA, Cost, cost_of, generated, print_table, write_table
from sfumato.datasets import GENERATORS

COPY = [sys.executable, "-m", "benchmarks.copy_parquet"]
WAYS = {  # the guarantee that each mechanism keeps
    "uniform": "rho-privacy(0.08, 1/3)",
    "fine-grain": "fine-rho-privacy(theta=8)",
    "partitioned": "rho-privacy(0.08, 1/3)",
    "splu": "small-sum(groups=5)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "f-privacy(theta=8, floor=0.02)",
    "local": "f-privacy(theta=8, floor=0.02)",
}
NO_ORDER = ("sps",)  # it makes new rows
BEFORE = {"uniform": 3.2, "splu": 4.1, "partitioned": 4.2, "sps": 5.8, "optimal": 6.0}
SHARE, MOST = 0.7, 580  # of those ratios; megabytes


def publish_command(source: Path, target: Path, *more: str) -> list[str]:
    """The command line that publishes a generated census."""
    roles = GENERATORS["census"]
    program = [sys.executable, "-c", "from sfumato.cli import main; main()"]
    columns = ["--quasi", ",".join(roles.quasi), "--sensitive", roles.sensitive]
    return [*program, "publish", str(source), "--out", str(target), *columns, *more]


def median(costs: list[Cost]) -> Cost:
    """The run with the median CPU time, with the largest memory of all runs."""
    middle = statistics.median_low(cost.cpu for cost in costs)
    chosen = next(cost for cost in costs if cost.cpu == middle)
    return Cost(chosen.cpu, chosen.wall, max(cost.megabytes for cost in costs))


def measure(
    rows: int, ways: Sequence[str], repeat: int
) -> tuple[Cost, dict[tuple[str, str], Cost]]:
    """The copy of a census of so many records, and publishing it by (mechanism, order)."""
    source = generated("census", rows)
    copies: list[Cost] = []
    runs: dict[tuple[str, str], list[Cost]] = {}
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        target = Path(folder) / "out"
        for _ in range(repeat):
            for way in ways:
                copies.append(cost_of([*COPY, str(source), str(target)]))
                target.unlink()
                promise = ["--guarantee", WAYS[way], "--mechanism", way]
                for order in ("shuffle",) if way in NO_ORDER else ("shuffle", "keep"):
                    named = [] if order == "shuffle" else ["--order", order]
                    cost = cost_of(publish_command(source, target, *promise, *named))
                    runs.setdefault((way, order), []).append(cost)
                    shutil.rmtree(target)
    return median(copies), {run: median(costs) for run, costs in runs.items()}


def lines(rows: int, copy: Cost, runs: dict[tuple[str, str], Cost]) -> Iterator[Sequence[object]]:
    yield "plain copy", "", "", copy.cpu, 1.0, "", "", round(copy.megabytes), ""
    for (way, order), cost in runs.items():
        ratio, before = cost.cpu / copy.cpu, BEFORE.get(way)
        asked = before is not None and order == "shuffle" and rows == 20_000_000
        allowed = round(SHARE * before, 2) if asked and before is not None else ""
        held = "" if order == "keep" else "yes" if cost.megabytes <= MOST else "no"
        if isinstance(allowed, float) and ratio > allowed:
            held = "no"
        known = before if asked else ""
        size = round(cost.megabytes)
        yield way, WAYS[way], order, cost.cpu, ratio, known, allowed, size, held


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=[20_000_000])
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    ways = given.ways.split(",")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(DATA / "bytecode")
    measure(1000, ways, 1)  # compiles what each of them imports
    columns = (
        "mechanism",
        "promise",
        "order",
        "CPU s",
        "× copy",
        "before",
        "at most",
        "MB",
        "held",
    )
    for rows in given.rows:
        found = list(lines(rows, *measure(rows, ways, given.repeat)))
        title = f"Publishing {rows:,} census records with default flags: {', '.join(ways)}"
        print_table(title, columns, found)
        if given.write:
            write_table(title, columns, found)


if __name__ == "__main__":
    main()
