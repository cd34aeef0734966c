"""Run something in a process of its own and say what it cost."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
RESULTS = Path(__file__).parent / "RESULTS.md"


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


def generated(name: str, rows: int, **parameters: Any) -> Path:
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


def table_text(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown, as `RESULTS.md` holds it."""
    return f"### {title}\n\n{markdown(columns, rows)}\n"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown, without a title."""
    return "\n".join([_line(columns), "|" + " --- |" * len(columns), *map(_line, rows)])


def _line(cells: Sequence[object]) -> str:
    texts = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return "| " + " | ".join(texts) + " |"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print("\n" + table_text(title, columns, rows), flush=True)


def write_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Put a table into `RESULTS.md`, in the place of the one with its title, or at the end."""
    held, text = RESULTS.read_text(), table_text(title, columns, rows)
    parts = re.split(r"^(?=##)", held, flags=re.MULTILINE)
    places = [place for place, part in enumerate(parts) if part.startswith(f"### {title}\n")]
    if places:
        parts[places[0]] = f"{text}\n"
    else:
        parts.append(f"\n{text}")
    RESULTS.write_text("".join(parts).rstrip("\n") + "\n")


def report_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, and put it into `RESULTS.md`."""
    print_table(title, columns, rows)
    write_table(title, columns, rows)


def write_between(page: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between two marks of a document, in place of what stands there."""
    before, rest = page.read_text("utf-8").split(marks[0])
    after = rest.split(marks[1], 1)[1]
    page.write_text(f"{before}{marks[0]}\n\n{text}\n\n{marks[1]}{after}", "utf-8")
