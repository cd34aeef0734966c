"""Questions about several columns that were dealt apart: operators of independent deals multiply.

A record with the values x₁ … x_J stands, column by column, beside what M_j[x_j] says on average,
and the deals are independent: E[o] = (M₁ ⊗ … ⊗ M_J)ᵀ n for n by combination, where o is the sum
over records of s_{g₁} ⊗ … ⊗ s_{g_J}, and s_g are the shares that a bucket lists. How many people
have each combination no bucket lists: it is estimated, from independence of the columns on.

In coordinates n/√o (o_x = N·Π f_{x_j}) each column's operator is symmetric, and all together have
the eigenvalues Π λ_j along products of directions. A direction that is flat (√f_j) in all columns
but one, a *main* one, is about that column alone: the table's totals of it are known. The others
are about how columns hang together. Independent deals scatter o by ν·λ(1 − λ), ν = records/N; for
main directions less what a finite table knows, as in `shrunk`. How far a condition deviates from
independence is believed to be of one width in all main directions and of one in all others, each
the mean over what the data make likely (as in `other_columns`). Everything is diagonal there: the
cost of a pool is that of turning its table of combinations, axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import Beside
from sfumato.operators.buckets import UNSEEN, BucketOperator
from sfumato.operators.combined import CombinedEstimated
from sfumato.operators.estimator import Estimated, Estimator, Moments
from sfumato.operators.pool_matrices import Partition, PoolMatrices
from sfumato.operators.pools import PooledFit, PoolFit
from sfumato.operators.shrunk import ShrunkEstimated

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_COMBINATIONS = 1 << 16  # of values of all columns that are asked about
_AT_ONCE = 1 << 22  # numbers that are held at the same time
_STEPS = 16  # widths that are weighed against one another


@dataclass(frozen=True, eq=False)
class Turned:
    """Products of each column's directions, flat ones first, and their eigenvalues."""

    vectors: Sequence[FloatArray]  # by column: (value, direction)
    root: FloatArray  # √o by combination

    @classmethod
    def of(cls, operators: Sequence[BucketOperator]) -> tuple[Turned, list[FloatArray]]:
        found, eigen = [], []
        for operator in operators:
            flat = np.sqrt(operator.counts / max(float(operator.counts.sum()), 1.0))
            # far below all others, so that it is told from directions that are as well seen
            values, vectors = np.linalg.eigh(operator.scaled() - 3 * np.outer(flat, flat))
            found.append(vectors)
            eigen.append(np.clip(np.concatenate([[1.0], values[1:]]), 0.0, 1.0))
        rows = max(float(operators[0].counts.sum()), 1.0)
        shares = [each.counts / rows for each in operators]
        root = np.sqrt(rows * reduce(np.multiply.outer, shares)).reshape(-1)
        return cls(found, root), eigen

    def into(self, tables: FloatArray) -> FloatArray:
        """Coordinates of tables by (…, combination), already in units of √o."""
        return self._turn(tables, [each.T for each in self.vectors])

    def back(self, coordinates: FloatArray) -> FloatArray:
        return self._turn(coordinates, self.vectors)

    def _turn(self, tables: FloatArray, matrices: Sequence[FloatArray]) -> FloatArray:
        shape = tuple(len(each) for each in matrices)
        found = tables.reshape(-1, *shape)
        for axis, matrix in enumerate(matrices, start=1):
            found = np.moveaxis(np.tensordot(found, matrix, axes=(axis, 1)), -1, axis)
        return np.asarray(found.reshape(tables.shape))


@dataclass(frozen=True, eq=False)
class TurnedDiagonals(PoolMatrices):
    """Covariances that are diagonal along the turned directions, by (pool, direction)."""

    turned: Turned
    variances: FloatArray

    def _bilinear(
        self, parts: Partition, one: FloatArray, other: FloatArray, pools: IntArray
    ) -> FloatArray:
        found = np.zeros((len(pools), parts.forms))
        for form in range(parts.forms):
            inside = parts.of == form
            first, second = (
                self.turned.into((np.where(inside, each, 0.0) * self.turned.root)[None, :])[0]
                for each in (one, other)
            )
            found[:, form] = self.variances[pools] @ (first * second)
        return found

    def quadratic(self, vectors: FloatArray, at: IntArray) -> FloatArray:
        along = self.turned.into(vectors * self.turned.root)
        return np.asarray((self.variances[at] * along**2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class ApartPoolFit(PoolFit):
    """What a coordinate of the residual counts for, by (pool, direction)."""

    turned: Turned
    gain: FloatArray
    inverse: FloatArray

    def moved(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return self._weighed(residual, self.gain[at])

    def undone(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return self._weighed(residual, self.inverse)

    def _weighed(self, residual: FloatArray, weights: FloatArray) -> FloatArray:
        root = self.turned.root
        scaled = np.divide(residual, root, out=np.zeros_like(residual), where=root > 0)
        return self.turned.back(self.turned.into(scaled) * weights) * root


class ApartFit(PooledFit):
    """`operators` are those of the columns, in their order."""

    bars_of_interval = True

    def __init__(self, operators: Sequence[BucketOperator]) -> None:
        self._turned, eigen = Turned.of(operators)
        self._eigen = reduce(np.multiply.outer, eigen).reshape(-1)
        bent = [np.arange(len(each)) > 0 for each in eigen]
        order = reduce(np.add.outer, [each.astype(np.int64) for each in bent]).reshape(-1)
        self._flat, self._main = order == 0, order == 1
        self._seen = self._eigen > UNSEEN
        self.rows = float(operators[0].counts.sum())
        self.shares = self._turned.root**2 / max(self.rows, 1.0)
        self.met = self.shares  # independent columns stay so
        most = reduce(np.minimum.outer, [each.counts for each in operators])
        self.counts = np.asarray(most, np.float64).reshape(-1)  # nobody has a combination oftener
        self.cost = len(self.counts)

    def unseen(self) -> FloatArray | None:
        """Along no direction is nothing told, unless some column's buckets tell nothing of it."""
        blind = ~self._seen
        if not blind.any():
            return None
        root = np.maximum(self._turned.root, 1e-150)
        whole = self._turned.back(np.eye(len(blind))[blind])
        return np.asarray((whole.T @ whole) * root / root[:, None])

    def stretch(self, parts: Partition, values: FloatArray) -> FloatArray:
        weights = 1 / np.maximum(self._eigen, UNSEEN)
        noise = TurnedDiagonals(self._turned, weights[None, :])
        found = noise.bilinear(parts, values, values, np.zeros(1, np.int64))[0]
        plain = parts.sums((self._turned.root * values)[None, :] ** 2)[0]
        return np.asarray(found / np.maximum(plain, 1e-300))

    def fit(self, records: FloatArray, beside: FloatArray) -> PoolFit:
        _, residual = self.residual(records, beside)
        root = self._turned.root
        scaled = np.divide(residual, root, out=np.zeros_like(residual), where=root > 0)
        shown = self._turned.into(scaled)
        eigen, rows = self._eigen, max(self.rows, 1.0)
        width = np.zeros_like(shown)
        for pool, number in enumerate(records):
            for chosen, free in (
                (self._main, number - number**2 / rows),
                (~self._main & ~self._flat, number),
            ):
                there = chosen & self._seen
                known = not free > 1e-9 * number
                y = shown[pool, there] * (0.0 if known else math.sqrt(rows / free))
                width[pool, chosen] = _width(y, eigen[there], float(number))
        noise = np.where(self._seen & ~self._flat, (1 - eigen) / np.where(eigen > 0, eigen, 1), 0)
        inverse = np.where(self._seen, 1 / np.where(eigen > 0, eigen, 1), 0.0)
        spread = eigen * width + (1 - eigen)
        gain = np.divide(width, spread, out=np.zeros_like(width), where=spread > 0)
        posterior = np.where(self._seen, gain * (1 - eigen), width)
        return ApartPoolFit(
            self._covariance(posterior),
            self._covariance(width),
            self._covariance(np.tile(noise, (len(records), 1))),
            self._turned,
            gain * self._seen,
            inverse,
        )

    def _covariance(self, variances: FloatArray) -> tuple[PoolMatrices, PoolMatrices]:
        """Of a record, and what the table's totals of each column know of all records together."""
        each, rows = variances / max(self.rows, 1.0), max(self.rows, 1.0)
        return (
            TurnedDiagonals(self._turned, each),
            TurnedDiagonals(self._turned, np.where(self._main, each / rows, 0.0)),
        )


def _width(y: FloatArray, eigen: FloatArray, number: float) -> float:
    """How wide deviations are believed to be, y ~ N(0, λ²k + λ(1 − λ)): the mean over what is
    likely, from 1 (a condition that has nothing to do with values) to its number of records."""
    widths = np.geomspace(1.0, max(number, 2.0), _STEPS)
    spread = eigen**2 * widths[:, None] + eigen * (1 - eigen)
    likely = -0.5 * (np.log(np.maximum(spread, 1e-300)) + y**2 / np.maximum(spread, 1e-300))
    weights = np.exp(likely.sum(axis=1) - likely.sum(axis=1).max())
    return float(weights @ widths / weights.sum())


class PairedLists(Beside):
    """What stands beside records in the buckets of several columns, by combination."""

    def __init__(self, shares: Sequence[csr_array]) -> None:
        self._shares = shares
        self.values = math.prod(each.shape[1] for each in shares)

    def beside(self, moments: Moments, sums: FloatArray) -> FloatArray:
        found = np.zeros((moments.classes, self.values))
        order = np.argsort(moments.of, kind="stable")
        cuts = np.searchsorted(moments.of[order], np.arange(moments.classes + 1))
        step = max(_AT_ONCE // self.values, 1)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            for low in range(int(cuts[number]), int(cuts[number + 1]), step):
                lines = order[low : min(low + step, int(cuts[number + 1]))]
                found[number] += self._met(moments, lines, sums[lines])
        return found

    def _met(self, moments: Moments, lines: IntArray, sums: FloatArray) -> FloatArray:
        *others, last = (
            each[at[lines]].toarray() for each, at in zip(self._shares, moments.shown, strict=True)
        )
        whole = sums[:, None]
        for each in others:
            whole = (whole[:, :, None] * each[:, None, :]).reshape(len(lines), -1)
        return np.asarray((whole.T @ last).reshape(-1))


class ApartEstimator(Estimator):
    """`shares` have, column by column, the share of every value in every bucket."""

    def __init__(
        self, fit: ApartFit, shares: Sequence[csr_array], made: type[ShrunkEstimated]
    ) -> None:
        self._fit, self._made = fit, made
        self._lists = PairedLists(shares)
        self._sizes = tuple(each.shape[1] for each in shares)

    def estimate(self, moments: Moments) -> Estimated:
        codes = np.unravel_index(np.arange(self._lists.values), self._sizes)
        inner = self._made(moments, self._fit, self._lists)
        return CombinedEstimated(inner, tuple(codes), self._sizes)
