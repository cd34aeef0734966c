"""The best operator of all, by linear programming, for columns with few values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import UsageError
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms.limits import objective_weights, planning_counts
from sfumato.mechanisms.perturbed import Chosen, PerturbingMechanism
from sfumato.mechanisms.protocol import Standing
from sfumato.mechanisms.retentions import uniform_retention
from sfumato.operators import General
from sfumato.operators.base import DYADIC, FloatArray
from sfumato.profile import Histogram
from sfumato.textform import Parameter

MOST_VALUES = 60
BREACHES = ("both", "up")
Gammas = Sequence[Fraction | None]


@dataclass(frozen=True)
class GeneralPerturbation(PerturbingMechanism):
    """Any row-stochastic matrix under the limits, m² variables, for at most 60 values.

    Upward limits: P[x, y] ≤ γ_x·P[x', y] for all x' and y, so no published value raises the odds
    of x beyond γ_x. `breaches` "both" adds P[x', y] ≤ γ_x·P[x, y]: none lowers them further. The
    fine-grain operator does not promise the latter: in Theorem 7 a value with a large γ may lower
    the odds of one with a small γ. The total variance of estimated counts is improved by
    Frank–Wolfe steps, from the uniform operator or the one that keeps most records: a local
    optimum.

    >>> from sfumato.guarantees import FineRhoPrivacy
    >>> from sfumato.draws import Draws
    >>> from sfumato.profile import Profile
    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> plan = GeneralPerturbation(breaches="up").plan(
    ...     Profile(14, {"s": counts}), FineRhoPrivacy(theta=3), Draws.from_seed(1))
    >>> round(plan.record_utility("s"), 2)
    0.57
    """

    breaches: str = "both"

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("breaches", options=BREACHES),)
    name: ClassVar[str] = "general"
    sentence: ClassVar[str] = "Searches all ways to exchange values, for at most 60 of them."
    standing: ClassVar[Standing] = "on request"

    def choose(self, histogram: Histogram, guarantee: OddsGuarantee) -> Chosen:
        if len(histogram.values) > MOST_VALUES:
            raise UsageError(
                f"'{self}' solves a linear program with the square of the number of values: "
                f"column {histogram.column!r} has {len(histogram.values)}, the most is "
                f"{MOST_VALUES}. Use 'fine-grain' or 'partitioned'."
            )
        gammas, both = guarantee.planning_limits(histogram), self.breaches == "both"
        counts = planning_counts(guarantee, histogram)
        program, uniform = _Program(gammas, both=both), _uniform_matrix(gammas)
        most = program.maximize(np.diag(objective_weights(guarantee, histogram)))
        matrix = _least_variance(program, [uniform, 0.9 * most + 0.1 * uniform], counts)
        operator = exact_operator(matrix, gammas, both=both)
        stated = guarantee.planning_shares(histogram.column, histogram.values) is not None
        return Chosen(operator, guarantee.odds_limits(histogram), fitted=not stated)


class _Program:
    """Row sums 1; l_y ≤ P[x, y] ≤ γ_x·l_y; with both breaches also P[x, y] ≤ h_y ≤ γ_x·P[x, y].

    The auxiliary l_y and h_y (a column's smallest and largest entry) make 4m² rows out of m³.
    """

    def __init__(self, gammas: Gammas, *, both: bool) -> None:
        from scipy.sparse import block_array, coo_array, eye_array, kron

        self.m = m = len(gammas)
        finite = [x for x, gamma in enumerate(gammas) if gamma is not None]
        shares = np.array([1 / float(gamma) for gamma in gammas if gamma is not None])
        pick = eye_array(m, format="csr")[finite]
        values, column, entries = eye_array(m), np.ones((m, 1)), eye_array(m * m)
        rows: list[list[Any]] = [
            [-entries, kron(column, values)],
            [kron(pick * shares[:, None], values), -kron(column[finite], values)],
        ]
        if both:
            rows = [[*row, None] for row in rows]
            rows.append([entries, None, -kron(column, values)])
            rows.append([-kron(pick, values), None, kron(shares[:, None], values)])
        self.limits: Any = block_array(rows, format="csr")
        self.variables = self.limits.shape[1]
        none = coo_array((m, self.variables - m * m))
        self.sums: Any = block_array([[kron(values, column.T), none]], format="csr")

    def maximize(self, gain: FloatArray) -> FloatArray:
        from scipy.optimize import linprog

        objective = np.zeros(self.variables)
        objective[: self.m * self.m] = -gain.reshape(-1) / max(float(np.abs(gain).max()), 1e-300)
        solved: Any = linprog(
            objective,
            A_ub=self.limits,
            b_ub=np.zeros(self.limits.shape[0]),
            A_eq=self.sums,
            b_eq=np.ones(self.m),
            bounds=(0, 1),
            method="highs",
        )
        if solved.status != 0:
            raise UsageError(f"The linear program was not solved: {solved.message}")
        matrix = np.asarray(solved.x[: self.m * self.m], np.float64).reshape(self.m, self.m)
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _uniform_matrix(gammas: Gammas) -> FloatArray:
    m, p = len(gammas), float(uniform_retention(gammas))
    return np.asarray(p * np.eye(m) + (1 - p) / m)


def total_variance(matrix: FloatArray, counts: FloatArray) -> float:
    """Σ_x Var(n̂_x) = Σ_y E[o_y]·|W_y|² − N."""
    inverse = np.linalg.inv(matrix)
    return float((counts @ matrix) @ (inverse**2).sum(axis=1) - counts.sum())


def _least_variance(
    program: _Program, starts: Sequence[FloatArray], counts: FloatArray, rounds: int = 12
) -> FloatArray:
    """Frank–Wolfe: step towards the linear program's answer for the current slope."""
    counts = np.maximum(counts, 1e-3)
    matrix = min(starts, key=lambda start: total_variance(start, counts))
    loss = total_variance(matrix, counts)
    for _ in range(rounds):
        inverse = np.linalg.inv(matrix)
        published = counts @ matrix
        slope = np.outer(counts, (inverse**2).sum(axis=1))
        slope -= 2 * (inverse.T * published) @ inverse @ inverse.T
        target = program.maximize(-slope)
        steps = [(matrix + share * (target - matrix)) for share in 0.7 ** np.arange(1, 25)]
        best = min(steps, key=lambda step: total_variance(step, counts))
        improved = total_variance(best, counts)
        if improved > loss * (1 - 1e-4):
            break
        matrix, loss = best, improved
    return matrix


def exact_operator(matrix: FloatArray, gammas: Gammas, *, both: bool) -> General:
    """Integers over 2³² that keep every limit exactly.

    A little of the matrix with equal entries, which has slack in every limit, pays for rounding.
    """
    m = len(matrix)
    share = 1e-9
    while share < 1:
        mixed = (1 - share) * matrix + share / m
        rows = np.floor(mixed * DYADIC).astype(np.int64)
        short = DYADIC - rows.sum(axis=1)
        for row, missing in zip(rows, short, strict=True):  # at most m units, one each
            row[np.argsort(row, kind="stable")[: int(missing)]] += 1
        operator = General.of(rows.tolist())
        if _keeps(operator, gammas, both=both):
            return operator
        share *= 2
    raise UsageError(
        "The limits are too tight for an operator with 32-bit probabilities. Use 'uniform'."
    )


def _keeps(operator: General, gammas: Gammas, *, both: bool) -> bool:
    if all(gamma is None for gamma in gammas):
        return True
    for column in zip(*operator.rows, strict=True):
        least, most = min(column), max(column)
        for entry, gamma in zip(column, gammas, strict=True):
            if gamma is None:
                continue
            a, b = gamma.numerator, gamma.denominator
            if entry * b > a * least or (both and most * b > a * entry):
                return False
    return True
