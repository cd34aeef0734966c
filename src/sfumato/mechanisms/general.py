"""The best operator of all, by linear programming, for columns with few values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.draws import IntArray
from sfumato.errors import UsageError, WeakPromiseWarning
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
CONDITION_LIMIT = 1e4  # a worse operator is mixed with the uniform one, with a warning
OBJECTIVES = ("records", "counts")
BREACHES = ("both", "up")
Gammas = Sequence[Fraction | None]


@dataclass(frozen=True)
class GeneralPerturbation(PerturbingMechanism):
    """Any row-stochastic matrix under the limits, m² variables, for at most 60 values.

    Upward limits: P[x, y] ≤ γ_x·P[x', y] for all x' and y, so no published value raises the odds
    of x beyond γ_x. `breaches` "both" adds P[x', y] ≤ γ_x·P[x, y]: none lowers them further. The
    fine-grain operator does not promise the latter: in Theorem 7 a value with a large γ may lower
    the odds of one with a small γ. `objective` is "records" (a linear program) or "counts", the
    total variance of estimated counts, improved from there by Frank–Wolfe steps: a local optimum.
    "records" alone tends to a matrix that cannot be inverted (publish the commonest value always),
    so the uniform operator is mixed in where that happens, with a warning.

    >>> from sfumato.guarantees import FineRhoPrivacy
    >>> from sfumato.draws import Draws
    >>> from sfumato.profile import Profile
    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> plan = GeneralPerturbation(breaches="up").plan(
    ...     Profile(14, {"s": counts}), FineRhoPrivacy(theta=3), Draws.from_seed(1))
    >>> round(plan.record_utility("s"), 2)
    0.57
    """

    objective: str = "counts"
    breaches: str = "both"

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("objective", options=OBJECTIVES),
        Parameter("breaches", options=BREACHES),
    )
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
        gammas = guarantee.planning_limits(histogram)
        weights = objective_weights(guarantee, histogram)
        counts = planning_counts(guarantee, histogram)
        operator = self._solve(histogram, gammas, weights, counts)
        stated = guarantee.planning_shares(histogram.column, histogram.values) is not None
        return Chosen(operator, guarantee.odds_limits(histogram), fitted=not stated)

    def _solve(
        self, histogram: Histogram, gammas: Gammas, weights: FloatArray, counts: FloatArray
    ) -> General:
        program = _Program(gammas, both=self.breaches == "both")
        gain = np.diag(weights)
        uniform = _uniform_matrix(gammas)
        matrix = program.maximize(gain)
        if self.objective == "counts":
            matrix = _least_variance(program, [uniform, 0.9 * matrix + 0.1 * uniform], counts)
        mixed, share = _invertible(matrix, uniform)
        if share:
            alike = _indistinct(matrix)
            named = list_some([value_text(histogram.values[code]) for code in alike])
            warnings.warn(
                f"Column {histogram.column!r}: the operator that keeps most records could hardly "
                f"tell {named} from other values; {share:.0%} of the uniform operator is mixed in, "
                "and their counts are estimated with little precision.",
                WeakPromiseWarning,
                stacklevel=5,
            )
        return exact_operator(mixed, gammas, both=self.breaches == "both")


class _Program:
    """Row sums 1; l_y ≤ P[x, y] ≤ γ_x·l_y; with both breaches also P[x, y] ≤ h_y ≤ γ_x·P[x, y].

    The auxiliary l_y and h_y (a column's smallest and largest entry) make 4m² rows out of m³.
    """

    def __init__(self, gammas: Gammas, *, both: bool) -> None:
        from scipy.sparse import coo_array

        m = len(gammas)
        self.m, self.variables = m, m * m + (2 if both else 1) * m
        entry = np.arange(m * m).reshape(m, m)
        low = m * m + np.arange(m)
        high = low + m
        rows: list[tuple[IntArray, float, IntArray, float]] = []
        for x, gamma in enumerate(gammas):
            rows.append((low, 1.0, entry[x], -1.0))
            if gamma is not None:
                rows.append((entry[x], 1 / float(gamma), low, -1.0))
            if both:
                rows.append((entry[x], 1.0, high, -1.0))
                if gamma is not None:
                    rows.append((high, 1 / float(gamma), entry[x], -1.0))
        count = len(rows) * m
        numbers = np.arange(count).reshape(len(rows), m)
        places = np.concatenate([np.concatenate([first, second]) for first, _, second, _ in rows])
        lines = np.concatenate([np.concatenate([line, line]) for line in numbers])
        factors = np.concatenate(
            [np.concatenate([np.full(m, a), np.full(m, b)]) for _, a, _, b in rows]
        )
        self.limits: Any = coo_array((factors, (lines, places)), (count, self.variables)).tocsr()
        ones = np.ones(m * m)
        self.sums: Any = coo_array(
            (ones, (np.repeat(np.arange(m), m), np.arange(m * m))), (m, self.variables)
        ).tocsr()

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


def _invertible(matrix: FloatArray, uniform: FloatArray) -> tuple[FloatArray, float]:
    """The matrix, or its mixture with the uniform one that can be inverted; and the share mixed."""
    for share in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
        mixed = (1 - share) * matrix + share * uniform
        if np.linalg.cond(mixed) <= max(CONDITION_LIMIT, 2 * np.linalg.cond(uniform)):
            return mixed, share
    return uniform, 1.0


def _indistinct(matrix: FloatArray) -> list[int]:
    """The values in the direction that the operator loses."""
    direction = np.abs(np.linalg.svd(matrix)[0][:, -1])
    return [int(code) for code in np.flatnonzero(direction > 0.25 * direction.max())]


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
        operator = General(tuple(tuple(row) for row in rows.tolist()))
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
