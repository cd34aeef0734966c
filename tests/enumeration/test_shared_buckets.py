"""Several columns in the same buckets: nobody beyond the promise.

Nothing here is drawn but tables and plans: chances are fractions, from what is listed and, for few
people, from all worlds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.draws import Draws
from sfumato.guarantees import CeilingGuarantee, parse_guarantee
from sfumato.mechanisms.buckets.filling import Listed
from tests.enumeration.shared import planned, posteriors, profile_of, random_holdings, worst_ratio

PROMISES = ("l-diversity(2)", "beta-likeness(2)", "f-privacy(theta=1.5, floor=0.1)")


def promise_of(text: str) -> CeilingGuarantee:
    promise = parse_guarantee(text)
    assert isinstance(promise, CeilingGuarantee)
    return promise


@pytest.mark.parametrize("columns", [2, 3])
def test_no_table_exceeds_a_ceiling(columns: int) -> None:
    rng, looked = np.random.default_rng(columns), 0
    for number in range(6):
        kinds = random_holdings(rng, columns, 40)
        for text in PROMISES:
            plan = planned(kinds, promise_of(text), number % 2 == 1, Draws.from_seed(number))
            if plan is not None:
                plan.check()
                assert worst_ratio(plan) <= 1, (number, text)
                looked += 1
    assert looked > 4


def test_all_worlds() -> None:
    """Seven people: the chance over all worlds is the bucket's share, and within the ceiling."""
    rng, looked = np.random.default_rng(1), 0
    promise = promise_of("f-privacy(theta=1.8)")
    while looked < 3:
        kinds = random_holdings(rng, 2, 7)
        plan = planned(kinds, promise, False, Draws.from_seed(looked))
        if plan is None:
            continue
        profile = profile_of(kinds)
        for (_, column, value), chance in posteriors(plan).items():
            histogram = profile.histograms[kinds.views[column].column]
            assert chance <= promise.ceilings(histogram)[value]
        looked += 1


def test_people_are_placed_evenly() -> None:
    """Every person of a kind stands in each of its slots alike: 5 standard errors, 12 cells."""
    kinds = random_holdings(np.random.default_rng(4), 2, 8, 2)
    plan = planned(kinds, promise_of("f-privacy(theta=1.8)"), False, Draws.from_seed(1))
    assert plan is not None
    kind = int(np.argmax(kinds.counts))
    people, seeds = int(kinds.counts[kind]), 600
    seen: Counter[tuple[int, int]] = Counter()
    for seed in range(seeds):
        slots = Draws.from_seed(seed).permutation("placed", kinds.counts)
        keyed = replace(plan, slots=slots)
        placed = keyed.bucket_of(np.full(people, kind), np.arange(people))
        seen.update((person, int(bucket)) for person, bucket in enumerate(placed))
    assert isinstance(plan.filling, Listed)
    where = Counter(plan.filling.bucket[plan.filling.places == kind].tolist())
    for person in range(people):
        for bucket, number in where.items():
            chance = number / people
            error = (chance * (1 - chance) / seeds) ** 0.5
            assert abs(seen[person, bucket] / seeds - chance) <= 5 * error + 1e-12


def test_one_ceiling_too_low_is_refused_or_kept() -> None:
    """A value at exactly its ceiling leaves one setting: everybody in one bucket."""
    kinds = random_holdings(np.random.default_rng(3), 2, 30)
    plan = planned(kinds, promise_of("f-privacy(theta=1)"), False, Draws.from_seed(3))
    assert plan is not None
    assert worst_ratio(plan) == Fraction(1)
