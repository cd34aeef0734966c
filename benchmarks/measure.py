"""Run something in a process of its own and say what it cost."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Cost:
    """CPU seconds (user and system), wall seconds and peak resident megabytes of a process."""

    cpu: float
    wall: float
    megabytes: float


_WRAPPER = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command; raises when it fails."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _WRAPPER, *command], capture_output=True, text=True, check=True
    )
    code, cpu, megabytes = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return Cost(cpu, time.perf_counter() - began, megabytes)


def generated(name: str, rows: int, **parameters: object) -> Path:
    """A generated table on disk, made once."""
    from sfumato.datasets import write_dataset

    DATA.mkdir(exist_ok=True)
    path = DATA / f"{name}-{rows}.parquet"
    if not path.exists():
        write_dataset(name, rows, path, 0, **parameters)
    return path


def own_cpu() -> float:
    """CPU seconds that this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table in Markdown, as `RESULTS.md` holds it."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    for row in rows:
        cells = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        print("| " + " | ".join(cells) + " |", flush=True)
