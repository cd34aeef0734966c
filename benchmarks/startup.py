"""What starting costs: CPU milliseconds, the best of five."""

from __future__ import annotations

import sys

from benchmarks.measure import cost_of, print_table

WHAT = {
    "python, nothing else": ["-c", "pass"],
    "import sfumato": ["-c", "import sfumato"],
    "import numpy (for comparison)": ["-c", "import numpy"],
    "sfumato --help": [
        "-c",
        "import sys; sys.argv[1:] = ['--help']; from sfumato.cli import main; main()",
    ],
}
LIMITS = {"import sfumato": "150", "sfumato --help": "300"}


def main() -> None:
    rows = []
    for name, arguments in WHAT.items():
        best = min(cost_of([sys.executable, *arguments]).cpu for _ in range(5))
        rows.append((name, round(1000 * best), LIMITS.get(name, "")))
    print_table("Starting", ("what", "CPU ms", "bar"), rows)


if __name__ == "__main__":
    main()
