"""Cancel a publish of 10 million rows from the page, again and again.

python -m benchmarks.web_cancel [ROWS [TIMES]]. Each time a job is cancelled at another moment. The
clock runs from the request until the worker's process group is gone and no file of it is left.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.measure import DATA, print_table
from benchmarks.web_prediction import profile_of, served, zipf_table

ROWS, TIMES, BAR = 10_000_000, 10, 2.0


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    times = int(sys.argv[2]) if len(sys.argv) > 2 else TIMES
    name = zipf_table(rows, 50)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        with served(DATA, state) as (client, _):
            profile = profile_of(client, name, "value")["profile"]
            lines = [
                (turn + 1, *_cancelled(client, profile, state, turn, rows)) for turn in range(times)
            ]
    slowest = max(line[-1] for line in lines)
    shown = [(*line[:-1], f"{line[-1]:.2f}", f"{line[-1] / BAR:.2f}") for line in lines]
    print_table(
        f"Cancel during a publish of {rows:,} rows: slowest {slowest:.2f} s (bar {BAR:g} s)",
        ("run", "stage", "rows done", "MB written by then", "gone after s", "of the bar"),
        shown,
    )


def _cancelled(
    client: httpx.Client, profile: str, state: Path, turn: int, rows: int
) -> tuple[str, int, str, float]:
    asked = {"kind": "publish", "profile": profile, "guarantee": "rho-privacy(0.2, 0.4)"}
    job = client.post("/api/jobs", json=asked).json()
    # somewhere else each time: while counting, at the first rows, towards the end
    wanted = ("counting", 0) if turn % 5 == 0 else ("publishing", rows * (turn % 5) // 5)
    while True:
        found = client.get(f"/api/jobs/{job['id']}").json()
        assert found["state"] in ("waiting", "running"), found
        if found["stage"] == wanted[0] and found["done"] >= wanted[1]:
            break
        time.sleep(0.02)
    workers = _workers(state)
    written = sum(path.stat().st_size for path in _files(state, job["id"]))
    begin = time.perf_counter()
    answer = client.post(f"/api/jobs/{job['id']}/cancel")
    # of the workers that there were, one is gone, and with it its temporary folder
    while (
        _files(state, job["id"])
        or len(workers & _workers(state)) >= len(workers)
        or len(workers & {path.name for path in (state / "temp").iterdir()}) >= len(workers)
    ):
        time.sleep(0.005)
        assert time.perf_counter() - begin < 60, "it is still there"
    spent = time.perf_counter() - begin
    assert answer.json()["state"] == "cancelled"
    return found["stage"], found["done"], f"{written / 1e6:.0f}", spent


def _files(state: Path, job: str) -> list[Path]:
    """What the job has written, its record left out."""
    found = [path for path in (state / "jobs" / job).rglob("*") if path.name != "job.json"]
    return [path for path in found if path.is_file()]


def _workers(state: Path) -> set[str]:
    """The temporary folders of the workers that run, by what the system knows of processes."""
    found = set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            place = (folder / "cwd").readlink()
            if folder.name.isdigit() and place.parent == state / "temp":
                found.add(place.name)
    return found


if __name__ == "__main__":
    main()
