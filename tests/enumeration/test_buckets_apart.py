"""Columns dealt apart: what one column tells, and what all tell together, over all deals.

Nothing here is drawn but tables and plans: chances are fractions, counted over every way to deal
the people of each value to its slots, column by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms.buckets import ApartPlan, OptimalBuckets
from sfumato.operators.apart import ApartEstimator, ApartFit
from sfumato.operators.estimator import Moments
from sfumato.operators.many_values import UnbiasedEstimated
from sfumato.operators.told_apart import Apart, told_apart
from sfumato.profile import Histogram, Kinds, Profile

PROMISE = parse_guarantee("f-privacy(theta=1.8)")


def planned(codes: IntArray, seed: int = 1, promise: str = "f-privacy(theta=1.8)") -> ApartPlan:
    """Buckets apart for people with these codes, by (person, column)."""
    held, counts = np.unique(codes, axis=0, return_counts=True)
    names = tuple("abc"[: codes.shape[1]])
    histograms = {
        name: Histogram(name, tuple(range(int(own.max()) + 1)), np.bincount(own))
        for name, own in zip(names, codes.T, strict=True)
    }
    profile = Profile(len(codes), histograms, kinds=Kinds(names, held[:, None, :], counts))
    made = OptimalBuckets(buckets="apart").plan(
        profile, parse_guarantee(promise), Draws.from_seed(seed)
    )
    assert isinstance(made, ApartPlan)
    return made


def deals(listed: IntArray, own: IntArray) -> Iterator[tuple[int, ...]]:
    """Every way to put people with these values into the slots that list them: their buckets."""
    slots = {
        value: np.repeat(np.arange(len(listed)), listed[:, value]).tolist()
        for value in range(listed.shape[1])
    }
    people = [np.flatnonzero(own == value) for value in range(listed.shape[1])]
    for chosen in product(*(permutations(slots[value]) for value in slots)):
        bucket = np.empty(len(own), np.int64)
        for who, at in zip(people, chosen, strict=True):
            bucket[who] = at
        yield tuple(bucket.tolist())


@pytest.fixture(scope="module")
def six() -> tuple[IntArray, ApartPlan]:
    """Six people whose two columns hang together."""
    codes = np.array([[0, 0], [0, 0], [1, 1], [1, 1], [2, 1], [2, 0]])
    return codes, planned(codes)


def test_what_all_columns_tell_is_what_all_deals_say(six: tuple[IntArray, ApartPlan]) -> None:
    """A person of whom only the buckets are seen: the chance of each value, over all deals."""
    codes, plan = six
    listed = plan.listed()
    met: Counter[tuple[int, ...]] = Counter()
    ways = [Counter(deals(each, own)) for each, own in zip(listed, codes.T, strict=True)]
    for (one, n), (two, m) in product(*(each.items() for each in ways)):
        for person, place in enumerate(zip(one, two, strict=True)):
            met[place + tuple(codes[person])] += n * m
    apart = Apart(plan.kinds.held[:, 0], plan.kinds.counts, listed,
                  [each.sum(axis=0) for each in listed])  # fmt: skip
    for place in {key[:2] for key in met}:
        total = sum(number for key, number in met.items() if key[:2] == place)
        for column, value in product(range(2), range(3)):
            having = sum(
                number
                for key, number in met.items()
                if key[:2] == place and key[2 + column] == value
            )
            found = apart.exactly(np.array(place), column, value)
            assert found == Fraction(having, total)


def test_who_knows_no_link_learns_a_share_and_no_more(six: tuple[IntArray, ApartPlan]) -> None:
    """All worlds alike, columns unrelated: seeing both deals, the chance is the bucket's share."""
    codes, plan = six
    listed = plan.listed()
    places = [next(iter(deals(each, own))) for each, own in zip(listed, codes.T, strict=True)]
    ways = []
    for column, (each, place) in enumerate(zip(listed, places, strict=True)):
        worlds = set(permutations(codes[:, column].tolist()))
        ways.append({w: n for w in worlds if (n := Counter(deals(each, np.array(w)))[place])})
    total = sum(n * m for n, m in product(*(each.values() for each in ways)))
    for person, value in product(range(6), range(3)):
        having = sum(n * m for (w, n), (_, m) in product(*(each.items() for each in ways))
                     if w[person] == value)  # fmt: skip
        bucket = listed[0][places[0][person]]
        assert Fraction(having, total) == Fraction(int(bucket[value]), int(bucket.sum()))


def test_estimates_of_combinations_are_unbiased_over_all_deals(
    six: tuple[IntArray, ApartPlan],
) -> None:
    from scipy.sparse import csr_array

    codes, plan = six
    listed = plan.listed()
    shares = [csr_array(each / each.sum(axis=1, keepdims=True)) for each in listed]
    fit = ApartFit([own.operator for own in plan.plans])
    estimator = ApartEstimator(fit, shares, UnbiasedEstimated)
    asked = np.array([0, 1, 2, 5])  # a condition that four of the six satisfy
    found, many = np.zeros((3, 2)), 0
    for one, two in product(*(set(deals(e, own)) for e, own in zip(listed, codes.T, strict=True))):
        shown = tuple(np.array(each)[asked] for each in (one, two))
        ones = np.ones(len(asked))
        moments = Moments(1, np.zeros(4, np.int64), shown, {("n",): ones, ("n", "n"): ones})
        found += estimator.estimate(moments).histogram("n", "n")[0]
        many += 1
    truth = np.zeros((3, 2))
    np.add.at(truth, tuple(codes[asked].T), 1)
    seen = fit.unseen() is None
    assert seen
    np.testing.assert_allclose(found / many, truth, atol=1e-9)


@pytest.mark.slow
def test_plans_say_whether_all_columns_keep_the_promise() -> None:
    """200 random tables: ceilings in every bucket, and together exactly as brute force says."""
    rng, looked, narrow = np.random.default_rng(5), 0, 0
    while looked < 200:
        people, columns = int(rng.integers(6, 30)), int(rng.integers(2, 4))
        codes = rng.integers(0, rng.integers(2, 5), (people, columns))
        if rng.random() < 0.5:
            codes[:, 1] = np.where(rng.random(people) < 0.7, codes[:, 0], codes[:, 1])
        codes = np.stack([np.unique(own, return_inverse=True)[1] for own in codes.T], axis=1)
        try:
            plan = planned(codes, looked)
        except InfeasibleGuarantee:
            continue
        plan.check()
        looked += 1
        listed = plan.listed()
        totals = [each.sum(axis=0) for each in listed]
        apart = Apart(plan.kinds.held[:, 0], plan.kinds.counts, listed, totals)
        beyond = False
        for own, each in zip(plan.plans, listed, strict=True):
            size = each.sum(axis=1)
            for bucket, value in zip(*np.nonzero(each), strict=True):
                share = Fraction(int(each[bucket, value]), int(size[bucket]))
                assert share <= own.limits.ceilings[value]
        for column, own in enumerate(plan.plans):
            at = np.array(list(product(*(range(len(each)) for each in listed))))
            told = told_apart(apart, at, column, own.limits.ceilings)
            exact = {
                tuple(place): any(
                    apart.exactly(place, column, value) > own.limits.ceilings[value]
                    for value in range(listed[column].shape[1])
                )
                for place in at[:: max(len(at) // 20, 1)]
            }
            for place, found in zip(at, told.beyond, strict=True):
                assert exact.get(tuple(place), found) == found
            beyond |= bool(told.beyond.any())
        assert bool(plan.narrower) == beyond
        narrow += beyond
    assert 20 < narrow < 200
