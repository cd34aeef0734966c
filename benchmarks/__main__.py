"""`make bench`: every benchmark in turn; the output is what `RESULTS.md` holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SKIPPED = {"__init__", "__main__", "measure", "copy_parquet"}


def main() -> None:
    here = Path(__file__).parent
    packages = [path.parent for path in here.glob("*/__main__.py")]
    for path in sorted([*here.glob("*.py"), *packages]):
        if path.stem not in SKIPPED:
            done = subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"], check=False)
            if done.returncode:
                print(f"\n(benchmarks.{path.stem} ended with exit code {done.returncode})")


if __name__ == "__main__":
    main()
