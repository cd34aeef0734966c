"""The parametric fine-grain solver against HiGHS, and its exact rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.mechanisms.retentions import (
    TopRetention,
    as_floats,
    best_top,
    drawable,
    retentions,
    uniform_retention,
)
from sfumato.operators import FineGrain
from sfumato.operators.base import DYADIC


def linear_program(gammas, weights, p_min: float) -> float:
    """The thesis's LP with its m(m−1) rows (Figure 23)."""
    m = len(gammas)
    rows, limits = [], []
    for i, gamma in enumerate(gammas):
        for j in range(m):
            if gamma is not None and i != j:
                row = np.zeros(m)
                row[i], row[j] = (m - 1) / float(gamma), 1.0
                rows.append(row)
                limits.append(1 - 1 / float(gamma))
    solved = linprog(
        -np.asarray(weights),
        A_ub=np.array(rows) if rows else None,
        b_ub=limits or None,
        bounds=[(p_min, 1)] * m,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solved.status == 0, solved.message
    return float(-solved.fun)


def random_instance(rng: np.random.Generator):
    """Ties, unconstrained values, extreme weights and every p_min up to the uniform retention."""
    m = int(rng.integers(2, 13))
    spread = float(rng.choice([2.0, 20.0, 400.0]))
    gammas = [Fraction(int(rng.integers(101, 101 + 100 * spread)), 100) for _ in range(m)]
    if rng.random() < 0.4:  # ties
        gammas = [gammas[int(k)] for k in rng.integers(0, max(m // 2, 1), m)]
    if rng.random() < 0.4:
        gammas = [None if rng.random() < 0.3 else gamma for gamma in gammas]
    if rng.random() < 0.5:
        weights = rng.random(m)
    else:
        weights = 10.0 ** rng.uniform(-4, 2, m)
    if rng.random() < 0.2:
        weights[rng.integers(0, m)] = 0.0
    share = Fraction(int(rng.choice([0, 0, 1, 5, 10])), 10)
    return gammas, weights / weights.sum(), share * uniform_retention(gammas)


@pytest.mark.slow
def test_parametric_optimum_is_the_linear_programs() -> None:
    rng = np.random.default_rng(20261115)
    alone = 0
    for _ in range(2000):
        gammas, weights, p_min = random_instance(rng)
        floats = as_floats(gammas)
        top = best_top(floats, weights, float(p_min))
        p = retentions(floats, top.value, np.array([top.retention]))[0]
        assert p.min() >= float(p_min) - 1e-12
        reached = float(weights @ p)
        assert reached == pytest.approx(linear_program(gammas, weights, float(p_min)), abs=1e-9)
        alone += top.value != int(np.argmax(floats))
    assert alone > 20  # the second regime is exercised, not only the common family


def test_rounded_solution_keeps_every_limit_exactly() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        gammas, weights, p_min = random_instance(rng)
        floats = as_floats(gammas)
        top = best_top(floats, weights, float(p_min))
        kept = drawable(gammas, top, p_min)
        m, p = len(gammas), [Fraction(k, DYADIC) for k in kept]
        for i, gamma in enumerate(gammas):
            for j in range(m):
                if gamma is not None and i != j:
                    assert (m - 1) * p[i] + gamma * p[j] <= gamma - 1
        assert min(p) >= Fraction(int(p_min * DYADIC), DYADIC)
        loss = float(weights @ retentions(floats, top.value, np.array([top.retention]))[0]) - float(
            weights @ np.array(kept) / DYADIC
        )
        assert -1e-9 <= loss < 1e-5
        if all(gamma is not None for gamma in gammas):
            for gain, gamma in zip(FineGrain.of_numerators(kept).odds_gains(), gammas, strict=True):
                assert gamma is not None
                assert gain <= gamma


def test_no_limits_keep_everything() -> None:
    top = best_top(np.array([np.inf, np.inf]), np.array([0.5, 0.5]), 0.0)
    assert top.retention == 1.0
    assert drawable([None, None], top, Fraction(0)) == (DYADIC, DYADIC)


def test_a_value_may_stand_alone_above_the_others() -> None:
    # all the weight on one value whose limit is not the loosest
    gammas = np.array([3.0, 9.0, 9.0])
    top = best_top(gammas, np.array([1.0, 0.0, 0.0]), 0.0)
    assert top.value == 0
    assert linear_program([Fraction(3), Fraction(9), Fraction(9)], [1, 0, 0], 0.0) == (
        pytest.approx(top.retention, abs=1e-9)
    )


def test_tops_beyond_reach_step_down_to_p_min() -> None:
    gammas = [Fraction(2), Fraction(3)]
    kept = drawable(gammas, TopRetention(1, 0.5), uniform_retention(gammas) / 2)
    assert min(kept) >= int(uniform_retention(gammas) / 2 * DYADIC)
