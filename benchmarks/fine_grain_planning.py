"""Planning fine-grain perturbation for 15,000 values, beside importing scipy.optimize.

Planning should take no longer than the import; the thesis's linear program would have 225 million
rows.

python -m benchmarks.fine_grain_planning [VALUES]
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from benchmarks.measure import print_table
from sfumato.draws import Draws
from sfumato.guarantees import FineRhoPrivacy
from sfumato.mechanisms.fine_grain import FineGrainPerturbation
from sfumato.profile import Histogram, Profile

IMPORT = (
    "import time; began = time.perf_counter(); import scipy.optimize; "
    "print(time.perf_counter() - began)"
)


def diagnoses(values: int) -> Profile:
    """A Zipf histogram of ten million people."""
    shares = 1 / np.arange(1, values + 1)
    counts = np.floor(shares / shares.sum() * 10_000_000).astype(np.int64)
    return Profile(int(counts.sum()), {"s": Histogram("s", tuple(range(values)), counts)})


def main() -> None:
    values = int(sys.argv[1]) if len(sys.argv) > 1 else 15_000
    profile = diagnoses(values)
    lines = []
    for objective in ("records", "counts"):
        began = time.perf_counter()
        plan = FineGrainPerturbation(objective, 1).plan(
            profile, FineRhoPrivacy(theta=20), Draws.from_seed(1)
        )
        planned = time.perf_counter() - began
        began = time.perf_counter()
        plan.check()
        checked = time.perf_counter() - began
        lines.append((f"fine-grain, {objective}", planned, f"exact check {checked:.2f} s"))
    times = [
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    lines.append(("import scipy.optimize", min(times), f"of {len(times)}, in a new process"))
    rows = values * (values - 1)
    lines.append(("the linear program", None, f"{rows:,} rows: not tried"))
    print_table(f"Fine-grain planning, {values:,} values", ("what", "seconds", "note"), lines)


if __name__ == "__main__":
    main()
