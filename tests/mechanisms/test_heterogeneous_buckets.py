"""Buckets for l-diversity and beta-likeness: the paper's tables, and every invariant."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.mechanisms.heterogeneous.buckets import (
    Buckets,
    descending_fill,
    diversity_buckets,
    diversity_fill,
    equation_7,
    frequent_split_fill,
    likeness_buckets,
    likeness_fill,
    whole_packing,
    withhold,
)

# fmt: off
OCCUPATIONS = np.array([
    538, 396, 295, 146, 206, 212, 78, 196, 56, 53, 285, 399, 45, 108, 78, 246, 54, 64, 265, 168,
    316, 380, 90, 714, 361, 293, 188, 144, 290, 190, 104, 535, 146, 39, 18, 161, 321, 44, 226,
    62, 171, 154, 41, 170, 151, 469, 35, 35, 238, 26,
])
# fmt: on


def test_table_4_five_buckets() -> None:
    filled = diversity_fill(np.array([3, 3, 3, 2, 2, 2]), 5)
    assert filled.tolist() == [
        [3, 0, 0, 0, 0, 0],
        [0, 3, 0, 0, 0, 0],
        [0, 0, 3, 0, 0, 0],
        [0, 0, 0, 2, 0, 1],
        [0, 0, 0, 0, 2, 1],
    ]


@pytest.mark.parametrize(
    ("size", "beta"), [(4, Fraction(5, 7)), (5, Fraction(2, 3)), (6, Fraction(5, 7))]
)
def test_tables_7_to_9_attain_the_worked_beta(size: int, beta: Fraction) -> None:
    assert equation_7(np.array([6, 7, 12]), size) == beta


def test_table_8_bucket_by_bucket() -> None:
    filled = likeness_fill(np.array([6, 7, 12]), 5)
    assert filled is not None
    assert filled.counts.tolist() == [[5, 0, 0], [1, 4, 0], [0, 3, 2], [0, 0, 5], [0, 0, 5]]
    assert filled.attained_beta() == Fraction(2, 3)


def test_no_ceiling_is_taken() -> None:
    """Errata H10: Algorithm 3's ceiling would call the buckets of Table 7 a beta of 1/3."""
    ceiled = Fraction(4, min(-(-6 // 2), -(-7 // 3), -(-12 // 4))) - 1
    assert ceiled == Fraction(1, 3) < equation_7(np.array([6, 7, 12]), 4)


def test_the_order_matters() -> None:
    """Errata H12: ascending order is what the paper's tables come from."""
    assert equation_7(np.array([12, 7, 6]), 4) == 1


def test_zero_likeness_needs_pure_buckets() -> None:
    pure = likeness_buckets(np.array([6, 9, 12]), Fraction(0))
    assert (pure.size, pure.number) == (3, 9)
    assert (pure.spread == [2, 3, 4]).all()
    assert pure.attained_beta() == 0


def test_diversity_serves_likeness_where_it_can() -> None:
    """Errata H17: an integer l in [1/((1+beta) f_min), 1/f_max] gives far fewer matches."""
    counts = np.array([100, 110, 120, 130])
    short = likeness_buckets(counts, Fraction(1))
    assert short.number <= 4
    assert short.attained_beta() <= 1


def test_census_sizes() -> None:
    found = likeness_buckets(OCCUPATIONS, Fraction(3))
    assert found.size == 70
    whole = diversity_buckets(OCCUPATIONS, 10)
    assert (whole.spread == 1).all()
    assert whole.withheld.sum() <= 50


counts_strategy = st.lists(st.integers(1, 60), min_size=2, max_size=14).map(np.array)


@given(counts_strategy, st.integers(2, 8))
@settings(max_examples=120, deadline=None)
def test_diversity_buckets_are_equal_and_complete(counts: np.ndarray, number: int) -> None:
    if counts.max() > counts.sum() // number:
        return
    for buckets in (diversity_buckets(counts, number), whole_packing(counts, number)):
        if buckets is None:
            continue
        buckets.check()
        assert (buckets.counts.sum(axis=0) + buckets.withheld == counts).all()
        assert buckets.number == number
    filled = diversity_fill(counts - withhold(counts, int(counts.sum()) % number), number)
    assert (filled.sum(axis=1) == filled[0].sum()).all()


@given(counts_strategy, st.fractions(Fraction(1, 10), 6, max_denominator=10))
@settings(max_examples=120, deadline=None)
def test_likeness_buckets_keep_beta_exactly(counts: np.ndarray, beta: Fraction) -> None:
    buckets = likeness_buckets(counts, beta)
    buckets.check()
    assert (buckets.counts.sum(axis=0) + buckets.withheld == counts).all()
    rows, kept = int(counts.sum()), int(buckets.counts.sum())
    for spread, before, after in zip(
        buckets.spread.tolist(), counts.tolist(), buckets.counts.sum(axis=0).tolist(), strict=True
    ):
        share = Fraction(spread, buckets.number)
        assert share <= (1 + beta) * Fraction(before, rows)
        assert share <= (1 + beta) * Fraction(after, kept)


@given(counts_strategy, st.integers(2, 40), st.fractions(0, 5, max_denominator=10))
@settings(max_examples=80, deadline=None)
def test_every_fill_says_the_truth(counts: np.ndarray, size: int, beta: Fraction) -> None:
    if size > counts.sum():
        return
    for fill in (likeness_fill, descending_fill, frequent_split_fill):
        buckets = fill(counts, size, beta)
        if buckets is not None:
            buckets.check()
            assert buckets.attained_beta() <= beta


def test_withheld_records_come_from_the_commonest() -> None:
    assert withhold(np.array([5, 9, 8]), 5).tolist() == [0, 3, 2]


def test_attained_beta_looks_at_both_histograms() -> None:
    """Withholding moves shares: neither the table's nor the release's may be exceeded."""
    buckets = Buckets(np.array([[4, 0], [0, 4]]), np.array([0, 8]))
    assert buckets.attained_beta() == Fraction(1, 2) / Fraction(4, 16) - 1
