"""Any matrix under the limits: exact limits, exact draws, the inverse written down."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from papers.perturbation.general import General, best_general, exact_operator, total_variance
from sfumato.draws import Draws, Positions
from sfumato.errors import SingularOperator
from sfumato.guarantees import FineRhoPrivacy
from sfumato.mechanisms.fine_grain import best_for_counts
from sfumato.mechanisms.perturbed import within
from sfumato.mechanisms.retentions import uniform_retention
from sfumato.operators import FineGrain
from sfumato.operators.base import DYADIC
from sfumato.profile import Histogram

HALF = DYADIC // 2


def largest_fall(operator: General, x: int) -> Fraction:
    """The largest P[x', y] / P[x, y]: how far a published value lowers the odds of x."""
    return max(Fraction(max(column), column[x]) for column in zip(*operator.rows, strict=True))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("counts", [(60, 25, 11, 2, 2), (4, 4, 3, 2, 1), (30, 5, 5, 5, 5, 2)])
def test_both_limits_are_kept_exactly(counts: tuple[int, ...], both: bool) -> None:
    histogram = Histogram("s", tuple(range(len(counts))), np.array(counts))
    gammas = FineRhoPrivacy(theta=3 if max(counts) < 10 else 15).odds_limits(histogram)
    floats = np.array(counts, np.float64)
    operator = best_general(gammas, floats, both=both)
    for x, (gain, gamma) in enumerate(zip(operator.odds_gains(), gammas, strict=True)):
        assert within(gain, gamma)
        assert not both or within(largest_fall(operator, x), gamma)
    variance = operator.variances(floats).sum()
    assert variance == pytest.approx(total_variance(operator.matrix(), floats))
    uniform = FineGrain.of([uniform_retention(gammas)] * len(counts))
    assert variance <= uniform.variances(floats).sum() * (1 + 1e-6)
    if not both:  # every fine-grain operator is a general one
        fine = best_for_counts(gammas, floats)
        assert variance <= fine.variances(floats).sum() * 1.02**2


def test_falling_odds_are_held_too_where_they_must() -> None:
    matrix = np.array([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4], [0.2, 0.2, 0.6]])
    gammas = [None, Fraction(2), None]
    up, both = (exact_operator(matrix, gammas, both=way) for way in (False, True))
    assert within(up.odds_gains()[1], Fraction(2))
    assert not within(largest_fall(up, 1), Fraction(2))
    assert within(largest_fall(both, 1), Fraction(2))


def test_gains_are_exact_and_draws_follow_the_matrix() -> None:
    """200,000 draws a row; every frequency within 5.5 standard errors (false alarm < 1e-6)."""
    rng, n = np.random.default_rng(7), 200_000
    rows = rng.integers(1, DYADIC // 3, (3, 3))
    rows[:, 0] += DYADIC - rows.sum(axis=1)
    operator, matrix = General.of(rows.tolist()), rows / DYADIC
    exact = [[Fraction(entry, DYADIC) for entry in row] for row in rows.tolist()]
    for x, gain in enumerate(operator.odds_gains()):
        others = [exact[k] for k in range(3) if k != x]
        assert gain == max(exact[x][y] / other[y] for y in range(3) for other in others)
    for x in range(3):
        codes = np.full(n, x, np.int64)
        shown = operator.apply(codes, "test", Positions(x * n, n), Draws.from_seed(11))
        deviation = np.sqrt(matrix[x] * (1 - matrix[x]) / n)
        assert (np.abs(np.bincount(shown, minlength=3) / n - matrix[x]) <= 5.5 * deviation).all()
    assert operator.estimate(np.ones(3) @ matrix) == pytest.approx(np.ones(3))


def test_what_cannot_be_undone_or_hidden_is_refused() -> None:
    with pytest.raises(SingularOperator, match="cannot be inverted"):
        General.of(((HALF, HALF), (HALF, HALF))).weights()
    with pytest.raises(ZeroDivisionError):
        General.of(((DYADIC, 0), (HALF, HALF))).amplification()
