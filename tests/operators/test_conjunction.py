"""Conditions on several columns of ranges and sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.operators.conjunction import (
    both,
    conjunction,
    log_odds_between,
    multiplied,
    pairs_off,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_no_share_is_beyond_what_its_conditions_allow(
    seed: int, columns: int, grouped: bool
) -> None:
    draw = np.random.default_rng(seed)
    shares = [np.clip(draw.normal(0.5, 0.6, 40), 0.0, 1.0) for _ in range(columns)]
    found = conjunction(shares, 40, grouped=grouped)
    assert (found <= np.min(shares, axis=0) + 1e-9).all()
    assert (found >= np.sum(shares, axis=0) - (columns - 1) - 1e-9).all()
    assert (found >= 0).all()


@pytest.mark.parametrize("log_odds", [-3.0, -0.5, 0.0, 1.0, 4.0])
def test_pairs_have_the_odds_ratio_that_they_are_given(log_odds: float) -> None:
    draw = np.random.default_rng(1)
    a, b = draw.uniform(0.05, 0.95, (2, 100))
    p = both(a, b, log_odds)
    assert np.log(p * (1 - a - b + p) / ((a - p) * (b - p))) == pytest.approx(log_odds, abs=1e-5)


def test_columns_that_hang_together_are_read_together() -> None:
    """4,000 people with two columns that agree for 80 %, in rows of 8 neighbours."""
    draw = np.random.default_rng(2)
    place = np.sort(draw.normal(size=4000))
    first = place + draw.normal(size=4000) > 0
    second = np.where(draw.random(4000) < 0.7, first, place + draw.normal(size=4000) > 0)
    a, b = (each.reshape(-1, 8).mean(axis=1) for each in (first, second))
    true = (first & second).sum()
    apart, together = (8 * conjunction([a, b], 500, grouped=each).sum() for each in (True, False))
    assert apart == pytest.approx(8 * (a * b).sum())
    assert log_odds_between(a, b) > 1
    assert abs(together - true) < 0.5 * abs(apart - true)


def test_a_pair_is_off_by_what_a_unit_of_log_odds_moves() -> None:
    draw = np.random.default_rng(3)
    a, b = np.full((2, 300), 0.4)
    step = 1e-3
    moved = (both(a, b, step) - both(a, b, -step)).sum() / (2 * step)
    assert pairs_off([a, b], 300) == pytest.approx(moved**2, rel=1e-3)
    certain = (draw.random(300) < 0.5).astype(np.float64)
    # one column is certain: only its records may have other shares of the other
    spread = float((a * (1 - a)).sum()) * certain.mean() * (1 - certain.mean())
    assert pairs_off([a, certain], 300) == pytest.approx(spread**2)
    assert pairs_off([certain, 1 - certain], 300) == 0.0
    assert pairs_off([a], 300) == 0.0
    assert multiplied([], 3).tolist() == [1.0, 1.0, 1.0]
