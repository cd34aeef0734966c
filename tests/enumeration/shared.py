"""What a reader concludes from buckets that list what people hold together, in fractions.

The reader knows everything but who is who: the counts of all kinds, the program, the buckets and
what they list, and how many rows everybody shows. `posteriors` weighs all worlds (who is of which
kind) by the chance that the program, its permutations being uniform, places people as it did:
Π over kinds of (the number of ways to fill the kind's slots), the same for every world that fits.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import CeilingGuarantee, CeilingsOfPeople
from sfumato.mechanisms.buckets import LocalBuckets
from sfumato.mechanisms.buckets.local_shared import LocalSharedPlan
from sfumato.mechanisms.buckets.shared import SharedPlan
from sfumato.mechanisms.buckets.ways import OptimalBuckets
from sfumato.profile import BinnedCounts, ColumnBins, Histogram, Kinds, Profile


def random_kinds(
    rng: np.random.Generator, rows: int, columns: int, people: int, values: int = 4
) -> Kinds:
    """People with up to so many rows, which often repeat their values."""
    found: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for _ in range(people):
        own = rng.integers(0, values, columns)
        several = rng.integers(1, rows + 1)
        held = np.where(
            rng.random((several, columns)) < 0.4, own, rng.integers(0, values, (several, columns))
        )
        found[tuple(sorted(map(tuple, held.tolist())))] += 1
    listed = sorted(found, key=lambda held: (len(held), held))
    held = np.full((len(listed), rows, columns), -1, np.int64)
    for kind, each in enumerate(listed):
        held[kind, : len(each)] = each
    return Kinds(tuple("abc"[:columns]), held, np.array([found[each] for each in listed]))


def profile_of(kinds: Kinds) -> Profile:
    histograms, values = {}, max(4, int(kinds.held.max()) + 1)
    for place, column in enumerate(kinds.columns):
        counts = np.zeros(values, np.int64)
        for held, count in zip(kinds.held[:, :, place], kinds.counts, strict=True):
            for code in held[held >= 0]:
                counts[code] += count
        histograms[column] = Histogram(column, tuple(range(values)), counts)
    rows = int((kinds.rows * kinds.counts).sum())
    return Profile(rows, histograms, kinds=kinds)


def planned(
    kinds: Kinds, promise: CeilingGuarantee, joint: bool, draws: Draws
) -> tuple[SharedPlan, CeilingsOfPeople] | None:
    profile = profile_of(kinds)
    holders = {name: kinds.holders(each) for name, each in profile.histograms.items()}
    columns = len(kinds.columns) if joint else 1
    rows = max(2, kinds.held.shape[1])  # also for one row: always the plan of people
    whole = CeilingsOfPeople(promise, holders, rows, columns)
    try:
        plan = OptimalBuckets().plan(profile, whole, draws)
    except InfeasibleGuarantee:
        return None
    assert isinstance(plan, SharedPlan)
    return plan, whole


def planned_in_blocks(
    rng: np.random.Generator, kinds: Kinds, promise: CeilingGuarantee, draws: Draws, least: int
) -> tuple[SharedPlan, CeilingsOfPeople] | None:
    """The same people in two towns, which may be cut apart: a town is a person's, not a row's."""
    people = int(kinds.counts.sum())
    town, kind = rng.integers(0, 2, people), np.repeat(np.arange(len(kinds.counts)), kinds.counts)
    cells, counts = np.unique(np.stack([town, kind], axis=1), axis=0, return_counts=True)
    binned = BinnedCounts(
        (ColumnBins("town", values=("a", "b")),),
        (cells[:, 0].astype(np.uint8),),
        cells[:, 1],
        counts,
    )
    profile = replace(profile_of(kinds), binned=binned)
    holders = {name: kinds.holders(each) for name, each in profile.histograms.items()}
    whole = CeilingsOfPeople(promise, holders, max(2, kinds.held.shape[1]))
    try:
        plan = LocalBuckets(min=least).plan(profile, whole, draws)
    except InfeasibleGuarantee:
        return None
    return (plan, whole) if isinstance(plan, LocalSharedPlan) else None


def worst_ratio(plan: SharedPlan, promise: CeilingsOfPeople) -> Fraction:
    """The largest chance of a value over its ceiling, from what the release lists alone."""
    worst = Fraction(0)
    (table,) = plan.listed()
    for view in plan.views:
        places = [plan.kinds.columns.index(name) for name in view.names]
        codes = {tuple(int(c) for c in held[places]): int(value)
                 for kind, rows in zip(plan.kinds.held, view.of, strict=True)
                 for held, value in zip(kind, rows, strict=True) if value >= 0}  # fmt: skip
        people: dict[int, set[int]] = {}
        holders: dict[tuple[int, int], set[int]] = {}
        number = 0
        for index in range(len(table["bucket"])):
            bucket = int(table["bucket"][index])
            value = codes[tuple(int(table[name][index]) for name in view.names)]
            for _ in range(int(table["count"][index]) if "holder" not in table else 1):
                number += 1
                person = int(table["holder"][index]) if "holder" in table else number
                people.setdefault(bucket, set()).add(person)
                holders.setdefault((bucket, value), set()).add(person)
        for (bucket, value), whose in holders.items():
            chance = Fraction(len(whose), len(people[bucket]))
            worst = max(worst, chance / view.limits.ceilings[value])
    return worst


def posteriors(plan: SharedPlan) -> dict[tuple[int, int, int], Fraction]:
    """P(a person has value v of column j in any row | all buckets), by (person, j, v).

    People are slots of the plan in the order of their buckets; a world gives each a kind. Worlds
    that list other contents are impossible; all others are equally likely before.
    """
    kinds, buckets = plan._kinds.tolist(), plan._buckets.tolist()
    rows = plan.kinds.rows[kinds].tolist()  # everybody knows how many rows a person shows
    contents = [Counter(k for k, b in zip(kinds, buckets, strict=True) if b == bucket)
                for bucket in range(len(plan.sizes))]  # fmt: skip
    worlds = 0
    found: Counter[tuple[int, int, int]] = Counter()
    for world in set(itertools.permutations(kinds)):
        fits = all(plan.kinds.rows[k] == r for k, r in zip(world, rows, strict=True))
        listed = [Counter() for _ in contents]
        for kind, bucket in zip(world, buckets, strict=True):
            listed[bucket][kind] += 1
        # each kind's people reach its slots by a uniform permutation: every world that lists the
        # same contents places people so in Π_t Π_g c_t(g)! of Π_t n_t! ways
        if not fits or listed != contents:
            continue
        worlds += 1
        for person, kind in enumerate(world):
            for column in range(plan.kinds.held.shape[2]):
                for value in set(plan.kinds.held[kind, :, column].tolist()) - {-1}:
                    found[person, column, value] += 1
    return {key: Fraction(count, worlds) for key, count in found.items()}
