"""Pools fitted: groups of records, each with a gain and three covariances for a weight of 1.

`bucket_estimates.Shrunk` is the law; here it is fitted to many groups at once, for few values as
whole matrices (`FewValues`), for many as what gives them shape (`many_values.ManyValues`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import NOTHING, Shrunk, tied
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.pool_matrices import Partition, PoolMatrices, WholeMatrices

AT_ONCE = 1 << 22  # numbers of one kind of matrix that are held at the same time
OWN_SIZE = 1.0  # τ² where all counts are known and only what is summed can deviate

Covariance = tuple[PoolMatrices, PoolMatrices]


@dataclass(frozen=True, eq=False)
class PoolFit(ABC):
    """Some pools, fitted: where their estimates move, and three covariances for a weight of 1.

    A covariance is a pair. The variance of a linear form with the vectors v_c over the classes of
    a pool is Σ_c Σe²·v_cᵀ·first·v_c − aᵀ·second·a with a = Σ_c Σe·v_c: the second term is what the
    finite table knows. `posterior` and `prior` have second = first / N; `noise`, that of the
    unbiased estimate, does not.
    """

    posterior: Covariance
    prior: Covariance
    noise: Covariance

    @abstractmethod
    def moved(self, residual: FloatArray, at: IntArray) -> FloatArray:
        """n̂ − n₀ for residuals o − Mᵀn₀ by (class, value), each with the gain of its pool."""

    @abstractmethod
    def undone(self, residual: FloatArray, at: IntArray) -> FloatArray:
        """The same for the unbiased estimate: M⁻ᵀ·residual."""


class PooledFit(ABC):
    """How pools are fitted: the operator of a release, and how many records have each value."""

    cost: int  # numbers that the fit of one pool holds
    bars_of_interval: bool = False  # whether an error bar is no less than half a 68 % interval

    def __init__(self, operator: BucketOperator, counts: FloatArray) -> None:
        self.operator, self.counts = operator, counts
        self.rows = float(counts.sum())
        self.shares: FloatArray = counts / max(self.rows, 1.0)
        self.met = operator.met(self.shares)  # Mᵀ·shares

    @abstractmethod
    def fit(self, records: FloatArray, beside: FloatArray) -> PoolFit:
        """Fit pools of so many records, from what stands beside them."""

    def residual(self, records: FloatArray, beside: FloatArray) -> tuple[FloatArray, FloatArray]:
        """n₀ and o − Mᵀn₀."""
        return records[:, None] * self.shares, beside - records[:, None] * self.met

    def unseen(self) -> FloatArray | None:
        """Where no bucket tells anything (see `BucketOperator.unseen`); None for nowhere."""
        return None

    def stretch(self, parts: Partition, values: FloatArray) -> FloatArray:
        """By form: how many times noisier than a plain count the undone sum of `values` is."""
        return self.operator.stretch(parts, values)


@dataclass(frozen=True, eq=False)
class WholePoolFit(PoolFit):
    """Of few values: a gain by (pool, value, value), and M⁻¹ as far as it is seen."""

    gain: FloatArray
    inverse: FloatArray

    def moved(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return by_pools(residual, self.gain, at)

    def undone(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return np.asarray(residual @ self.inverse)


def by_pools(residual: FloatArray, matrices: FloatArray, at: IntArray) -> FloatArray:
    """rᵀ·matrix for every class; some at a time, for many classes may share a large matrix."""
    found = np.empty((len(at), matrices.shape[2]))
    step = max(AT_ONCE // max(matrices[0].size if len(matrices) else 1, 1), 1)
    for low in range(0, len(at), step):
        chosen = slice(low, low + step)
        found[chosen] = (residual[chosen, None, :] @ matrices[at[chosen]])[:, 0, :]
    return found


class FewValues(PooledFit):
    """The whole posterior of `Shrunk`, matrix by matrix."""

    def __init__(self, operator: BucketOperator, counts: FloatArray) -> None:
        super().__init__(operator, counts)
        self.cost = len(counts) ** 2
        self._shrunk = Shrunk(operator, counts)

    def unseen(self) -> FloatArray | None:
        return self.operator.unseen

    def fit(self, records: FloatArray, beside: FloatArray) -> PoolFit:
        operator, shares = self.operator, self.shares
        independent, residual = self.residual(records, beside)
        free = records - records**2 / max(self.rows, 1.0)
        open_ = np.flatnonzero(~(free <= NOTHING * records))
        deviation = np.full(len(records), OWN_SIZE)
        size = (len(records), len(shares), len(shares))
        gain, posterior = np.zeros(size), np.zeros(size)
        unit = np.ones(len(records))

        def squares(gains: FloatArray, which: IntArray) -> FloatArray:
            return np.asarray((residual[open_[which], None, :] @ gains)[:, 0, :] ** 2)

        gain[open_], found, deviation[open_] = self._shrunk.gains(
            records[open_], free[open_], squares
        )
        posterior[open_] = found / free[open_, None, None]
        closed = np.flatnonzero(free <= NOTHING * records)
        believed = deviation[:, None] * records[:, None] * shares**2 + shares
        gain[closed], posterior[closed] = self._shrunk.posterior(believed[closed], unit[closed])
        mean = np.maximum(independent + (residual[:, None, :] @ gain)[:, 0, :], 0.0)
        spread, known = composition(mean, self.shares, self.operator.counts)
        inverse = operator.seen_inverse
        return WholePoolFit(
            self._known_of_rows(WholeMatrices(posterior)),
            self._known_of_rows(WholeMatrices(tied(believed))),
            (
                WholeMatrices(inverse.T @ operator.noise(spread) @ inverse),
                WholeMatrices(inverse.T @ operator.noise(known) @ inverse),
            ),
            gain,
            inverse,
        )

    def _known_of_rows(self, first: WholeMatrices) -> Covariance:
        return first, WholeMatrices(first.matrices / self.rows)


def composition(
    mean: FloatArray, shares: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How a record of each pool spreads over values, and what the finite table knows of it.

    Records stand in the listed slots of their value, fakes among them, without replacement
    (`BucketOperator.noise`).
    """
    total = mean.sum(axis=1, keepdims=True)
    composed = np.divide(mean, total, out=np.tile(shares, (len(mean), 1)), where=total > 0)
    held = np.maximum(counts, 1.0)
    spread = composed * counts / np.maximum(held - 1, 1.0)
    return spread, spread * composed / held
