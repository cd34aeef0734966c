"""Two and three sensitive columns of adult: joint posteriors, and what intervals hold.

    nice python -m benchmarks.columns_together [publications] [rows] [cases]  # into RESULTS.md

Conditions are a value of one or two quasi columns with a value of every sensitive column asked
about; counts of 20 and more. Nothing here is tuned: promises and questions are stated beforehand.
Questions to one release err together, so the standard error of what held is that of the mean over
releases: of 3 it is 2 to 3 points, and says nothing about 93 to 97 %; of 12 it is about 1.
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
    ("l-diversity(2)", "burel", ("occupation", "education"), False),
    ("reconstruction-privacy(0.2, 0.2)", "sps(merge=none)", ("occupation", "education"), False),
)
QUESTIONS = 40
HEADS = (
    "promise",
    "columns",
    "joint",
    "audit",
    "held",
    "standard error",
    "of",
    "median error",
    "CPU s",
)


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


def main(publications: int, rows: int, cases: Sequence[int]) -> None:
    data = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    table = read_adult(data / "adult.data")
    frame = table.to_pandas().dropna().head(rows).reset_index(drop=True)
    frame = frame[[*QUASI, "occupation", "education", "income"]].astype(
        dict.fromkeys((*QUASI[1:], "occupation", "education", "income"), str)
    )
    some = "" if len(cases) == len(CASES) else f", cases {', '.join(map(str, cases))}"
    title = f"Several columns of adult{some}, {len(frame):,} people, {publications} publications"
    found: list[tuple[object, ...]] = []
    for promise, way, columns, joint in (CASES[place] for place in cases):
        began, rng, kept = own_cpu(), np.random.default_rng(7), []
        held: list[list[bool]] = []  # by publication
        off = []
        people = pa.Table.from_pandas(frame[[*QUASI, *columns]], preserve_index=False)
        for number in range(publications):
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trace = f"{folder}/t" if way == "burel" else None  # who shares a group is private
                sf.publish(
                    people,
                    promise,
                    to=f"{folder}/r",
                    mechanism=way,
                    quasi=list(QUASI),
                    sensitive=list(columns),
                    joint=joint,
                    left_out=1,
                    trace=trace,
                )
                if number == 0:
                    kept.append(sf.audit(people, f"{folder}/r", trace=trace).holds)
                opened, made = sf.open(f"{folder}/r"), questions(frame, columns, rng)
                held.append([])
                for _ in range(QUESTIONS):
                    sql, true = next(made)
                    row = opened.sql(sql).rows()[0]
                    held[-1].append(bool(row["n_low"] <= true <= row["n_high"]))
                    off.append(abs(row["n"] - true) / true)
        audited = "holds" if all(kept) else "fails"
        shares = np.mean(held, axis=1)
        error = float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else np.nan
        told = f"`{promise}`, {way}", len(columns), joint, audited
        shown = f"{shares.mean():.1%}", f"± {100 * error:.1f}", np.size(held)
        found.append((*told, *shown, f"{np.median(off):.1%}", round(own_cpu() - began)))
        print(*found[-1], flush=True)
        write_table(title, HEADS, found)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 12,
        int(sys.argv[2]) if len(sys.argv) > 2 else 3_000,
        [int(place) for place in sys.argv[3].split(",")]
        if len(sys.argv) > 3
        else range(len(CASES)),
    )
