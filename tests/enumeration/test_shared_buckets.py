"""Several columns, and several rows of a person, in the same buckets: nobody beyond the promise.

Nothing here is drawn but tables and plans: chances are fractions, from what is listed and, for
few people, from all worlds.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sfumato.draws import Draws
from sfumato.guarantees import CeilingGuarantee, parse_guarantee
from sfumato.mechanisms.buckets.shared import SharedPlan
from tests.enumeration.shared import planned, posteriors, profile_of, random_kinds, worst_ratio

PROMISES = ("l-diversity(2)", "beta-likeness(2)", "f-privacy(theta=1.5, floor=0.1)")


def promise_of(text: str) -> CeilingGuarantee:
    promise = parse_guarantee(text)
    assert isinstance(promise, CeilingGuarantee)
    return promise


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_no_table_exceeds_a_ceiling(rows: int, columns: int) -> None:
    rng, looked = np.random.default_rng(10 * rows + columns), 0
    for number in range(4):
        kinds = random_kinds(rng, rows, columns, 40)
        for text in PROMISES:
            made = planned(kinds, promise_of(text), number % 2 == 1, Draws.from_seed(number))
            if made is not None:
                made[0].check()
                assert worst_ratio(*made) <= 1, (number, text)
                looked += 1
    assert looked > 2


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("columns", [1, 2])
def test_all_worlds(rows: int, columns: int) -> None:
    """Seven people: the chance over all worlds is the bucket's share, and within the ceiling."""
    rng, looked = np.random.default_rng(rows), 0
    while looked < 3:
        kinds = random_kinds(rng, rows, columns, 7)
        made = planned(kinds, promise_of("f-privacy(theta=1.8)"), False, Draws.from_seed(looked))
        if made is None:
            continue
        plan, promise = made
        profile = profile_of(kinds)
        for (_, column, value), chance in posteriors(plan).items():
            histogram = profile.histograms[kinds.columns[column]]
            assert chance <= promise.ceilings(histogram)[value]
        looked += 1


def test_people_are_placed_evenly() -> None:
    """Every person of a kind stands in each of its slots alike: 5 standard errors, 12 cells."""
    kinds = random_kinds(np.random.default_rng(4), 2, 1, 8)
    made = planned(kinds, promise_of("f-privacy(theta=1.8)"), False, Draws.from_seed(1))
    assert made is not None
    plan, kind = made[0], int(np.argmax(kinds.counts))
    people, seeds = int(kinds.counts[kind]), 600
    seen: Counter[tuple[int, int]] = Counter()
    for seed in range(seeds):
        slots = Draws.from_seed(seed).permutation("placed", kinds.counts)
        keyed = SharedPlan(plan.histograms, kinds, plan.views, plan.strata, slots)
        placed = keyed.bucket_of(np.full(people, kind), np.arange(people))
        seen.update((person, int(bucket)) for person, bucket in enumerate(placed))
    where = Counter(plan._buckets[plan._kinds == kind].tolist())
    for person in range(people):
        for bucket, number in where.items():
            chance = number / people
            error = (chance * (1 - chance) / seeds) ** 0.5
            assert abs(seen[person, bucket] / seeds - chance) <= 5 * error + 1e-12


def test_people_with_different_numbers_of_rows_never_share_a_bucket() -> None:
    """Else who shows two rows of a bucket's three would have a value in 2 of 3 worlds."""
    kinds = random_kinds(np.random.default_rng(8), 3, 1, 60)
    made = planned(kinds, promise_of("f-privacy(theta=1.5, floor=0.2)"), False, Draws.from_seed(2))
    assert made is not None
    rows = kinds.rows[made[0]._kinds]
    for bucket in range(len(made[0].sizes)):
        assert len(set(rows[made[0]._buckets == bucket].tolist())) == 1


def test_one_ceiling_too_low_is_refused_or_kept() -> None:
    """A value at exactly its ceiling leaves one setting: everybody in one bucket."""
    kinds = random_kinds(np.random.default_rng(3), 1, 2, 30)
    made = planned(kinds, promise_of("f-privacy(theta=1)"), False, Draws.from_seed(3))
    assert made is not None
    assert worst_ratio(*made) == Fraction(1)
