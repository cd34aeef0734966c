"""Random tables of people with one to three rows: what any reader may conclude, in fractions.

    nice python -m benchmarks.people_tables           # 2,000 tables for every k; into RESULTS.md
    nice python -m benchmarks.people_tables 100

Buckets, one to three sensitive columns: every table is planned under one of three promises, every
fourth jointly where there are several columns; columns have four values for every row that a person
may have, so that most promises can be kept. The largest chance of a value in any row, over its
ceiling, is computed in fractions from what the release would list; above 1 is a breach. Tables that
cannot be planned are not counted. Local buckets: one column, 16 to 30 people of two towns, which
are cut apart wherever both sides have room, whatever is foreseen of answers.

Draws, one column: two worlds of a person's rows can differ in every row, so the most that all rows
together can raise odds by is the k-th power of the largest ratio in a column of the operator,
whatever a reader believes of how rows hang together (for one row: value by value). It is told over
the limit.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from fractions import Fraction
from unittest import mock

import numpy as np

from benchmarks.measure import own_cpu, report_table
from sfumato.draws import Draws
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import (
    CeilingGuarantee,
    CeilingsOfPeople,
    OddsGuarantee,
    OddsOfPeople,
    parse_guarantee,
)
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets.local_shared import LocalSharedPlan
from sfumato.mechanisms.buckets.shared import SharedPlan
from sfumato.mechanisms.buckets.usual import UsualConditions
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.profile import Kinds
from tests.enumeration.shared import (
    planned,
    planned_in_blocks,
    profile_of,
    random_kinds,
    worst_ratio,
)
from tests.enumeration.test_people import exact

PROMISES = ("l-diversity(2)", "beta-likeness(2)", "f-privacy(theta=1.5, floor=0.1)")
COLUMNS = (
    "mechanism",
    "rows of a person",
    "tables planned",
    "could not be",
    "worst ratio",
    "CPU s",
)
DRAWS = {
    "uniform": "rho-privacy(1/4, 3/5)",
    "fine-grain": "fine-rho-privacy(theta=2)",
    "general": "fine-rho-privacy(theta=3)",
}


def drawn_ratio(kinds: Kinds, way: str, rows: int) -> Fraction | None:
    """By how much all rows of a person can raise odds, over the limit; None where it cannot be."""
    promise, profile = parse_guarantee(DRAWS[way]), profile_of(kinds)
    assert isinstance(promise, OddsGuarantee)
    (histogram,) = profile.histograms.values()
    holders = {histogram.column: kinds.holders(histogram)}
    whole = promise if rows == 1 else OddsOfPeople(promise, holders, rows)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of values that keep little retention
            plan = parse_mechanism(way).plan(profile, whole, Draws.from_seed(1))
    except InfeasibleGuarantee:
        return None
    assert isinstance(plan, PerturbedPlan)
    matrix = exact(plan.operators[histogram.column])
    columns = list(zip(*matrix, strict=True))
    limits = promise.odds_limits(histogram if rows == 1 else holders[histogram.column])
    if rows > 1:
        most = max(max(column) / min(column) for column in columns)
        limit = min((each for each in limits if each is not None), default=None)
        return Fraction(0) if limit is None else most**rows / limit
    gains = [max(column[x] / min(column) for column in columns) for x in range(len(matrix))]
    pairs = zip(gains, limits, strict=True)
    return max((gain / limit for gain, limit in pairs if limit is not None), default=Fraction(0))


def draws(tables: int) -> None:
    lines = []
    for way in DRAWS:
        for rows in (1, 2, 3):
            began, rng = own_cpu(), np.random.default_rng(rows)
            worst, looked, refused = Fraction(0), 0, 0
            while looked < tables:
                values = int(rng.integers(3, 7))
                kinds = random_kinds(rng, rows, 1, int(rng.integers(8, 30)), values)
                found = drawn_ratio(kinds, way, rows)
                worst = max(worst, Fraction(0) if found is None else found)
                looked, refused = looked + (found is not None), refused + (found is None)
            told = f"{float(worst):.6f}{' above' if worst > 1 else ''}"
            seconds = f"{own_cpu() - began:.0f}"
            lines.append((way, rows, f"{looked:,}", f"{refused:,}", told, seconds))
    report_table("Random tables of people, drawn", COLUMNS, lines)


def random_plan(
    rng: np.random.Generator, rows: int, tried: int, local: bool
) -> tuple[SharedPlan, CeilingsOfPeople] | None:
    """Buckets of a random table, under one of the promises; None where it cannot be."""
    promise = parse_guarantee(PROMISES[tried % 3])
    assert isinstance(promise, CeilingGuarantee)
    if local:
        kinds = random_kinds(rng, rows, 1, int(rng.integers(16, 30)), 6 * rows)
        return planned_in_blocks(rng, kinds, promise, Draws.from_seed(tried), 6)
    columns = 1 + tried % 2 + (tried % 5 == 0)
    kinds = random_kinds(rng, rows, columns, int(rng.integers(8, 30)), 4 * rows)
    return planned(kinds, promise, tried % 4 == 1, Draws.from_seed(tried))


def buckets(tables: int) -> None:
    lines = []
    for way, rows in itertools.product(("optimal", "local"), (1, 2, 3)):
        began, rng = own_cpu(), np.random.default_rng(rows)
        worst, looked, refused = Fraction(0), 0, 0
        while looked < tables:
            # what cannot be planned is not tried again and again
            made = random_plan(rng, rows, looked + refused, way == "local")
            if made is None:
                refused += 1
                continue
            worst = max(worst, worst_ratio(*made))
            looked += 1
        told = f"{worst}{' above' if worst > 1 else ''}"
        lines.append((way, rows, f"{looked:,}", f"{refused:,}", told, f"{own_cpu() - began:.0f}"))
        print(*lines[-1], flush=True)
    report_table("Random tables of people in buckets", COLUMNS, lines)


def main(tables: int) -> None:
    with (
        mock.patch.object(LocalSharedPlan, "predicted_error", return_value=0.0),
        mock.patch.object(UsualConditions, "of", lambda binned: UsualConditions(binned, (), 1)),
    ):
        buckets(tables)
    draws(tables)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
