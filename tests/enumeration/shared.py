"""What a reader concludes from buckets that list what people hold in several columns, in fractions.

The reader knows everything but who is who: the counts of all kinds, the program, the buckets and
what they list. `posteriors` weighs all worlds (who is of which kind) by the chance that the
program, its permutations being uniform, places people as it did: Π over kinds of (the number of
ways to fill the kind's slots), the same for every world that fits.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import AllCeilings, CeilingGuarantee
from sfumato.mechanisms.buckets.filling import Listed
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.buckets.ways import OptimalBuckets
from sfumato.profile import Histogram, Holdings, Profile


def random_holdings(
    rng: np.random.Generator, columns: int, people: int, values: int = 4
) -> Holdings:
    """People whose columns go together a little."""
    own = rng.integers(0, values, (people, 1))
    other = rng.integers(0, values, (people, columns))
    held = np.where(rng.random((people, columns)) < 0.4, own, other)
    listed, counts = np.unique(held, axis=0, return_counts=True)
    views = tuple(
        Histogram(name, tuple(range(values)), np.bincount(held[:, index], minlength=values))
        for index, name in enumerate("abc"[:columns])
    )
    return Holdings(views, listed, counts)


def profile_of(held: Holdings) -> Profile:
    return Profile(held.people, {view.column: view for view in held.views}, holdings=held)


def planned(
    held: Holdings, promise: CeilingGuarantee, joint: bool, draws: Draws
) -> BucketPlan | None:
    try:
        asked = AllCeilings((promise,), joint=True) if joint else promise
        plan = OptimalBuckets().plan(profile_of(held), asked, draws)
    except InfeasibleGuarantee:
        return None
    assert isinstance(plan, BucketPlan)
    return plan


def worst_ratio(plan: BucketPlan) -> Fraction:
    """The largest chance of a value over its ceiling, from what the release lists alone."""
    worst = Fraction(0)
    for view in range(len(plan.holdings.views)):
        people: Counter[int] = Counter()
        holders: Counter[tuple[int, int]] = Counter()
        for entries in plan.listed():
            for bucket, held, count in zip(*(entry.tolist() for entry in entries), strict=True):
                people[bucket] += count
                holders[bucket, int(plan.holdings.of[held, view])] += count
        for (bucket, value), number in holders.items():
            chance = Fraction(number, people[bucket])
            worst = max(worst, chance / plan.limits.ceilings[plan.holdings.starts[view] + value])
    return worst


def posteriors(plan: BucketPlan) -> dict[tuple[int, int, int], Fraction]:
    """P(a person has value v of column j | all buckets), by (person, j, v).

    People are slots of the plan in the order of their buckets; a world gives each a kind. Worlds
    that list other contents are impossible; all others are equally likely before.
    """
    assert isinstance(plan.filling, Listed)
    kinds, buckets = plan.filling.places.tolist(), plan.filling.bucket.tolist()
    contents = [Counter(k for k, b in zip(kinds, buckets, strict=True) if b == bucket)
                for bucket in range(plan.buckets)]  # fmt: skip
    worlds = 0
    found: Counter[tuple[int, int, int]] = Counter()
    for world in set(itertools.permutations(kinds)):
        listed = [Counter() for _ in contents]
        for kind, bucket in zip(world, buckets, strict=True):
            listed[bucket][kind] += 1
        # each kind's people reach its slots by a uniform permutation: every world that lists the
        # same contents places people so in Π_t Π_g c_t(g)! of Π_t n_t! ways
        if listed != contents:
            continue
        worlds += 1
        for person, kind in enumerate(world):
            for column, value in enumerate(plan.holdings.of[kind].tolist()):
                found[person, column, value] += 1
    return {key: Fraction(count, worlds) for key, count in found.items()}
