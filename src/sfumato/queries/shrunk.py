"""Estimates from buckets: shrunk, inverse and uniform, with their error bars. Pure arithmetic.

What is asked of a group of records A is n_x = Σ over the records of A with value x of e, e being 1
for a count or a quasi column for a sum. Known exactly are how many records there are, Σ e and
Σ e²; shown is o = Σ_g s_g·(Σ of e in bucket g), with E[o] = Mᵀn (see `operators.buckets`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator

_ROUNDS = 60
_NOTHING = 1e-12  # of the prior variance
_SETTLED = 1e-3  # relative change of the deviation's variance


@dataclass(frozen=True, eq=False)
class Moments:
    """What the release shows of a group: exact totals, and what stands beside each value."""

    number: float  # records
    total: float  # Σ e
    squares: float  # Σ e²
    shown_number: FloatArray  # o for e⁰
    shown: FloatArray  # o for e
    shown_squares: FloatArray  # o for e²

    @classmethod
    def count(cls, number: float, shown: FloatArray) -> Moments:
        return cls(number, number, number, shown, shown, shown)

    def minus(self, constant: float) -> Moments:
        """The moments of e − constant."""
        r = constant
        return Moments(
            self.number,
            self.total - r * self.number,
            self.squares - 2 * r * self.total + r * r * self.number,
            self.shown_number,
            self.shown - r * self.shown_number,
            self.shown_squares - 2 * r * self.shown + r * r * self.shown_number,
        )


@dataclass(frozen=True, eq=False)
class Law:
    """The operator of a release, and how its records are distributed over the values."""

    operator: BucketOperator
    counts: FloatArray  # o_x, of real records

    @property
    def rows(self) -> float:
        return float(self.counts.sum())

    @property
    def shares(self) -> FloatArray:
        return self.counts / max(self.rows, 1.0)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Estimates of n_x and their covariance."""

    mean: FloatArray
    covariance: FloatArray


Estimator = Callable[[Law, Moments], Estimated]


def shrunk(law: Law, moments: Moments) -> Estimated:
    """The posterior mean under a normal model: n ~ n₀ + deviation, o | n ~ Mᵀn + noise.

    n₀ = total·share is independence. With s = squares − total²/rows (the finite table: a group
    that is the whole table is known), a deviation has variance τ²·(number·s)·share², of which τ² is
    estimated from the group itself (empirical Bayes, by expectation–maximization), plus s·share,
    which counts scatter by alone; deviations add up to zero, because the total is known. The noise
    is that of random slots. Where the buckets tell values apart it agrees with `inverse`; where
    they do not, it stays at n₀, and its error bar says so (methods, section 1).

    >>> from sfumato.operators.buckets import BucketKinds
    >>> pairs = BucketKinds(*map(np.array, ([60, 30], [0, 0, 1, 1], [0, 1, 0, 2], [1, 1, 1, 1])))
    >>> law = Law(BucketOperator.of([pairs], 3), np.array([90.0, 60.0, 30.0]))
    >>> estimate = shrunk(law, Moments.count(18, np.array([9.0, 6.0, 3.0])))
    >>> estimate.mean.round(6).tolist()
    [9.0, 6.0, 3.0]
    """
    shares, matrix = law.shares, law.operator.matrix()
    independent = moments.total * shares
    free = moments.squares - moments.total**2 / max(law.rows, 1.0)
    if free <= 1e-12 * moments.squares:
        return Estimated(independent, np.zeros_like(matrix))
    residual = moments.shown - matrix.T @ independent
    gain, covariance = fitted_gain(law, moments.number, free, lambda gain: (gain.T @ residual) ** 2)
    return Estimated(independent + gain.T @ residual, covariance)


def fitted_gain(
    law: Law, number: float, free: float, squares: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The gain G of `shrunk`, n̂ = n₀ + Gᵀ(o − Mᵀn₀), and the posterior covariance.

    `squares` says, for a gain, how large the squares of the found deviations Gᵀ(o − Mᵀn₀) are:
    those of the data, or what is to be expected of them.
    """
    shares, matrix = law.shares, law.operator.matrix()
    noise = law.operator.scatter * (free / law.rows)
    wide, narrow = number * free * shares**2, free * shares
    present = shares > 0
    deviation, gain, covariance = 0.1, np.zeros_like(matrix), np.zeros_like(matrix)
    for _ in range(_ROUNDS):
        prior = deviation * wide + narrow
        tied = np.diag(prior) - np.outer(prior, prior) / prior.sum()
        carried = tied @ matrix
        whole = matrix.T @ carried + noise
        # buckets that are all alike tell no value from another: nothing is learnt from them
        told = np.trace(whole) > _NOTHING * np.trace(tied)
        gain = _solve(whole, carried.T) if told else np.zeros_like(matrix)
        covariance = tied - carried @ gain
        # the part of each deviation that τ² answers for, on average over the posterior
        part = (deviation * wide / np.maximum(prior, 1e-300))[present]
        square = (squares(gain) + np.diag(covariance))[present]
        left = (1 - part) * deviation * wide[present]
        renewed = float(np.mean((part**2 * square + left) / wide[present]))
        settled = abs(renewed - deviation) <= _SETTLED * deviation
        deviation = max(renewed, 1e-12)
        if settled:
            break
    return gain, covariance


def inverse(law: Law, moments: Moments) -> Estimated:
    """n̂ = M⁻ᵀo, unbiased; Cov = M⁻ᵀ·Cov(o)·M⁻¹ with the estimates in place of the counts."""
    weights = np.linalg.inv(law.operator.matrix())
    mean = weights.T @ moments.shown
    squares = np.maximum(weights.T @ moments.shown_squares, 0.0)
    room = np.maximum(law.counts, 1.0)
    # Σe² − (Σe)²/o_x, by Cauchy–Schwarz never negative for what the records really hold
    spread = np.maximum(squares - mean**2 / room, 0.0) * law.counts / np.maximum(room - 1, 1.0)
    noise = law.operator.noise(spread)
    return Estimated(mean, weights.T @ noise @ weights)


def uniform(law: Law, moments: Moments) -> Estimated:
    """The papers' estimate o itself: everybody in a bucket has each of its values alike.

    It is pulled towards independence. Its error bar is the root mean square distance from what
    `shrunk` believes, so the pull is in it.
    """
    believed = shrunk(law, moments)
    pull = moments.shown - believed.mean
    return Estimated(moments.shown, believed.covariance + np.outer(pull, pull))


ESTIMATORS: dict[str, Estimator] = {"shrunk": shrunk, "inverse": inverse, "uniform": uniform}


def _solve(whole: FloatArray, right: FloatArray) -> FloatArray:
    """whole⁻¹·right for a positive semi-definite matrix, rounded towards definite."""
    scale = max(float(np.trace(whole)) / len(whole), 1e-300)
    ridge = 1e-11
    while True:
        definite = whole + ridge * scale * np.eye(len(whole))
        try:
            np.linalg.cholesky(definite)
            # not cho_solve: its threads wait for one another, for milliseconds on a busy machine
            return np.asarray(np.linalg.solve(definite, right), np.float64)
        except np.linalg.LinAlgError:
            ridge *= 100
