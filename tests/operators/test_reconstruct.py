"""Most likely and nearest possible counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from sfumato.operators import FineGrain, Parts, SubTable, Uniform
from sfumato.operators.base import DYADIC
from sfumato.operators.reconstruct import most_likely


def loglikelihood(counts: np.ndarray, shown: np.ndarray, matrix: np.ndarray) -> float:
    expected = counts @ matrix / counts.sum()
    return float(np.sum(shown * np.log(np.maximum(expected, 1e-300))))


def test_inside_the_simplex_it_is_the_inverse() -> None:
    """Errata T16: P⁻¹o is the maximum likelihood only where it is a possible table."""
    operator = FineGrain(tuple(int(p * DYADIC) for p in (0.5, 0.3, 0.4)))
    shown = operator.push(np.array([500.0, 300.0, 200.0]))
    found = most_likely(shown[None], [operator])
    assert found.converged
    assert found.counts[0] == pytest.approx([500, 300, 200], abs=0.5)


def test_outside_the_simplex_it_is_the_constrained_maximum() -> None:
    rng = np.random.default_rng(2)
    operator = Uniform(5, Fraction(1, 8))
    for _ in range(20):
        shown = rng.integers(5, 60, 5).astype(float)
        found = most_likely(shown[None], [operator])
        solved = minimize(
            lambda n, shown=shown: -loglikelihood(np.abs(n) + 1e-12, shown, operator.matrix()),
            found.counts[0] + 1.0,
            method="SLSQP",
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda n, shown=shown: n.sum() - shown.sum()},
        )
        ours = loglikelihood(found.counts[0], shown, operator.matrix())
        assert found.converged
        assert ours >= -solved.fun - 1e-4
        assert found.counts[0].sum() == pytest.approx(shown.sum())
        assert found.counts.min() >= 0


def test_questions_do_not_disturb_each_other() -> None:
    operator = Uniform(4, Fraction(1, 5))
    shown = np.array([[40.0, 30, 20, 10], [0, 0, 0, 0], [100, 1, 1, 1]])
    together = most_likely(shown, [operator]).counts
    alone = np.concatenate([most_likely(row[None], [operator]).counts for row in shown])
    assert together == pytest.approx(alone, abs=1e-6)
    assert together[1].tolist() == [0, 0, 0, 0]


def test_two_columns_at_once() -> None:
    first, second = Uniform(3, Fraction(1, 2)), FineGrain((DYADIC // 2, DYADIC // 3))
    true = np.array([[40.0, 10.0], [20.0, 30.0], [5.0, 95.0]])
    shown = first.matrix().T @ true @ second.matrix()
    found = most_likely(shown[None], [first, second])
    assert found.counts[0] == pytest.approx(true, abs=0.5)


def test_parts_keep_their_sizes() -> None:
    half = Uniform(2, Fraction(1, 4))
    parts = Parts(3, (SubTable((0, 1), half), SubTable((0, 2), half)))
    shown = np.array([[30.0, 70.0, 10.0, 5.0]])
    found = most_likely(shown, [parts]).counts[0]
    assert found[:2].sum() == pytest.approx(100, abs=1e-3)
    assert found[2:].sum() == pytest.approx(15, abs=1e-3)
