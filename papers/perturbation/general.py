"""Any matrix at all under the limits on odds (thesis, Figure 8a and Table 11): the operator, its
inverse written down, and the best one by linear programming, for columns with few values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sfumato.columns import Count, Counts
from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import SingularOperator
from sfumato.mechanisms.retentions import uniform_retention
from sfumato.operators.base import DYADIC, FloatArray, Operator

Gammas = Sequence[Fraction | None]
CONDITION_LIMIT = 1e9  # beyond it float64 weights have lost their meaning


class General(Operator, frozen=True, tag="general"):
    """P[x, y] = `rows[x][y]` / 2³²; every row sums to 2³² exactly.

    >>> half = 1 << 31
    >>> General.of([(half, half), (0, 2 * half)]).matrix().tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """

    values: Count
    denominator: Literal[4294967296]  # DYADIC
    rows: tuple[Counts, ...]

    def __post_init__(self) -> None:
        widths = {len(self.rows), *map(len, self.rows)}
        if not self.values or widths != {self.values} or {*map(sum, self.rows)} != {DYADIC}:
            raise ValueError(
                "A general operator needs at least one value, and as many rows of as many integers "
                f"that sum to {DYADIC}"
            )

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> General:
        """The operator with these rows."""
        listed = tuple(tuple(row) for row in rows)
        return cls(len(listed), DYADIC, listed)

    def matrix(self) -> FloatArray:
        return np.array(self.rows, np.float64) / DYADIC

    def inverse(self) -> DenseInverse:  # type: ignore[override]
        return self._inverse

    @cached_property
    def _inverse(self) -> DenseInverse:
        matrix = self.matrix()
        if np.linalg.cond(matrix) > CONDITION_LIMIT:
            raise SingularOperator(
                "The operator cannot be inverted: some values are published alike whatever they "
                "were. Publish again with another mechanism or objective."
            )
        return DenseInverse(np.asarray(np.linalg.inv(matrix)))

    def odds_gains(self) -> list[Fraction | None]:
        gains: list[Fraction | None] = [Fraction(1)] * self.values
        for column in zip(*self.rows, strict=True):
            lowest, second = sorted(column)[:2] if self.values > 1 else (column[0], column[0])
            for x, entry in enumerate(column):
                other = second if entry == lowest else lowest
                known = gains[x]
                if known is not None and entry:
                    gains[x] = max(known, Fraction(entry, other)) if other else None
        return gains

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        # row x of the cumulative table lies in [x·2³², (x+1)·2³²): one search serves all rows
        cumulative = np.cumsum(np.array(self.rows, np.int64), axis=1)
        offsets = np.arange(self.values, dtype=np.int64) * DYADIC
        edges = (cumulative + offsets[:, None]).reshape(-1)
        words = (draws.words(purpose, address) >> np.uint64(32)).view(np.int64)
        index = np.searchsorted(edges, words + codes * DYADIC, side="right")
        return np.asarray(index - codes * self.values)


@dataclass(frozen=True, eq=False)
class DenseInverse:
    """W of a column without structure, written down: an `Inverse` to whoever asks."""

    weights: FloatArray

    @property
    def values(self) -> int:
        return len(self.weights)

    @property
    def codes(self) -> IntArray:
        return np.arange(self.values)

    @property
    def blocks(self) -> IntArray:
        return np.zeros(self.values, np.int64)

    def estimate(self, shown: FloatArray) -> FloatArray:
        return np.asarray(shown @ self.weights)

    def weigh(self, asked: FloatArray) -> FloatArray:
        return np.asarray(asked @ self.weights.T)

    def variances(self, counts: FloatArray, shown: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(shown @ self.weights**2 - counts, 0.0))

    def pattern(self) -> DenseInverse:
        return DenseInverse((self.weights != 0).astype(np.float64))


def best_general(gammas: Gammas, counts: FloatArray, *, both: bool) -> General:
    """Any row-stochastic matrix under the limits, m² variables: the least total variance.

    Upward limits: P[x, y] ≤ γ_x·P[x', y] for all x' and y, so no published value raises the odds
    of x beyond γ_x. `both` adds P[x', y] ≤ γ_x·P[x, y]: none lowers them further. The fine-grain
    operator does not promise the latter: in Theorem 7 a value with a large γ may lower the odds of
    one with a small γ. The total variance of estimated counts is improved by Frank–Wolfe steps,
    from the uniform operator or the one that keeps most records: a local optimum.

    >>> limits = [Fraction(2), Fraction(3), Fraction(3)]
    >>> best = best_general(limits, np.array([5.0, 3.0, 2.0]), both=False)
    >>> all(gain <= limit for gain, limit in zip(best.odds_gains(), limits))
    True
    """
    program, uniform = _Program(gammas, both=both), _uniform_matrix(gammas)
    most = program.maximize(np.diag(counts / counts.sum()))
    matrix = _least_variance(program, [uniform, 0.9 * most + 0.1 * uniform], counts)
    return exact_operator(matrix, gammas, both=both)


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
            raise ValueError(f"The linear program was not solved: {solved.message}")
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
    raise ValueError("the limits are too tight for an operator with 32-bit probabilities")


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
