"""Count queries on CENSUS occupations: partitioned against uniform perturbation.

The mean error of counts of at least 0.5 % should be at most 0.45 times uniform's.

python -m benchmarks.count_queries [REPEATS]; needs occ100k.parquet in $SFUMATO_DATA.
"""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.measure import print_table
from papers.metrics import error_by_selectivity
from papers.perturbation.chapter4 import query_answers
from papers.perturbation.data import load
from sfumato.draws import Draws
from sfumato.guarantees import RhoPrivacy
from sfumato.workloads import random_conjunctions

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
ROWS = 100_000


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    occupations, _, notes = load(DATA if DATA.is_dir() else None, ROWS)
    data = occupations.first(ROWS)
    promise = RhoPrivacy(Fraction(3, 40), Fraction(1, 6))
    errors: dict[str, list[list[float]]] = {}
    for seed in range(repeats):
        queries = random_conjunctions(data.quasi, 200, Draws.from_seed(seed))
        truth = queries.counts(data.sensitive, data.values)
        made = query_answers(data, queries, promise, 6, Draws.from_seed(1000 + seed))
        for method, answers in made.items():
            found = error_by_selectivity(truth, answers, ROWS)
            errors.setdefault(method, []).append([each.error for each in found])
    uniform = np.mean(errors["uniform"], axis=0)
    lines = []
    for method, found in errors.items():
        mean = np.mean(found, axis=0)
        lines.append((method, *(100 * mean).tolist(), float(mean[1] / uniform[1])))
    print_table(
        f"Mean error of count queries, {promise}; {notes[0]}",
        ("method", "s ≥ 0.1 %, %", "s ≥ 0.5 %, %", "s ≥ 1 %, %", "× uniform at 0.5 %"),
        lines,
    )


if __name__ == "__main__":
    main()
