"""`check` beside pycanon, and its memory.

    SFUMATO_PYCANON_PYTHON=/path/to/python python -m benchmarks.check_speed

All measures of sfumato together against pycanon's l-diversity and basic beta-likeness alone, on a
raw table of five quasi columns, in the same run. pycanon has an environment of its own; where
SFUMATO_PYCANON_PYTHON does not name it, that half is skipped, by name. Loading the table into a
frame counts for neither side; sfumato's reading and coding of the frame counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

QUASI = ("age", "gender", "education", "marital", "race")
SENSITIVE = "occupation"
LIMIT, MEMORY = 1 / 500, 300

PYCANON = """
import json, sys, time
import pandas as pd
from pycanon import anonymity
frame = pd.read_parquet(sys.argv[1])
quasi, sensitive = sys.argv[2].split(","), [sys.argv[3]]
start = time.perf_counter()
l = anonymity.l_diversity(frame, quasi, sensitive)
beta = anonymity.basic_beta_likeness(frame, quasi, sensitive)
print(json.dumps({"seconds": time.perf_counter() - start, "l": int(l), "beta": float(beta)}))
"""

OURS = """
import json, resource, sys, time
import pyarrow.parquet as pq
from sfumato.checks import check
table = sys.argv[1] if sys.argv[4] == "file" else pq.read_table(sys.argv[1])
times = []
for _ in range(int(sys.argv[5])):
    start = time.perf_counter()
    found = check(table, quasi=sys.argv[2], sensitive=sys.argv[3])
    times.append(time.perf_counter() - start)
column = found[sys.argv[3]]
print(json.dumps({
    "seconds": min(times), "l": column["distinct l-diversity"], "beta": column["beta-likeness"],
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def write_table(rows: int, path: Path) -> None:
    import pyarrow.parquet as pq

    from sfumato.datasets import census

    pq.write_table(census(rows, seed=1).select([*QUASI, SENSITIVE]), path)


def run(python: str, script: str, path: Path, *more: str) -> dict[str, float]:
    arguments = [python, "-c", script, str(path), ",".join(QUASI), SENSITIVE, *more]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    python = os.environ.get("SFUMATO_PYCANON_PYTHON")
    sizes = [int(size) for size in sys.argv[1:]] or [100_000]
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            path = Path(folder) / "people.parquet"
            write_table(rows, path)
            ours = run(sys.executable, OURS, path, "frame", "5")
            print(f"{rows:,} rows, sfumato check, all measures: {ours['seconds']:.3f} s")
            if python is None:
                print("skipped: pycanon (name its python in SFUMATO_PYCANON_PYTHON)")
                continue
            theirs = run(python, PYCANON, path)
            ratio = ours["seconds"] / theirs["seconds"]
            print(
                f"{rows:,} rows, pycanon l-diversity + basic beta: {theirs['seconds']:.1f} s; "
                f"ratio 1/{1 / ratio:,.0f} (limit 1/{1 / LIMIT:,.0f}: "
                f"{'kept' if ratio <= LIMIT else 'MISSED'}); "
                f"l {ours['l']:.0f} and {theirs['l']:.0f}, "
                f"beta {ours['beta']:.4f} and {theirs['beta']:.4f}"
            )
        path = Path(folder) / "people.parquet"
        write_table(1_000_000, path)
        ours = run(sys.executable, OURS, path, "file", "1")
        kept = "kept" if ours["megabytes"] < MEMORY else "MISSED"
        print(
            f"1,000,000 rows from Parquet: {ours['seconds']:.2f} s, {ours['megabytes']:.0f} MB at "
            f"most (limit {MEMORY} MB: {kept})"
        )


if __name__ == "__main__":
    main()
