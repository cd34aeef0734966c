"""What the six scripts share: costs of a process, tables to measure on, parts of RESULTS.md."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from papers.public_files import read_adult

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
SCRATCH = HERE / "data"
DATA = Path(os.environ.get("SFUMATO_DATA", HERE.parents[1] / "shared" / "data"))
SFUMATO = [sys.executable, "-c", "from sfumato.cli import main; main()"]
CENSUS_QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")


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


def cost_of(command: Sequence[str], cwd: Path | None = None) -> Cost:
    """Run a command; raises when it fails."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _WRAPPER, *command],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    code, cpu, megabytes = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return Cost(cpu, time.perf_counter() - began, megabytes)


def own_cpu() -> float:
    """CPU seconds that this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def generated(name: str, rows: int) -> Path:
    """A generated table on disk, made once."""
    from sfumato.datasets import write_dataset

    SCRATCH.mkdir(exist_ok=True)
    path = SCRATCH / f"{name}-{rows}.parquet"
    if not path.exists():
        write_dataset(name, rows, path, 0)
    return path


def zipf(rows: int, values: int, exponent: float = 0.7, seed: int = 0) -> pa.Table:
    """People with an age, a group and a city, whose value has shares as rank^-exponent."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, values + 1) ** exponent
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "group": rng.integers(0, 8, rows),
            "city": rng.integers(0, 40, rows),
            "value": [f"v{v:05}" for v in rng.choice(values, rows, p=shares / shares.sum())],
        }
    )


def adult() -> pa.Table:
    """The complete records of ADULT, texts as plain texts."""
    table = read_adult(DATA / "adult.data", DATA / "adult.test").drop_null()
    plain = [
        c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns
    ]
    return pa.table(dict(zip(table.column_names, plain, strict=True))).combine_chunks()


def census(sensitive: str = "occupation", first: int = 0, rows: int | None = None) -> pa.Table:
    """Rows of CENSUS: `occ100k` for occupations, `sal500k` for classes of salary."""
    name = "occ100k" if sensitive == "occupation" else "sal500k"
    return pq.read_table(DATA / f"{name}.parquet").slice(first, rows)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    return "\n".join([_line(columns), "|" + " --- |" * len(columns), *map(_line, rows)])


def _line(cells: Sequence[object]) -> str:
    texts = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return "| " + " | ".join(texts) + " |"


def report(
    part: str, note: str, columns: Sequence[str], rows: Iterable[Sequence[object]], write: bool
) -> None:
    """Print a table row by row; with `write` it becomes the part of RESULTS.md of this title."""
    lines = [f"## {part}\n\n{note}\n\n{markdown(columns, ())}"]
    print("\n" + lines[0], flush=True)
    for row in rows:
        lines.append(_line(row))
        print(lines[-1], flush=True)
    if not write:
        return
    text = "\n".join(lines) + "\n"
    parts = re.split(r"^(?=## )", RESULTS.read_text("utf-8"), flags=re.MULTILINE)
    titles = [old.partition("\n")[0] for old in parts]
    if f"## {part}" in titles:
        parts[titles.index(f"## {part}")] = f"{text}\n"
    else:
        parts.append(f"\n{text}")
    RESULTS.write_text("".join(parts).rstrip("\n") + "\n", "utf-8")
