"""Random tables of people with one to three rows and one to three sensitive columns, in buckets.

    nice python -m benchmarks.people_tables           # 2,000 tables for every k
    nice python -m benchmarks.people_tables 100

Every table is planned under one of three promises, every fourth jointly where there are several
columns; columns have four values for every row that a person may have, so that most promises can be
kept. The largest chance of a value in any row, over its ceiling, is computed in fractions from
what the release would list; above 1 is a breach. Tables that cannot be planned are not counted.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np

from benchmarks.measure import own_cpu
from sfumato.draws import Draws
from sfumato.guarantees import CeilingGuarantee, parse_guarantee
from tests.enumeration.shared import planned, random_kinds, worst_ratio

PROMISES = ("l-diversity(2)", "beta-likeness(2)", "f-privacy(theta=1.5, floor=0.1)")


def main(tables: int) -> None:
    print("| rows of a person | tables planned | could not be | worst ratio | CPU s |")
    print("| --- | --- | --- | --- | --- |")
    for rows in (1, 2, 3):
        began, rng = own_cpu(), np.random.default_rng(rows)
        worst, looked, refused = Fraction(0), 0, 0
        while looked < tables:
            tried = looked + refused  # what cannot be planned is not tried again and again
            promise = parse_guarantee(PROMISES[tried % 3])
            assert isinstance(promise, CeilingGuarantee)
            columns = 1 + tried % 2 + (tried % 5 == 0)
            kinds = random_kinds(rng, rows, columns, int(rng.integers(8, 30)), 4 * rows)
            made = planned(kinds, promise, tried % 4 == 1, Draws.from_seed(tried))
            if made is None:
                refused += 1
                continue
            worst = max(worst, worst_ratio(*made))
            looked += 1
        print(f"| {rows} | {looked:,} | {refused:,} | {worst} | {own_cpu() - began:.0f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
