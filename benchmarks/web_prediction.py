"""The page's live prediction while a steward moves a guarantee.

With 50 values it should answer within 100 ms, with 1,000 within 500 ms.

python -m benchmarks.web_prediction [ROWS]; a table of 10 million rows by default. Times are those
of a browser: from the request to the whole answer, over HTTP, with the profile cached. Every
promise is moved through several values. CPU is that of the server and its workers: what a machine
with nothing else to do would take. The reference is an answer of the same server that computes
nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.measure import DATA, print_table
from sfumato.datasets import write_dataset

ROWS = 10_000_000
BARS = {50: 0.1, 1000: 0.5}  # values of the sensitive column: seconds
MOVES = {
    "l-diversity": [f"l-diversity({many})" for many in (2, 3, 4, 5, 6, 7)],
    "beta-likeness": [f"beta-likeness({beta})" for beta in (0.5, 1, 2, 3, 5, 10)],
    "f-privacy": [f"f-privacy(theta={theta}, floor=0.02)" for theta in (1, 2, 4, 8, 16)],
    "rho-privacy": [f"rho-privacy(0.14, {rho2})" for rho2 in (0.2, 0.3, 0.4, 0.6)],
    "fine-rho-privacy": [f"fine-rho-privacy(theta={theta})" for theta in (1.5, 2, 3, 5, 8)],
    "small-sum": [f"small-sum(groups={groups})" for groups in (2, 3, 4, 5, 6)],
    "reconstruction-privacy": [f"reconstruction-privacy({e}, 0.3)" for e in (0.2, 0.3, 0.4)],
}


def zipf_table(rows: int, values: int) -> str:
    """The name of a generated table with so many sensitive values, made once."""
    DATA.mkdir(exist_ok=True)
    name = f"zipf-{values}-values-{rows}.parquet"
    if not (DATA / name).exists():
        write_dataset("zipf", rows, DATA / name, 0, values=values, exponent=0.5)
    return name


@contextmanager
def served(data: Path, state: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A client that has used a server's token, and the server's process."""
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", "serve"]
    command += ["--no-browser", "--port", "0", "--data", str(data), "--state", str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        base, token = found[0].split("/#token=")
        headers = {"X-Sfumato": "1", "Origin": base}
        with httpx.Client(base_url=base, headers=headers, timeout=3600) as client:
            session = client.post("/api/session", json={"token": token}).json()["session"]
            client.headers["X-Sfumato-Session"] = session
            yield client, process.pid
        process.terminate()


def profile_of(client: httpx.Client, name: str, sensitive: str) -> dict[str, Any]:
    """Choose a table and give its columns their roles, as the page does."""
    source = {"root": "0", "path": name}
    table = client.post("/api/tables", json={"source": source}).json()
    roles = {column["name"]: "quasi" for column in table["columns"]} | {sensitive: "sensitive"}
    asked = {"kind": "counts", "table": table["table"], "roles": roles}
    job = client.post("/api/jobs", json=asked).json()
    client.get(f"/api/jobs/{job['id']}/events")  # which end with the job
    job = client.get(f"/api/jobs/{job['id']}").json()
    found: dict[str, Any] = client.get(f"/api/profiles/{job['summary']['profile']}").json()
    return found


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    lines = []
    files = {values: zipf_table(rows, values) for values in BARS}
    with (
        tempfile.TemporaryDirectory() as folder,
        served(DATA, Path(folder) / "state") as (client, server),
    ):
        client.get("/api/state")
        nothing = [_seconds(client, "GET", "/api/files?root=0") for _ in range(20)]
        for values, bar in BARS.items():
            begin = time.perf_counter()
            profile = profile_of(client, files[values], "value")["profile"]
            ready = time.perf_counter() - begin
            for name, moves in MOVES.items():
                asked = [{"profile": profile, "guarantee": move} for move in moves]
                first = _seconds(client, "POST", "/api/predict", asked[0])
                before = _cpu(server)
                spent = [_seconds(client, "POST", "/api/predict", a) for a in asked * 3]
                cpu = (_cpu(server) - before) / len(spent)
                lines.append(
                    (
                        values,
                        name,
                        f"{1000 * statistics.median(spent):.0f}",
                        f"{1000 * max(spent):.0f}",
                        f"{1000 * cpu:.0f}",
                        f"{1000 * bar:.0f}",
                        f"{statistics.median(spent) / bar:.2f}",
                        f"{1000 * first:.0f}",
                        f"{ready:.1f}",
                    )
                )
    print_table(
        f"Live prediction, {rows:,} rows (an answer without any work: "
        f"{1000 * statistics.median(nothing):.0f} ms)",
        (
            "values",
            "promise",
            "median ms",
            "slowest ms",
            "CPU ms",
            "bar ms",
            "median / bar",
            "first ms",
            "look and count s",
        ),
        lines,
    )


def _cpu(server: int) -> float:
    """CPU seconds that a server and its workers have used, those that are gone left out."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) == server or int(fields[1]) == server:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _seconds(client: httpx.Client, method: str, path: str, body: Any = None) -> float:
    begin = time.perf_counter()
    answer = client.request(method, path, json=body)
    spent = time.perf_counter() - begin
    answer.raise_for_status()
    return spent


if __name__ == "__main__":
    main()
