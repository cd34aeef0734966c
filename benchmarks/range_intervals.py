"""Ranges and sets: how many 95 % intervals hold, by what is asked.

    python -m benchmarks.range_intervals [first row of a slice ...]   # 60000 90000: 3 CPU minutes

Slices of 10,000 people of CENSUS. Of each release: counts of every single occupation under one to
three conditions on quasi columns that somebody satisfies, range counts about many occupations with
three and five columns, counts of quasi columns alone, and the mean of the occupation's code. The
model was chosen on the first 5,000 rows from 10,000 and from 40,000; other slices are measured
only.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.heterogeneous import DATA, census
from benchmarks.measure import print_table
from sfumato.engines.publishing import publish
from sfumato.workloads import CountQuestion, generate_workload, people_of, true_counts

PEOPLE = 10_000
QUESTIONS = 24
MANY = 100
WAYS = (
    ("l-diversity(10)", "ring"),
    ("l-diversity(10)", "heterogeneous"),
    ("l-diversity(10)", "heterogeneous(cut=none)"),
    ("l-diversity(5)", "ring"),
    ("l-diversity(5)", "heterogeneous"),
    ("beta-likeness(3)", "heterogeneous"),
    ("beta-likeness(3)", "burel"),
)
COLUMNS = ("one value", "many, 3 columns", "many, 5 columns", "no value", "average")
Held = dict[str, list[bool]]


def where(question: CountQuestion) -> str:
    return " AND ".join(each.sql(name) for name, each in question.conditions.items())


def measured(first: int, kept: str, way: str) -> Held:
    table = census("occ100k.parquet", PEOPLE, "occupation", first)
    raw = pq.read_table(DATA / "occ100k.parquet").slice(first, PEOPLE)
    work = raw.column("occupation").to_numpy()
    people = people_of(table)
    held: Held = {name: [] for name in COLUMNS}
    with tempfile.TemporaryDirectory() as folder:
        publish(table, kept, to=Path(folder) / "r", mechanism=way, seed=1)
        opened = sf.open(Path(folder) / "r")
        for columns in (1, 2, 3):
            for question in generate_workload(
                people, "ranges", count=QUESTIONS, seed=2, columns=columns, selectivity=0.25
            ).questions:
                chosen = np.ones(PEOPLE, np.bool_)
                for name, condition in question.conditions.items():
                    chosen &= condition.holds(raw.column(name))
                _ask_singly(opened, where(question), work, chosen, held)
        for columns in (3, 5):
            asked = generate_workload(
                people, "ranges", count=MANY, seed=1, columns=columns, selectivity=0.25
            )
            truth = true_counts(asked, people)
            for question, true in zip(asked.questions, truth.tolist(), strict=True):
                _, _, low, high = opened.sql(question.sql()).rows()[0].values()
                held[f"many, {columns} columns"].append(low - 1e-6 <= true <= high + 1e-6)
    return held


def _ask_singly(
    opened: sf.OpenedRelease, asked: str, work: np.ndarray, chosen: np.ndarray, held: Held
) -> None:
    said = opened.sql(
        f"SELECT occupation, COUNT(*) AS n FROM release WHERE {asked} GROUP BY occupation"
    ).table
    counts = np.bincount(work[chosen], minlength=int(work.max()) + 1)
    values = pc.cast(said.column("occupation"), "int64").to_numpy()
    low, high = (said.column(name).to_numpy() for name in ("n_low", "n_high"))
    true = counts[values]
    held["one value"] += ((low - 1e-6 <= true) & (true <= high + 1e-6)).tolist()
    whole = opened.sql(
        f"SELECT COUNT(*) AS n, AVG(occupation) AS a FROM release WHERE {asked}"
    ).rows()[0]
    held["no value"].append(whole["n_low"] - 1e-6 <= chosen.sum() <= whole["n_high"] + 1e-6)
    held["average"].append(whole["a_low"] <= work[chosen].mean() <= whole["a_high"])


def main(firsts: Sequence[int]) -> None:
    rows = []
    for kept, way in WAYS:
        every = [measured(first, kept, way) for first in firsts]
        shares = [np.mean([each for held in every for each in held[name]]) for name in COLUMNS]
        rows.append([f"{way}, {kept}", *(f"{share:.1%}" for share in shares)])
        print(rows[-1], file=sys.stderr, flush=True)
    print_table(f"95 % intervals that held, slices from {list(firsts)}", ("by", *COLUMNS), rows)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [60_000, 90_000])
