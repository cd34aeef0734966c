"""Publishing against a plain pyarrow copy of the same file.

At 50 million rows `uniform` should cost at most 1.6 copies of CPU in table order and 3 shuffled, in
700 MB and 1 GB; at 10 million rows 2 and 3.5 copies.

python -m benchmarks.publish_speed [ROWS …] [--guarantee G] [--mechanism M] [--repeat N]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Cost, cost_of, generated, print_table
from sfumato.datasets import GENERATORS

COPY = [sys.executable, "-m", "benchmarks.copy_parquet"]


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=[10_000_000, 50_000_000])
    parser.add_argument("--guarantee", default="rho-privacy(0.08, 1/3)")
    parser.add_argument("--mechanism", default="uniform")
    parser.add_argument("--orders", default="keep,shuffle")
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    lines = []
    for rows in given.rows:
        source = generated("census", rows)
        ways = {"pyarrow copy": COPY}
        promise = ["--guarantee", given.guarantee, "--mechanism", given.mechanism]
        runs: dict[str, list[Cost]] = {}
        with tempfile.TemporaryDirectory(dir=source.parent) as folder:
            target = Path(folder) / "out"
            for _ in range(given.repeat):
                costs = {"pyarrow copy": cost_of([*ways["pyarrow copy"], str(source), str(target)])}
                target.unlink()
                for order in given.orders.split(","):
                    command = publish_command(source, target, *promise, "--order", order)
                    costs[f"publish, order {order}"] = cost_of(command)
                    shutil.rmtree(target)
                for name, cost in costs.items():
                    runs.setdefault(name, []).append(cost)
        reference = median(runs["pyarrow copy"])
        for name, all_costs in runs.items():
            cost = median(all_costs)
            ratio = cost.cpu / reference.cpu
            lines.append((f"{rows:,}", name, cost.cpu, ratio, cost.wall, round(cost.megabytes)))
    print_table(
        f"Publishing a census under {given.guarantee} by {given.mechanism}",
        ("rows", "what", "CPU s", "× copy", "wall s", "peak MB"),
        lines,
    )


if __name__ == "__main__":
    main()
