"""Questions about some of the columns that share buckets: the others are what a condition may hide.

People were dealt by all that they hold, their *kind*. What stands beside a value of one column
therefore differs with the values of the others, and a condition may go with these: sexes differ in
education among people of one occupation. So the counts n_a of what is asked are unknown numbers,
and how a condition composes each of them of kinds is a random effect, as wide as the release shows.

In coordinates n_t/√o_t the operator of the kinds is symmetric, C̃ = VΛVᵀ, and the noise of random
slots is ν·(C̃ − C̃²), ν = (records − records²/N)/N. A composition drawn from a Dirichlet law scatters
by ν·k in every direction but those of L, whose columns √(o_t/o_a) stand for the asked counts: k is
1 where a condition has nothing to do with kinds, and grows with its records otherwise. The other
columns by themselves (directions R) may go with a condition more than their interplay does, by
k + j. With X = ΛVᵀL, Z = ΛVᵀR and y = Vᵀo/√o (less what independence foretells), that is the mixed
model y ~ X·n_a/√o_a + Z·N(0, νj) + N(0, ν·S), S = Λ²k + Λ(1 − Λ), up to k along X itself, which
drops out of the estimate and is taken off its covariance (Henderson's equations).

k and j are what the residuals make likely (restricted likelihood), as means, so that it counts how
little these may tell. Cost: one eigenvalue problem of the kinds for a release, then O(kinds ·
(asked + others)²) a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import NOTHING, tied
from sfumato.operators.buckets import UNSEEN, BucketOperator
from sfumato.operators.pool_matrices import WholeMatrices
from sfumato.operators.pools import PooledFit, PoolFit, by_pools

_STEPS = 16  # sizes of a random effect that are weighed against one another
_FLAT = 1e9  # times ν: how far, squared, a count that no bucket tells may lie from independence


@dataclass(frozen=True, eq=False)
class ColumnsFit(PoolFit):
    """From what stands beside to how far estimates move, by (pool, kind, asked)."""

    gain: FloatArray
    undoing: FloatArray

    def moved(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return by_pools(residual, self.gain, at)

    def undone(self, residual: FloatArray, at: IntArray) -> FloatArray:
        return by_pools(residual, self.undoing, at)


class OtherColumns(PooledFit):
    """`operator` is that of the kinds; kind t counts for `asked[t]`, and has `others[j][t]` in the
    columns that are not asked about."""

    bars_of_interval = True

    def __init__(
        self, operator: BucketOperator, asked: IntArray, others: Sequence[IntArray]
    ) -> None:
        super().__init__(operator, operator.counts)
        self.counts = np.asarray(np.bincount(asked, operator.counts), np.float64)
        self.shares = self.counts / max(self.rows, 1.0)
        self.cost = len(asked) * len(self.counts)
        values, vectors = operator.spectrum
        seen = values > UNSEEN
        self._eigen: FloatArray = np.minimum(values[seen], 1.0)
        self._vectors: FloatArray = vectors[:, seen]
        self._root = np.sqrt(np.maximum(operator.counts, 1.0))
        along = _directions(operator.counts, asked)
        beside = np.concatenate([_directions(operator.counts, each) for each in others], axis=1)
        beside = _orthonormal(beside - along @ (along.T @ beside))
        into = self._eigen[:, None] * self._vectors.T
        self._design = into @ np.concatenate([along, beside], axis=1)  # X and Z

    def fit(self, records: FloatArray, beside: FloatArray) -> ColumnsFit:
        _, residual = self.residual(records, beside)
        free = records - records**2 / max(self.rows, 1.0)
        asked = len(self.counts)
        posterior, prior, noise = np.zeros((3, len(records), asked, asked))
        gain, undoing = np.zeros((2, len(records), len(self._root), asked))
        shown = (residual / self._root) @ self._vectors
        root = np.sqrt(np.maximum(self.counts, 1.0))
        scale = root[:, None] * root / max(self.rows, 1.0)
        for pool, number in enumerate(records):
            known = not free[pool] > NOTHING * number
            y = shown[pool] * (0.0 if known else np.sqrt(self.rows / free[pool]))
            weights, spread = self._least_squares(*self._widths(y, float(number)))
            believed = self._believed(weights.T @ y, spread, float(number))
            own = believed @ np.linalg.pinv(believed + spread, hermitian=True)
            into = (self._vectors / self._root[:, None]) @ weights
            undoing[pool] = into * root
            gain[pool] = (into @ own.T) * root
            posterior[pool] = (believed - own @ believed) * scale
            prior[pool], noise[pool] = believed * scale, spread * scale
        first, second, third = (
            (WholeMatrices(each), WholeMatrices(each / max(self.rows, 1.0)))
            for each in (posterior, prior, noise)
        )
        return ColumnsFit(first, second, third, gain, undoing)

    def _spread(self, width: float) -> FloatArray:
        """S for ν = 1."""
        return np.asarray(self._eigen**2 * width + self._eigen * (1 - self._eigen))

    def _least_squares(self, width: float, beside: float) -> tuple[FloatArray, FloatArray]:
        """From y to the asked counts, by (component, asked), and their covariance for ν = 1."""
        asked = len(self.counts)
        weighed = self._design / self._spread(width)[:, None]
        told = self._design.T @ weighed
        told[np.diag_indices_from(told)] += np.where(
            np.arange(len(told)) < asked, 1 / _FLAT, 1 / max(beside, 1 / _FLAT)
        )
        inverse = np.linalg.inv(told)[:, :asked]
        spread = inverse[:asked] - width * np.eye(asked)
        return weighed @ inverse, (spread + spread.T) / 2

    def _widths(self, y: FloatArray, number: float) -> tuple[float, float]:
        """k and j: their means over what the residuals make likely."""
        widths = np.geomspace(1.0, max(number, 2.0), _STEPS)
        others = np.concatenate([[0.0], widths])
        likely = np.array([self._likely(y, width, others) for width in widths])
        weights = np.exp(likely - likely.max())
        weights /= weights.sum()
        return float(weights.sum(axis=1) @ widths), float(weights.sum(axis=0) @ others)

    def _likely(self, y: FloatArray, width: float, others: FloatArray) -> FloatArray:
        """The restricted log likelihood of k with every j."""
        asked, spread = len(self.counts), self._spread(width)
        weighed = self._design / spread[:, None]
        told, along = self._design.T @ weighed, weighed.T @ y
        own = told[:asked, :asked] + np.eye(asked) / _FLAT
        solved = np.linalg.solve(own, np.column_stack([told[:asked, asked:], along[:asked]]))
        left = along[asked:] - told[asked:, :asked] @ solved[:, -1]
        values, vectors = np.linalg.eigh(
            told[asked:, asked:] - told[asked:, :asked] @ solved[:, :-1]
        )
        grown = 1 + np.maximum(values, 0.0) * others[:, None]  # by (j, direction)
        gained = others * ((vectors.T @ left) ** 2 / grown).sum(axis=1)
        fixed = np.log(spread).sum() + np.linalg.slogdet(own)[1]
        fixed += (y**2 / spread).sum() - along[:asked] @ solved[:, -1]
        return np.asarray(-0.5 * (fixed + np.log(grown).sum(axis=1) - gained))

    def _believed(self, found: FloatArray, spread: FloatArray, number: float) -> FloatArray:
        """How far counts are believed to lie from independence, for ν = 1 (see `Shrunk`)."""
        deviations = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, _STEPS)])
        likely = np.empty(len(deviations))
        for place, deviation in enumerate(deviations):
            values, vectors = np.linalg.eigh(self._tied(deviation, number) + spread)
            kept = values > NOTHING * max(values[-1], 1e-300)
            along = vectors[:, kept].T @ found
            likely[place] = -0.5 * (np.log(values[kept]) + along**2 / values[kept]).sum()
        weights = np.exp(likely - likely.max())
        return self._tied(float(weights @ deviations / weights.sum()), number)

    def _tied(self, deviation: float, number: float) -> FloatArray:
        share = np.maximum(self.shares, 1e-300)
        believed = tied((deviation * number * share**2 + share)[None, :])[0]
        return np.asarray(believed / np.sqrt(share) / np.sqrt(share)[:, None])


def _directions(counts: FloatArray, of: IntArray) -> FloatArray:
    """√(o_t/o_a) by (kind, value), value a being that of kind t."""
    found = np.zeros((len(of), int(of.max(initial=-1)) + 1))
    whole = np.bincount(of, counts)
    found[np.arange(len(of)), of] = np.sqrt(counts / np.maximum(whole, 1.0)[of])
    return found


def _orthonormal(directions: FloatArray) -> FloatArray:
    """A basis of what the columns span."""
    found, sizes, _ = np.linalg.svd(directions, full_matrices=False)
    return np.asarray(found[:, sizes > 1e-9])
