"""Publishing from PostgreSQL against a bare ADBC read plus publishing the same rows from Parquet.

It should cost at most twice that, in CPU seconds of the reading process; what the server spends is
printed beside it. Starts a server of its own.

python -m benchmarks.postgres [ROWS] [--repeat N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from benchmarks.measure import Cost, cost_of, generated, print_table
from benchmarks.publish_speed import median, publish_command
from tests.table.conftest import PostgresServer, start_server

_BARE = """
import sys
import adbc_driver_postgresql.dbapi as driver
with driver.connect(sys.argv[1]) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT * FROM people")
    assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == int(sys.argv[2])
"""


def server_cpu(server: PostgresServer) -> float:
    """CPU seconds of the server and of all its processes, those that have ended too."""
    spent = psutil.Process(server.pid).cpu_times()
    children = psutil.Process(server.pid).children()
    alive = sum(sum(child.cpu_times()[:2]) for child in children)
    return float(sum(spent[:4]) + alive)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--guarantee", default="rho-privacy(0.08, 1/3)")
    parser.add_argument("--mechanism", default="uniform")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    source = generated("census", given.rows)
    server, folder = start_server()
    try:
        server.load("people", pq.read_table(source))
        server.run("VACUUM ANALYZE people")
        address = server.address()
        promise = ["--guarantee", given.guarantee, "--mechanism", given.mechanism]
        with tempfile.TemporaryDirectory() as place:
            numbers = iter(range(1_000))

            def publishing(origin: str) -> list[str]:
                command = publish_command(Path("x"), Path(place) / str(next(numbers)), *promise)
                command[command.index("x")] = origin  # a Path would swallow a slash
                return command

            ways: dict[str, Callable[[], list[str]]] = {
                "bare ADBC read": lambda: [sys.executable, "-c", _BARE, address, str(given.rows)],
                "publish from Parquet": lambda: publishing(str(source)),
                "publish from PostgreSQL, table=": lambda: publishing(f"{address}?table=people"),
                "publish from PostgreSQL, query=": lambda: publishing(
                    f"{address}?query=SELECT * FROM people"
                ),
            }
            runs: dict[str, list[Cost]] = {name: [] for name in ways}
            theirs = dict.fromkeys(ways, 0.0)
            for _ in range(given.repeat):
                for name, command in ways.items():
                    before = server_cpu(server)
                    runs[name].append(cost_of(command()))
                    theirs[name] += (server_cpu(server) - before) / given.repeat
    finally:
        server.stop()
        folder.cleanup()
    costs = {name: median(found) for name, found in runs.items()}
    reference = costs["bare ADBC read"].cpu + costs["publish from Parquet"].cpu
    print_table(
        f"Publishing {given.rows:,} rows of a census from PostgreSQL (bar: at most 2 ×)",
        ("what", "CPU s", "× (bare read + Parquet publish)", "wall s", "peak MB", "server CPU s"),
        [
            (name, cost.cpu, cost.cpu / reference, cost.wall, round(cost.megabytes), theirs[name])
            for name, cost in costs.items()
        ],
    )


if __name__ == "__main__":
    main()
