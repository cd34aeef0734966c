"""Buckets for l-diversity and beta-likeness: the paper's tables, and every invariant."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.mechanisms.heterogeneous.buckets import (
    Buckets,
    Layers,
    check_layers,
    largest_shares,
    leveled,
    packed,
    published,
)
from sfumato.mechanisms.heterogeneous.layers import (
    diversity_layers,
    filled,
    likeness_layers,
    straight_layers,
)

# fmt: off
OCCUPATIONS = np.array([
    538, 396, 295, 146, 206, 212, 78, 196, 56, 53, 285, 399, 45, 108, 78, 246, 54, 64, 265, 168,
    316, 380, 90, 714, 361, 293, 188, 144, 290, 190, 104, 535, 146, 39, 18, 161, 321, 44, 226,
    62, 171, 154, 41, 170, 151, 469, 35, 35, 238, 26,
])
# fmt: on


def ceilings(counts: np.ndarray, beta: Fraction) -> list[Fraction]:
    return [min(Fraction(1), (1 + beta) * Fraction(int(n), int(counts.sum()))) for n in counts]


def attained_beta(layers: Layers) -> Fraction:
    """By how much a share among matches can exceed the share in the table, relatively."""
    totals = published(layers)
    shares = zip(largest_shares(layers), totals.tolist(), strict=True)
    return max(share * Fraction(int(totals.sum()), n) for share, n in shares if n) - 1


def test_table_8_is_attained() -> None:
    counts = np.array([6, 7, 12])
    layers = filled(counts, 5, ceilings(counts, Fraction(2, 3)))
    assert layers is not None
    assert attained_beta(layers) == Fraction(2, 3)


def test_zero_likeness_needs_pure_buckets() -> None:
    counts = np.array([6, 9, 12])
    layers = likeness_layers(counts, ceilings(counts, Fraction(0)))
    (pure,) = layers
    assert (pure.size, pure.number) == (3, 9)
    assert (pure.spread == [2, 3, 4]).all()
    assert attained_beta(layers) == 0


def test_diversity_serves_likeness_where_it_can() -> None:
    """Errata H17: an integer l in [1/((1+beta) f_min), 1/f_max] gives far fewer matches."""
    counts = np.array([100, 110, 120, 130])
    short = likeness_layers(counts, ceilings(counts, Fraction(1)))
    assert all(layer.number <= 4 for layer in short)
    assert attained_beta(short) <= 1


def test_census_sizes() -> None:
    found = likeness_layers(OCCUPATIONS, ceilings(OCCUPATIONS, Fraction(3)))
    assert sum(layer.size for layer in found) == 70
    check_layers(found, OCCUPATIONS)
    whole = diversity_layers(OCCUPATIONS, 10)
    assert all((layer.spread <= 1).all() for layer in whole)
    assert whole[0].size >= 990  # nearly everybody has the same layer


def keeps_diversity(layers: Layers, counts: np.ndarray, number: int) -> None:
    check_layers(layers, counts)
    assert all(layer.number >= number for layer in layers)
    assert all((layer.spread <= 1).all() for layer in layers)
    assert max(largest_shares(layers)) <= Fraction(1, number)


counts_strategy = st.lists(st.integers(1, 60), min_size=2, max_size=14).map(np.array)


@given(counts_strategy, st.integers(2, 8))
@settings(max_examples=100, deadline=None)
def test_every_eligible_histogram_is_dealt_whole(counts: np.ndarray, number: int) -> None:
    number = min(number, int(counts.sum() // counts.max()))  # the largest l that can be kept
    if number < 2:
        return
    keeps_diversity(diversity_layers(counts, number), counts, number)
    keeps_diversity(straight_layers(counts, number), counts, number)


@given(counts_strategy, st.integers(2, 8), st.randoms())
@settings(max_examples=100, deadline=None)
def test_a_layer_leaves_an_eligible_rest(counts: np.ndarray, number: int, random: object) -> None:
    if counts.max() > counts.sum() // number or len(counts) < number:
        return
    codes = list(range(len(counts)))
    random.shuffle(codes)  # type: ignore[attr-defined]
    groups = [codes[k::number] for k in range(number)]
    layer = packed(counts, groups)
    if layer is None:
        return
    left = counts - layer.counts.sum(axis=0)
    assert (left >= 0).all()
    assert left.max() <= left.sum() // number
    # one place more would not do: checked by brute force over how the buckets could give
    places = layer.size + 1
    most = int(counts.sum()) // number - places
    fits = all(
        places <= counts[g].sum() <= places + np.minimum(counts[g], most).sum() for g in groups
    )
    assert not fits


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_leveled_takes_as_little_as_possible_of_one_value(counts: list[int], total: int) -> None:
    if total > sum(counts):
        return
    taken = leveled(np.array(counts), total)
    assert taken.sum() == total
    assert (taken <= counts).all()
    assert sum(min(count, int(taken.max()) - 1) for count in counts) < max(total, 1)


@given(counts_strategy, st.fractions(Fraction(1, 10), 6, max_denominator=10))
@settings(max_examples=120, deadline=None)
def test_likeness_layers_keep_beta_exactly(counts: np.ndarray, beta: Fraction) -> None:
    layers = likeness_layers(counts, ceilings(counts, beta))
    check_layers(layers, counts)
    rows = int(counts.sum())
    for layer in layers:
        for spread, count in zip(layer.spread.tolist(), counts.tolist(), strict=True):
            assert Fraction(spread, layer.number) <= (1 + beta) * Fraction(count, rows)


@given(counts_strategy, st.integers(2, 40), st.fractions(0, 5, max_denominator=10))
@settings(max_examples=80, deadline=None)
def test_a_fill_says_the_truth(counts: np.ndarray, size: int, beta: Fraction) -> None:
    layers = filled(counts, size, ceilings(counts, beta)) if size <= counts.sum() else None
    if layers is not None:
        check_layers(layers, counts)
        limits = ceilings(counts, beta)
        assert all(s <= c for s, c in zip(largest_shares(layers), limits, strict=True))


def test_shares_are_the_largest_of_any_layer() -> None:
    layers = Buckets(np.array([[4, 0], [0, 4]])), Buckets(np.array([[2, 0], [2, 0], [0, 2]]))
    assert largest_shares(layers) == [Fraction(2, 3), Fraction(1, 2)]
    assert attained_beta(layers) == Fraction(2, 3) / Fraction(8, 14) - 1
