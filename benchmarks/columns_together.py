"""Two and three sensitive columns of adult: joint posteriors, and what intervals hold.

    nice python -m benchmarks.columns_together [publications] [rows]  # minutes; into RESULTS.md

Conditions are a value of one or two quasi columns with a value of every sensitive column asked
about; counts of 20 and more. Nothing here is tuned: promises and questions are stated beforehand.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.measure import own_cpu, write_table
from sfumato.datasets import read_adult

QUASI = ("age", "workclass", "marital_status", "sex")
CASES = (
    ("rho-privacy(0.14, 1/3)", "uniform", ("occupation", "education"), False),
    ("rho-privacy(0.14, 1/3)", "uniform", ("occupation", "education"), True),
    ("beta-likeness(2)", "optimal", ("occupation", "education"), False),
    ("beta-likeness(2)", "optimal", ("occupation", "education"), True),
    ("beta-likeness(2)", "optimal", ("occupation", "education", "income"), False),
    ("beta-likeness(2)", "optimal(buckets=apart)", ("occupation", "education"), False),
    ("beta-likeness(2)", "optimal(buckets=apart)", ("occupation", "education", "income"), False),
    ("l-diversity(2)", "local", ("occupation", "education"), False),
    ("l-diversity(2)", "optimal(buckets=shared)", ("occupation", "education"), False),
)
QUESTIONS = 40


def questions(
    frame: Any, columns: Sequence[str], rng: np.random.Generator
) -> Iterator[tuple[str, int]]:
    """SQL and truth; every condition holds for 20 people at least."""
    while True:
        row = frame.iloc[int(rng.integers(len(frame)))]
        quasi = rng.choice(QUASI[1:], rng.integers(1, 3), replace=False)
        asked = rng.choice(columns, rng.integers(1, len(columns) + 1), replace=False)
        names = [*quasi, *asked]
        mask = np.logical_and.reduce([(frame[name] == row[name]).to_numpy() for name in names])
        if mask.sum() >= 20:
            where = " AND ".join(f"\"{name}\" = '{row[name]}'" for name in names)
            yield f"SELECT COUNT(*) AS n FROM release WHERE {where}", int(mask.sum())


def main(publications: int, rows: int) -> None:
    data = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    table = read_adult(data / "adult.data")
    frame = table.to_pandas().dropna().head(rows).reset_index(drop=True)
    frame = frame[[*QUASI, "occupation", "education", "income"]].astype(
        dict.fromkeys((*QUASI[1:], "occupation", "education", "income"), str)
    )
    found: list[tuple[object, ...]] = []
    for promise, way, columns, joint in CASES:
        began, rng, held, of, kept = own_cpu(), np.random.default_rng(7), 0, 0, []
        off = []
        people = pa.Table.from_pandas(frame[[*QUASI, *columns]], preserve_index=False)
        for number in range(publications):
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sf.publish(
                    people,
                    promise,
                    to=f"{folder}/r",
                    mechanism=way,
                    quasi=list(QUASI),
                    sensitive=list(columns),
                    joint=joint,
                    left_out=1,
                )
                if number == 0:
                    kept.append(sf.audit(people, f"{folder}/r").holds)
                opened, made = sf.open(f"{folder}/r"), questions(frame, columns, rng)
                for _ in range(QUESTIONS):
                    sql, true = next(made)
                    row = opened.sql(sql).rows()[0]
                    held += row["n_low"] <= true <= row["n_high"]
                    off.append(abs(row["n"] - true) / true)
                    of += 1
        audited = "holds" if all(kept) else "fails"
        told = f"`{promise}`, {way}", len(columns), joint, audited, f"{held / of:.1%}", of
        found.append((*told, f"{np.median(off):.1%}", round(own_cpu() - began)))
        print(*found[-1], flush=True)
    title = f"Several columns of adult, {len(frame):,} people, {publications} publications"
    heads = ("promise", "columns", "joint", "audit", "held", "of", "median error", "CPU s")
    write_table(title, heads, found)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 3,
        int(sys.argv[2]) if len(sys.argv) > 2 else 12_000,
    )
