"""24 fresh releases of the same people: where a ledger stops them, and what averaging then tells.

    nice python -m benchmarks.ledger        # into RESULTS.md

3,000 people with one of ten values, each alone with their row number, so that the reader can follow
everybody. Every release is asked for under `EACH`; the ledger's promise for all of them is `ALL`:
who believed 0.12 of a value may believe one half. The reader knows the true shares, and multiplies
what all releases show of a person.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.measure import own_cpu, report_table
from sfumato.errors import InfeasibleGuarantee
from tests.engines.test_ledger import ALL, EACH, ROLES, VALUES, beliefs

ASKED, PEOPLE = 24, 3000


def releases(people: pa.Table, folder: Path, ledger: dict[str, Any]) -> list[Path]:
    """Those of the 24 that are made."""
    made = []
    for number in range(ASKED):
        to = folder / str(number)
        try:
            sf.publish(people, EACH, to=to, **ROLES, **ledger)
            made.append(to)
        except InfeasibleGuarantee:
            continue
    return made


def main() -> None:
    rng, lines = np.random.default_rng(2), []
    jobs = np.array(VALUES)[rng.integers(0, len(VALUES), PEOPLE)]
    people = pa.table({"row": range(PEOPLE), "job": jobs})
    for promise in ("none", ALL):
        with tempfile.TemporaryDirectory() as folder:
            ledger = {"ledger": Path(folder) / "ledger", "ledger_promise": ALL}
            began = own_cpu()
            made = releases(people, Path(folder), {} if promise == "none" else ledger)
            most = float(beliefs(made, people).max())
        told = f"{most:.3f}", f"{own_cpu() - began:.0f}"
        lines.append((promise, len(made), ASKED - len(made), *told))
    report_table(
        f"{ASKED} releases of {PEOPLE:,} people asked for, each {EACH}",
        ("ledger", "made", "refused", "most believed of a value", "CPU s"),
        lines,
    )


if __name__ == "__main__":
    main()
