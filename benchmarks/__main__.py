"""`make bench`: the six scripts in turn, each writing its part of RESULTS.md."""

from __future__ import annotations

import subprocess
import sys

SCRIPTS = ("publish_speed", "query_speed", "coverage", "peers", "evidence", "size")


def main() -> None:
    for script in SCRIPTS:
        command = [sys.executable, "-m", f"benchmarks.{script}", "--write"]
        code = subprocess.run(command, check=False).returncode
        if code:
            print(f"\n(benchmarks.{script} ended with exit code {code})")


if __name__ == "__main__":
    main()
