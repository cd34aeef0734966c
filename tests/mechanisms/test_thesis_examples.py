"""Examples of the perturbation thesis, corrected (errata T2, T15)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from papers.perturbation.chapter4 import reverse_cuthill_mckee
from sfumato.draws import Draws
from sfumato.guarantees import FineRhoPrivacy, RhoPrivacy
from sfumato.mechanisms.fine_grain import FineGrainPerturbation, best_for_records
from sfumato.mechanisms.partitioned import PartitionedPerturbation
from sfumato.mechanisms.partitioning.balance import balanced_groups
from sfumato.mechanisms.partitioning.merge import best_merging, error_bound, part_gamma
from sfumato.mechanisms.uniform import UniformPerturbation
from sfumato.operators import Uniform
from sfumato.profile import Histogram, Profile

DRAWS = Draws.from_seed(1)
RUNNING = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])  # Figure 9
ALL = np.ones(10, np.bool_)
THIRD = Fraction(2, 3)


def profile(counts: np.ndarray) -> Profile:
    values = tuple(f"x{k + 1}" for k in range(len(counts)))
    return Profile(int(counts.sum()), {"s": Histogram("s", values, counts)})


def test_example_2_uniform_operator() -> None:
    plan = UniformPerturbation().plan(profile(np.array([2, 2, 6])), RhoPrivacy("1/5", "1/4"), DRAWS)
    assert RhoPrivacy("1/5", "1/4").gamma == Fraction(4, 3)
    assert plan.operators["s"].matrix() == pytest.approx(0.3 + 0.1 * np.eye(3))


def test_example_6_balancing() -> None:
    assert balanced_groups(RUNNING, ALL).tolist() == [
        [6, 6, 6, 0, 0, 0, 0, 0, 0, 0],
        [4, 0, 0, 4, 4, 0, 0, 0, 0, 0],
        [2, 2, 0, 0, 0, 2, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
    ]


def test_example_7_balancing_a_proper_subset() -> None:
    covered = ALL.copy()
    covered[0] = False
    assert balanced_groups(RUNNING, covered).tolist() == [
        [6, 5, 5, 5, 0, 0, 0, 0, 0, 0],
        [3, 3, 0, 0, 3, 3, 0, 0, 0, 0],
        [1, 0, 1, 0, 1, 0, 1, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 0, 1, 1, 1],
    ]


def test_example_9_merging() -> None:
    groups = balanced_groups(RUNNING, ALL)
    merging = best_merging(groups, ALL, THIRD, [reverse_cuthill_mckee(groups)])
    assert merging.parts == ((0, 2, 1), (3, 4))
    assert merging.bound == pytest.approx(2.0196, abs=5e-5)
    # T2: the whole table by the same rule has gamma 5 and 2.0745; 2.57 comes from gamma 4
    assert error_bound(42, 10, float(part_gamma(12, 42, THIRD))) == pytest.approx(2.0745, abs=5e-5)
    assert error_bound(42, 10, 4.0) == pytest.approx(2.57, abs=5e-3)


def test_examples_4_to_9_as_a_plan() -> None:
    plan = PartitionedPerturbation().plan(profile(RUNNING), RhoPrivacy("1/3", "2/3"), DRAWS)
    plan.check()
    cut = plan.columns["s"]
    assert cut.quotas.tolist() == [
        [12, 8, 6, 4, 4, 2, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 1, 1, 1, 1, 1],
    ]
    assert [float(part.operator.amplification()) for part in cut.operator.parts] == pytest.approx(
        [4, 10]
    )


def test_examples_10_and_11_fine_grain() -> None:
    sick = profile(np.array([4, 4, 3, 2, 1]))
    promise = FineRhoPrivacy(theta=3)
    # T15: gamma of AIDS is 6 3/5
    assert promise.odds_limits(sick.histograms["s"]) == [
        15,
        15,
        Fraction(33, 5),
        Fraction(9, 2),
        Fraction(39, 11),
    ]
    # planning rounds the limits that follow from shares down to six binary digits
    plan = FineGrainPerturbation().plan(sick, promise, DRAWS)
    plan.check()
    matrix = plan.operators["s"].matrix()
    assert np.diag(matrix) == pytest.approx([0.624, 0.624, 0.624, 0.424, 0.336], abs=5e-3)
    assert matrix[0, 1] == pytest.approx(0.094, abs=2e-3)
    assert sick.histograms["s"].counts @ np.diag(matrix) / 14 == pytest.approx(0.57, abs=5e-3)
    # the thesis lets the strictest limit decide; ours follows from theta, whatever the counts
    thesis = Uniform.for_amplification(5, Fraction(39, 11)).matrix()
    assert thesis[0, 0] == pytest.approx(0.47, abs=5e-3)
    uniform = UniformPerturbation().plan(sick, promise, DRAWS)
    assert uniform.operators["s"] == Uniform.for_amplification(5, Fraction(3))


def test_example_11_odds_fall_further_than_theorem_7_says() -> None:
    """Seeing "HD" divides the odds of H1N1 by more than its gamma: a downward breach."""
    sick, promise = profile(np.array([4, 4, 3, 2, 1])), FineRhoPrivacy(theta=Fraction(3))
    exact = promise.odds_limits(sick.histograms["s"])
    matrix = best_for_records(exact, np.array([4, 4, 3, 2, 1]) / 14, Fraction(0)).matrix()
    assert np.diag(matrix) == pytest.approx([0.624, 0.624, 0.624, 0.424, 0.336], abs=2e-3)
    assert matrix[0, 0] / matrix[4, 0] > 39 / 11
    odds = Fraction(3, 14) / (1 - Fraction(3, 14)) / Fraction(matrix[0, 0] / matrix[4, 0])
    assert odds / (1 + odds) < Fraction(1, 14)  # rho2 before, below rho1 after
