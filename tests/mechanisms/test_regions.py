"""Regions that are published each by itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.draws import Draws
from sfumato.mechanisms.heterogeneous.blocks import halves
from sfumato.mechanisms.heterogeneous.buckets import check_layers, largest_shares
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, SetAxis
from sfumato.mechanisms.heterogeneous.packing import even_groups, stretches
from sfumato.mechanisms.heterogeneous.regions import Diversity, Likeness, Promise, Region, regions

VALUES = 32


def people(rows: int, linked: float, seed: int = 0) -> tuple[list[Axis], np.ndarray]:
    """Values 0 … 14 belong to women, the others to men, as strictly as `linked` says."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, VALUES, rows)
    own = rng.random(rows) < linked
    sex = np.where(own, codes < VALUES // 2, rng.integers(0, 2, rows)).astype(np.int64)
    axes: list[Axis] = [
        NumericAxis("age", rng.integers(0, 60, rows), np.arange(60), 59),
        SetAxis("sex", sex, 2, 1),
    ]
    return axes, codes


def check(found: list[Region], codes: np.ndarray, ceilings: list[Fraction]) -> None:
    together = np.concatenate([region.records for region in found])
    assert sorted(together.tolist()) == list(range(len(codes)))  # everybody, once
    for region in found:
        counts = np.bincount(codes[region.records], minlength=VALUES)
        check_layers(region.layers, counts)
        shares = largest_shares(region.layers)
        assert all(share <= ceiling for share, ceiling in zip(shares, ceilings, strict=True))


@pytest.mark.parametrize("linked", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_region_keeps_diversity(linked: float, seed: int) -> None:
    axes, codes = people(9000, linked, seed)
    found = regions(
        axes, codes, VALUES, Diversity((Fraction(1, 8),) * VALUES), Draws.from_seed(seed)
    )
    check(found, codes, [Fraction(1, 8)] * VALUES)
    assert len(found) > 3


@pytest.mark.parametrize("linked", [0.0, 0.8])
def test_every_region_keeps_likeness(linked: float) -> None:
    axes, codes = people(2500, linked)
    counts = np.bincount(codes, minlength=VALUES)
    ceilings = [3 * Fraction(int(count), 2500) for count in counts]
    found = regions(axes, codes, VALUES, Likeness(tuple(ceilings)), Draws.from_seed(1))
    check(found, codes, ceilings)


def test_where_to_cut_depends_on_quasi_values_alone() -> None:
    """Other sensitive values that allow every cut lead to the same regions."""
    axes, codes = people(6000, 0.0)
    other = np.random.default_rng(9).permutation(codes)
    cut = [
        sorted(
            sorted(region.records.tolist())
            for region in regions(
                axes, each, VALUES, Diversity((Fraction(1, 4),) * VALUES), Draws.from_seed(1)
            )
        )
        for each in (codes, other)
    ]
    assert cut[0] == cut[1]
    assert len(cut[0]) > 8


def test_halves_are_cut_between_two_values() -> None:
    axes, _ = people(500, 0.0)
    for seed in range(5):
        records = np.random.default_rng(seed).choice(500, 300, replace=False)
        found = halves(records, axes, 20)
        assert found is not None
        assert min(len(side) for side in found) >= 20
        assert sorted(np.concatenate(found).tolist()) == sorted(records.tolist())
        apart = [
            set(axis.codes[found[0]].tolist()).isdisjoint(axis.codes[found[1]].tolist())
            for axis in axes
        ]
        assert any(apart)
    assert halves(np.arange(30), axes, 16) is None


class _Stubborn(Promise):
    """Allows nothing: the table stays whole."""

    matches, places = 2, 2

    def allowed(self, counts: np.ndarray, use: Fraction) -> bool:
        return False

    def layers(self, counts: np.ndarray) -> tuple[()]:
        return ()


def test_a_table_that_cannot_be_cut_stays_whole() -> None:
    axes, codes = people(200, 0.0)
    (whole,) = regions(
        axes, codes, VALUES, _Stubborn((Fraction(1, 4),) * VALUES), Draws.from_seed(1)
    )
    assert sorted(whole.records.tolist()) == list(range(200))


@given(st.lists(st.integers(0, 80), min_size=2, max_size=20).map(np.array), st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_groups_hold_every_value_that_occurs_once(counts: np.ndarray, number: int) -> None:
    if not counts.any():
        return
    groups = even_groups(stretches(counts, number), number, Draws.from_seed(1))
    assert len(groups) == number
    assert sorted(code for group in groups for code in group) == np.flatnonzero(counts).tolist()


def test_groups_are_as_even_as_brute_force_finds_them() -> None:
    rng = np.random.default_rng(4)
    ours, best = [], []
    for seed in range(12):
        counts = rng.integers(1, 40, (8, 2))
        groups = even_groups(counts, 2, Draws.from_seed(seed), 40)
        sums = np.array([counts[group].sum(axis=0) for group in groups])
        ours.append(int(np.abs(sums[0] - sums[1]).sum()))
        ways = (np.arange(256)[:, None] >> np.arange(8)) & 1
        best.append(int(np.abs(ways @ counts * 2 - counts.sum(axis=0)).sum(axis=1).min()))
    assert ours == best
