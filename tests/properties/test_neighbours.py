"""Two tables that differ in one person's value: what is published beside the draws is the same.

Whoever knows everybody else's value could else tell the last one from the manifest alone: a
sentence that names the values that are too common, or a retention that follows from shares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

PAIRS = 200
VALUES = tuple("abcdef")
LIMITS = "a:0.1:0.4;b:0.2:0.5:2;c:1/3:0.6;*:0.15:0.5"
LOOSE = "a:0.05:0.2;b:0.05:0.3;*"

# (guarantee, mechanism): all whose promise holds for who knows everybody else
CASES = [
    ("rho-privacy(0.2, 0.5)", "uniform"),
    ("rho-privacy(1/13, 1/6)", "uniform"),
    ("fine-rho-privacy(theta=3)", "uniform"),
    ("fine-rho-privacy(theta=8.5)", "uniform"),
    (f"fine-rho-privacy(limits={LIMITS})", "uniform"),
    (f"fine-rho-privacy(limits={LIMITS})", "fine-grain(objective=counts)"),
    (f"fine-rho-privacy(limits={LIMITS})", "fine-grain"),
    (f"fine-rho-privacy(limits={LOOSE})", "fine-grain(objective=counts)"),
]


def neighbours(number: int) -> tuple[pa.Table, pa.Table]:
    """A table with some value near a threshold of the cases, and one person changed."""
    rng = np.random.default_rng(number)
    rows = int(rng.integers(20, 120))
    shares = rng.dirichlet(np.full(len(VALUES), 0.7))
    drawn = rng.choice(len(VALUES), rows, p=shares)
    # one value just at a limit that a case names: where a count decides, it decides here
    limit = rng.choice([0.2, 1 / 13, 1 / 3, 1 / 8.5, 0.05, 0.1, 0.15])
    drawn[: max(1, round(limit * rows))] = 0
    other = drawn.copy()
    person = int(rng.integers(0, rows))
    other[person] = (drawn[person] + rng.integers(1, len(VALUES))) % len(VALUES)
    ages = rng.integers(20, 60, rows)
    return tuple(  # type: ignore[return-value]
        pa.table({"age": ages, "ill": np.array(VALUES)[codes]}) for codes in (drawn, other)
    )


def manifest(table: pa.Table, case: tuple[str, str], to: Path) -> dict[str, Any] | str:
    """What a release says of itself, but for the files' sizes and hashes."""
    declared = sf.read(table, quasi="age", sensitive="ill", domain={"ill": list(VALUES)})
    try:
        sf.publish(declared, case[0], mechanism=case[1], to=to)
    except sf.InfeasibleGuarantee:
        return "refused"
    found: dict[str, Any] = json.loads((to / "manifest.json").read_text("utf-8"))
    for entry in found["files"].values():
        del entry["bytes"], entry["sha256"]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
def test_manifests_of_neighbours_are_equal(tmp_path: Path) -> None:
    compared = 0
    for number in range(PAIRS):
        case = CASES[number % len(CASES)]
        one, other = (
            manifest(table, case, tmp_path / f"{number}-{side}")
            for side, table in enumerate(neighbours(number))
        )
        if "refused" in (one, other):
            continue  # nothing was published: only the steward learns that
        assert json.dumps(one) == json.dumps(other), (number, case)
        compared += 1
    assert compared > 0.9 * PAIRS
