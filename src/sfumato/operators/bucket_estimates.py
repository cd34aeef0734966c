"""Estimates from buckets: shrunk and inverse, with their error bars.

What is asked of a group of records A is n_x = Σ over the records of A with value x of e, e being 1
for a count or a quasi column for a sum. Known exactly are how many records there are, Σ e and
Σ e²; shown is o = Σ_g s_g·(Σ of e in bucket g), with E[o] = Mᵀn (see `operators.buckets`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator

_ROUNDS = 60
NOTHING = 1e-12  # of the prior variance
_SETTLED = 1e-3  # relative change of the deviation's variance


@dataclass(frozen=True, eq=False)
class ShownGroups:
    """What the release shows of groups of records: exact totals, and what stands beside values."""

    number: FloatArray  # records, by group
    total: FloatArray  # Σ e
    squares: FloatArray  # Σ e²
    shown: FloatArray  # o for e, by (group, value)
    shown_squares: FloatArray  # o for e²

    @classmethod
    def of_counts(cls, number: FloatArray, shown: FloatArray) -> ShownGroups:
        return cls(number, number, number, shown, shown)

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Estimates of n_x by (group, value), and their covariance by (group, value, value)."""

    mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True, eq=False)
class BucketFit(ABC):
    """One way to estimate: the operator of a release, and how many real records have each value."""

    operator: BucketOperator
    counts: FloatArray

    @cached_property
    def rows(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def shares(self) -> FloatArray:
        return np.asarray(self.counts / max(self.rows, 1.0))

    @abstractmethod
    def fit(self, groups: ShownGroups) -> Fitted:
        """Estimate every group by itself."""

    def noise(self, within: FloatArray, squares: FloatArray | None = None) -> FloatArray:
        """Cov(o) where `within` is Σ e, and `squares` Σ e², over the records that have each value.

        They stand in slots of their value at random, without replacement: Σe² − (Σe)²/o_x, by
        Cauchy–Schwarz never negative for what the records really hold.
        """
        room = np.maximum(self.operator.counts, 1.0)  # with the slots of fakes
        left = np.maximum((within if squares is None else squares) - within**2 / room, 0.0)
        return self.operator.noise(left * self.operator.counts / np.maximum(room - 1, 1.0))

    def fit_counts(self, number: float, shown: FloatArray) -> Fitted:
        """One group of records that is counted."""
        found = self.fit(ShownGroups.of_counts(np.array([float(number)]), shown[None, :]))
        return Fitted(found.mean[0], found.covariance[0])


@dataclass(frozen=True, eq=False)
class Shrunk(BucketFit):
    """The posterior mean under a normal model: n ~ n₀ + deviation, o | n ~ Mᵀn + noise.

    n₀ = total·share is independence. With s = squares − total²/rows (the finite table: a group
    that is the whole table is known), a deviation has variance τ²·(number·s)·share², of which τ² is
    estimated from the group itself (empirical Bayes, by expectation–maximization), plus s·share,
    which counts scatter by alone; deviations add up to zero, because the total is known. The noise
    is that of random slots. Where the buckets tell values apart it agrees with `Inverted`; where
    they do not, it stays at n₀, and its error bar says so (methods, section 1).

    >>> from sfumato.operators.buckets import BucketKinds
    >>> pairs = BucketKinds(*map(np.array, ([60, 30], [0, 0, 1, 1], [0, 1, 0, 2], [1, 1, 1, 1])))
    >>> shrunk = Shrunk(BucketOperator.of([pairs], 3), np.array([90.0, 60.0, 30.0]))
    >>> shrunk.fit_counts(18, np.array([9.0, 6.0, 3.0])).mean.round(6).tolist()
    [9.0, 6.0, 3.0]
    """

    def fit(self, groups: ShownGroups) -> Fitted:
        matrix, values = self.operator.matrix(), len(self.counts)
        independent = groups.total[:, None] * self.shares
        free = groups.squares - groups.total**2 / max(self.rows, 1.0)
        mean, covariance = independent.copy(), np.zeros((len(groups), values, values))
        unknown = np.flatnonzero(~(free <= NOTHING * groups.squares))
        residual = (groups.shown - independent @ matrix)[unknown]

        def squares(gain: FloatArray, which: IntArray) -> FloatArray:
            return _applied(gain, residual[which]) ** 2

        gain, found, _ = self.gains(groups.number[unknown], free[unknown], squares)
        mean[unknown] += _applied(gain, residual)
        covariance[unknown] = found
        return Fitted(mean, covariance)

    def gains(
        self,
        number: FloatArray,
        free: FloatArray,
        squares: Callable[[FloatArray, IntArray], FloatArray],
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The gain G of every group, n̂ = n₀ + Gᵀ(o − Mᵀn₀), the posterior covariance, and τ².

        `squares` says, for the gains of some groups, how large the squares of the found deviations
        Gᵀ(o − Mᵀn₀) are: those of the data, or what is to be expected of them.
        """
        values = len(self.counts)
        deviation = np.full(len(number), 0.1)
        gains = np.zeros((len(number), values, values))
        covariances = np.zeros_like(gains)
        wide = (number * free)[:, None] * self.shares**2
        narrow = free[:, None] * self.shares
        present = self.shares > 0
        active = np.arange(len(number))
        for _ in range(_ROUNDS):
            if not len(active):
                break
            chance = deviation[active, None] * wide[active]
            prior = chance + narrow[active]
            gain, covariance = self.posterior(prior, free[active])
            gains[active], covariances[active] = gain, covariance
            # the part of each deviation that τ² answers for, on average over the posterior
            part = (chance / np.maximum(prior, 1e-300))[:, present]
            found = squares(gain, active) + np.diagonal(covariance, axis1=1, axis2=2)
            left = (1 - part) * chance[:, present]
            each = (part**2 * found[:, present] + left) / wide[active][:, present]
            renewed, before = each.mean(axis=1), deviation[active]
            deviation[active] = np.maximum(renewed, 1e-12)
            active = active[~(np.abs(renewed - before) <= _SETTLED * before)]
        return gains, covariances, deviation

    def posterior(self, prior: FloatArray, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gain and covariance of groups, given the prior variance of every value's deviation."""
        matrix = self.operator.matrix()
        noise = self.operator.scatter * (free / self.rows)[:, None, None]
        believed = tied(prior)
        carried = believed @ matrix
        whole = matrix.T @ carried + noise
        # buckets that are all alike tell no value from another: nothing is learnt from them
        told = _trace(whole) > NOTHING * _trace(believed)
        gain = np.zeros_like(whole)
        gain[told] = _solve(whole[told], np.swapaxes(carried[told], 1, 2))
        return gain, believed - carried @ gain


@dataclass(frozen=True, eq=False)
class Inverted(BucketFit):
    """n̂ = M⁻ᵀo, unbiased; Cov = M⁻ᵀ·Cov(o)·M⁻¹ with the estimates in place of the counts."""

    def fit(self, groups: ShownGroups) -> Fitted:
        weights = self.operator.inverse
        mean = groups.shown @ weights
        noise = self.noise(mean, np.maximum(groups.shown_squares @ weights, 0.0))
        return Fitted(mean, weights.T @ noise @ weights)

    def expected(self, counts: FloatArray) -> FloatArray:
        """Cov(n̂) where so many records of a condition have each value."""
        weights = self.operator.inverse
        return np.asarray(weights.T @ self.noise(counts) @ weights)


FITS: dict[str, type[BucketFit]] = {"shrunk": Shrunk, "inverse": Inverted}


def tied(prior: FloatArray) -> FloatArray:
    """The covariance of independent deviations whose sum is known to be 0, group by group."""
    found: FloatArray = -prior[:, :, None] * prior[:, None, :] / prior.sum(axis=1)[:, None, None]
    diagonal = np.arange(prior.shape[1])
    found[:, diagonal, diagonal] += prior
    return found


def _applied(gain: FloatArray, residual: FloatArray) -> FloatArray:
    """Gᵀr, group by group."""
    return np.asarray((residual[:, None, :] @ gain)[:, 0, :])


def _trace(matrices: FloatArray) -> FloatArray:
    return np.asarray(np.trace(matrices, axis1=1, axis2=2))


def _solve(whole: FloatArray, right: FloatArray) -> FloatArray:
    """whole⁻¹·right for positive semi-definite matrices, rounded towards definite."""
    values = whole.shape[1]
    scale = np.maximum(_trace(whole) / values, 1e-300)
    found, left, ridge = np.empty_like(right), np.arange(len(whole)), 1e-11
    while len(left):
        definite = whole[left] + (ridge * scale[left])[:, None, None] * np.eye(values)
        good = _definite(definite)
        # not cho_solve: its threads wait for one another, for milliseconds on a busy machine
        found[left[good]] = np.linalg.solve(definite[good], right[left[good]])
        left, ridge = left[~good], ridge * 100
    return found


def _definite(matrices: FloatArray) -> BoolArray:
    """Which of the matrices are positive definite."""
    try:
        np.linalg.cholesky(matrices)
        return np.ones(len(matrices), np.bool_)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.zeros(1, np.bool_)
        half = len(matrices) // 2
        return np.concatenate([_definite(matrices[:half]), _definite(matrices[half:])])
