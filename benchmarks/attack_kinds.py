"""Every attack on every kind of release, side by side, the best first.

    SFUMATO_DATA=… python -m benchmarks.attack_kinds [--write]

The first 10,000 records of CENSUS, occupation sensitive, everybody attacked. `--write` puts the
table into docs/attacks.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.measure import write_between
from sfumato.attacks import attack

ROWS = 10_000
RELEASES = (
    ("rho-privacy(0.08, 1/3)", "uniform"),
    ("fine-rho-privacy(theta=8.5)", "fine-grain"),
    ("rho-privacy(0.08, 1/3)", "partitioned"),
    ("small-sum(groups=5)", "splu"),
    ("reconstruction-privacy(0.3, 0.3)", "sps"),
    ("l-diversity(5)", "optimal"),
    ("l-diversity(5)", "local"),
    ("l-diversity(5)", "anatomy"),
    ("beta-likeness(3)", "optimal"),
    ("f-privacy(theta=2, floor=0.05)", "optimal"),
    ("l-diversity(5)", "heterogeneous"),
    ("l-diversity(5)", "ring"),
    ("beta-likeness(3)", "heterogeneous"),
    ("beta-likeness(3)", "burel"),
    ("rho-privacy(0.08, 1/3)", "resample"),
)
MARKS = ("<!-- attacks side by side -->", "<!-- end -->")


def main() -> None:
    table = pq.read_table(data() / "occ100k.parquet").slice(0, ROWS)
    *quasi, sensitive = table.schema.names
    declared = sf.read(table, quasi=quasi, sensitive=sensitive)
    lines = ["| release | right guesses in percent, the best attack first |", "| --- | --- |"]
    lines.append(f"| the raw table | {attacked(declared, None)} |")
    print("\n".join(lines), flush=True)
    for promise, mechanism in RELEASES:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = Path(folder) / "release"
            sf.publish(declared, promise, to=release, mechanism=mechanism, seed=1)
            start = time.process_time()
            lines.append(f"| `{promise}`, {mechanism} | {attacked(declared, release)} |")
            print(lines[-1], f"{time.process_time() - start:.0f} CPU s", flush=True)
    if "--write" in sys.argv:
        write_between(Path("docs/attacks.md"), MARKS, "\n".join(lines))


def attacked(declared: sf.Table, release: Path | None) -> str:
    found = attack(declared, release, fresh=False, targets=ROWS)
    told = [f"{each.attack} {100 * each.success.value:.1f}" for each in found]
    return ", ".join([f"**{told[0]}**", *told[1:]])


def data() -> Path:
    return Path(os.environ.get("SFUMATO_DATA", "../shared/data"))


if __name__ == "__main__":
    main()
