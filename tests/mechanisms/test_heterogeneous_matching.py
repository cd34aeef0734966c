"""Matching, NCP, blocks and sweeps against brute force and against their definitions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from papers.heterogeneous.matchers import penalties
from sfumato.mechanisms.generalized import SetCover, covers_of
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, Scale, SetAxis
from sfumato.mechanisms.heterogeneous.sweeps import Matching, hungarian


def make_axes(rows: int, seed: int = 0) -> list[Axis]:
    rng = np.random.default_rng(seed)
    return [
        NumericAxis("age", rng.integers(0, 40, rows), np.arange(40), 39),
        SetAxis("city", rng.integers(0, 5, rows), 5, 4),
        SetAxis("sex", rng.integers(0, 2, rows), 2, 1),
    ]


def test_growth_is_the_difference_of_sizes() -> None:
    rng = np.random.default_rng(5)
    axes: list[Axis] = [
        NumericAxis("n", np.zeros(1, int), np.array([0, 2, 3, 7, 11]), 11),
        SetAxis("c", np.zeros(1, int), 5, 4),
    ]
    axes.append(SetAxis("many", np.zeros(1, int), 200, 199))
    for axis in axes:
        classes, rows = 3, 20
        cover = axis.single(rng.integers(0, axis.values, (classes, rows)))
        codes = np.array([rng.permutation(axis.values) for _ in range(classes)])
        for _ in range(3):
            growth = axis.growth(cover, codes)
            for index in range(axis.values):
                one = axis.single(np.repeat(codes[:, [index]], rows, axis=1))
                wider = axis.join(cover, one)
                assert (growth[:, index] == axis.size(wider) - axis.size(cover)).all()
            cover = axis.join(cover, axis.single(rng.integers(0, axis.values, (classes, rows))))


def test_scale_is_exact_for_census_and_bounded_otherwise() -> None:
    scale = Scale.of([78, 1, 16, 5, 8, 9, 82])
    assert scale.whole == 383_760
    assert all(unit * d == scale.whole for unit, d in zip(scale.units, [78, 1, 16], strict=False))
    assert Scale.of([10**9 + 7, 10**9 + 9]).whole <= 1 << 36


def test_blocks_hold_equally_many_of_every_bucket() -> None:
    axes = make_axes(900)
    records = np.random.default_rng(6).permutation(900).reshape(6, 150)
    blocks = split(records, axes, 40)
    assert all(block.shape[0] == 6 and block.shape[1] <= 40 for block in blocks)
    for bucket in range(6):
        together = np.concatenate([block[bucket] for block in blocks])
        assert sorted(together.tolist()) == sorted(records[bucket].tolist())


@pytest.mark.parametrize("most", [99, 16])
def test_match_graph_is_regular(most: int) -> None:
    axes = make_axes(200)
    records = np.arange(200).reshape(4, 50)
    members = Matching(axes).members(records, most)
    for class_ in range(4):
        for bucket in range(4):
            assert sorted(members[class_, :, bucket].tolist()) == records[bucket].tolist()
    assert (np.bincount(members.ravel()) == 4).all()


def penalty(axes: list[Axis], row: list[int]) -> Fraction:
    """NCP of a row, from its definition."""
    total = Fraction(0)
    for axis in axes:
        codes = axis.codes[row].tolist()
        width = max(codes) - min(codes) if axis.name == "age" else len(set(codes)) - 1
        total += Fraction(width, axis.denominator)
    return total


def test_a_round_costs_as_little_as_possible() -> None:
    """The first round of every class, against all permutations and penalties by definition."""
    for seed in range(5):
        axes = make_axes(20, seed)
        records = np.random.default_rng(seed).permutation(20).reshape(4, 5)
        members = Matching(axes, hungarian, 0).members(records, 99)
        for start in range(4):
            bucket = (start + 1) % 4
            found = members[start][:, [start, bucket]].tolist()
            least = min(
                sum(
                    penalty(axes, [one, other])
                    for one, other in zip(records[start], order, strict=True)
                )
                for order in itertools.permutations(records[bucket].tolist())
            )
            assert sum(penalty(axes, row) for row in found) == least


def test_sweeps_never_make_ranges_wider() -> None:
    axes = make_axes(400)
    records = np.random.default_rng(7).permutation(400).reshape(5, 80)
    scale = Scale.of([axis.denominator for axis in axes])
    totals = []
    for sweeps in (0, 1, 3):
        members = Matching(axes, hungarian, sweeps).members(records, 30)
        units = penalties(axes, covers_of(axes, [members.reshape(-1, 5)]))
        totals.append(sum(u * s for u, s in zip(units, scale.units, strict=True)))
    assert totals[0] > totals[1] >= totals[2]


def test_sets_hold_each_value_once() -> None:
    axis = SetAxis("c", np.array([3, 1, 1, 0]), 4, 3)
    (cover,) = covers_of([axis], [np.array([[0, 1, 2], [1, 2, 2], [0, 1, 3]])])
    assert isinstance(cover, SetCover)
    assert cover.codes.tolist() == [1, 3, 1, 0, 1, 3]
    assert cover.starts.tolist() == [0, 2, 3, 6]
    assert penalties([axis], [cover]) == [3]
