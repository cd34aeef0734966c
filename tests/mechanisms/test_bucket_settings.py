"""Planning on counts: golden examples, brute force and an independent checker."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from papers.f_privacy.figures import integer_program
from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.optimal import optimal_setting
from sfumato.mechanisms.buckets.settings import (
    Limits,
    Setting,
    SizedBuckets,
    loss,
    mean_squared_error,
    part_rooms,
    partition_pair,
    setting_of,
)
from sfumato.mechanisms.buckets.transport import transport
from sfumato.mechanisms.buckets.two_size import PairList, best_two_size


def is_valid_pair(setting: Setting, counts: IntArray, limits: Limits) -> bool:
    """Theorem 3 for at most two sizes: privacy, fill and capacity constraints. O(m)."""
    if len(setting) > 2:
        raise ValueError("Theorem 3 does not extend beyond two sizes (Example 5)")
    if sum(part.records for part in setting) != int(counts.sum()):
        return False
    rooms = part_rooms(setting, counts, limits)
    fills = all(int(room.sum()) >= part.records for room, part in zip(rooms, setting, strict=True))
    return fills and bool((rooms.sum(axis=0) >= counts).all())


def linear_limits(counts, theta, floor):
    rows = int(counts.sum())
    return Limits(
        tuple(min(Fraction(1), theta * Fraction(int(o), rows) + Fraction(floor)) for o in counts)
    )


def occ_like(rows, values=50):
    shares = np.geomspace(0.075, 0.0018, values)
    counts = np.floor(shares / shares.sum() * rows).astype(np.int64)
    counts[: rows - counts.sum()] += 1
    return counts


EXAMPLE_3 = np.array([1] * 8 + [6] * 4 + [9] * 2)


def test_example_3():
    limits = linear_limits(EXAMPLE_3, 2, "0.05")
    setting = setting_of([4, 14], [9, 1])
    rooms = part_rooms(setting, EXAMPLE_3, limits)
    assert rooms[0].tolist() == [0] * 8 + [6] * 4 + [9] * 2
    assert rooms[1].tolist() == [1] * 8 + [4] * 4 + [5] * 2
    assert is_valid_pair(setting, EXAMPLE_3, limits)
    shares = partition_pair(setting, EXAMPLE_3, limits)
    assert int(rooms[0].sum() - shares[0].sum()) == 6  # six records move
    checked(setting, shares, EXAMPLE_3, limits)


def test_example_4():
    pairs = PairList.of(2, 4, 28)
    listed = [pairs.at(i) for i in range(pairs.last + 1)]
    assert listed == [(14, 0), (12, 1), (10, 2), (8, 3), (6, 4), (4, 5), (2, 6), (0, 7)]


def test_example_5_needs_more_than_pairs():
    """Ten values fit only into the third part: pairwise sums hold, no assignment exists (F5)."""
    counts = np.array([5] * 10 + [20])
    rooms = np.zeros((3, 11), np.int64)
    rooms[2, :10] = 5
    rooms[:, 10] = 20
    demands = np.array([20, 20, 30])
    assert (rooms.sum(axis=0) >= counts).all()
    assert (rooms.sum(axis=1) >= demands).all()
    flow = transport(counts, demands, rooms)
    assert flow.short == 20  # the first two parts get 20 of 40
    assert flow.source_side.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("ceiling", "size", "floor"),
    [("0.29", 100, 29), ("0.57", 100, 57), ("0.58", 50, 29), ("0.58", 100, 58), ("0.70", 90, 63)],
)
def test_floors_are_exact(ceiling, size, floor):
    assert Limits((Fraction(ceiling),)).table([size]).tolist() == [[floor]]
    assert int(float(ceiling) * size) < floor  # the trap of F4: floating point is one below


def test_smallest_size_is_exact():
    limits = Limits((Fraction(1, 49), Fraction(1, 3)))
    assert limits.smallest_size == 3
    assert limits.needed_size(np.array([1, 1])) == 49
    assert Limits((Fraction(10**30 + 1, 10**31),)).table([20]).tolist() == [[2]]


def checked(setting, shares, counts, limits):
    """An independent check: deal every part round robin and look into every bucket."""
    assert sum(p.size * p.buckets for p in setting) == counts.sum()
    assert (np.sum(shares, axis=0) == counts).all()
    for part, part_counts in zip(setting, shares, strict=True):
        assert part_counts.sum() == part.size * part.buckets
        values = np.repeat(np.arange(len(counts)), part_counts)
        bucket = np.arange(len(values)) % part.buckets
        cells = np.bincount(values * part.buckets + bucket)
        largest = [0] * len(counts)
        for index in np.flatnonzero(cells):
            x = index // part.buckets
            largest[x] = max(largest[x], int(cells[index]))
        for x, most in enumerate(largest):
            assert most <= limits.ceilings[x] * part.size


def brute_force_loss(counts, limits, max_size):
    rows = int(counts.sum())
    best = None
    for small, large in itertools.combinations(range(1, max_size + 1), 2):
        for large_buckets in range(rows // large + 1):
            rest = rows - large * large_buckets
            if rest % small:
                continue
            setting = setting_of([small, large], [rest // small, large_buckets])
            if is_valid_pair(setting, counts, limits):
                found = loss(setting)
                best = found if best is None else min(best, found)
    return best


def random_instance(rng, most_values, most_rows):
    values = int(rng.integers(2, most_values + 1))
    rows = int(rng.integers(values, most_rows + 1))
    weights = rng.dirichlet(np.full(values, rng.uniform(0.3, 3)))
    counts = rng.multinomial(rows - values, weights) + 1
    theta, floor = Fraction(int(rng.integers(4, 24)), 4), Fraction(int(rng.integers(0, 20)), 100)
    return counts.astype(np.int64), linear_limits(counts, theta, floor)


def test_two_size_equals_brute_force():
    rng = np.random.default_rng(20)
    found = 0
    for _ in range(400):
        counts, limits = random_instance(rng, 7, 60)
        max_size = int(rng.integers(2, 13))
        setting = best_two_size(counts, limits, max_size)
        brute = brute_force_loss(counts, limits, max_size)
        assert (None if setting is None else loss(setting)) == brute
        found += brute is not None
    assert 100 < found < 400  # both outcomes are exercised


def test_optimum_agrees_with_the_integer_program():
    rng = np.random.default_rng(22)
    for _ in range(25):
        counts, limits = random_instance(rng, 6, 80)
        best = optimal_setting(counts, limits, 12)
        reference = integer_program(counts, limits, 12)
        assert (best is None) == (reference is None)
        if best is not None:
            assert best.bound <= loss(reference) <= loss(best.setting)
            assert loss(best.setting) <= loss(reference) * 1.01


@pytest.mark.parametrize("theta", [8, 16, 32])  # 2 and 4 too: benchmarks/buckets.py
def test_occ_like_is_within_a_thousandth_of_the_bound(theta):
    counts = occ_like(300_000)
    limits = linear_limits(counts, theta, "0.02")
    best = optimal_setting(counts, limits, 50)
    checked(best.setting, best.shares, counts, limits)
    assert loss(best.setting) * 0.999 <= best.bound
    if theta == 8:
        assert mean_squared_error(best.setting) <= Fraction("5.18")
        assert mean_squared_error(best_two_size(counts, limits, 50)) <= Fraction("9.37")


def test_many_values_have_a_small_gap():
    counts = occ_like(300_000, 1600)
    best = optimal_setting(counts, linear_limits(counts, 8, "0.02"), 50)
    assert loss(best.setting) * 0.99 <= best.bound


def test_totals_beyond_32_bits_flow():
    counts = occ_like(5 * 10**9)
    limits = linear_limits(counts, 8, "0.02")
    best = optimal_setting(counts, limits, 50)
    assert (best.shares.sum(axis=0) == counts).all()
    assert loss(best.setting) * 0.999 < best.bound


def test_one_record_and_no_records():
    assert best_two_size(np.array([1]), Limits((Fraction(1),)), 5) == (SizedBuckets(1, 1),)
    assert optimal_setting(np.array([0, 0]), Limits((Fraction(1, 2),) * 2), 5).setting == ()
    assert mean_squared_error((SizedBuckets(1, 1),)) == 0
