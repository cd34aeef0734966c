"""No matching of a small table can show less than the lower bound says."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.heterogeneous.bound import least_penalty
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, SetAxis


def penalty(axes: list[Axis], row: tuple[int, ...]) -> Fraction:
    total = Fraction(0)
    for axis in axes:
        codes = axis.codes[list(row)].tolist()
        width = max(codes) - min(codes) if axis.name == "age" else len(set(codes)) - 1
        total += Fraction(width, axis.denominator)
    return total


def test_the_best_of_all_match_graphs_is_above_the_bound() -> None:
    """Every way to give six people a row with two or three different values each, themselves in it:
    less than any release needs, which must use everybody equally often."""
    rng = np.random.default_rng(5)
    for number in (2, 3):
        for _ in range(10):
            codes = rng.permutation([0, 0, 1, 1, 2, 2])
            axes: list[Axis] = [
                NumericAxis("age", rng.integers(0, 20, 6), np.arange(20), 19),
                SetAxis("sex", rng.integers(0, 2, 6), 2, 1),
            ]
            rows = [
                row
                for row in itertools.combinations(range(6), number)
                if len({int(codes[r]) for r in row}) == number
            ]
            least = sum(min(penalty(axes, row) for row in rows if who in row) for who in range(6))
            bound = least_penalty(axes, codes, [Fraction(1, number)] * 3)
            assert bound <= float(least / (2 * 6)) + 1e-12
            if number == 2:  # a pair is as far apart as its distance: nothing is lost
                assert np.isclose(bound, float(least / (2 * 6)))
