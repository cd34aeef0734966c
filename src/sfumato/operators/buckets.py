"""Buckets are operators too: how often values meet in a bucket (methods, section 1).

A bucketed release shows o_x(A) = Σ_g n_A(g)·c_x(g)/|g| for the records that satisfy a condition A.
Records reach the slots of their value by a uniform permutation, so E[o_x(A)] = Σ_x' n_{A,x'}·
M[x', x] with M[x', x] = Σ_g c_x'(g)·c_x(g)/|g| / o_x'. Everything here follows from the contents
of the buckets, which the sensitive table shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

UNSEEN = 1e-9  # an eigenvalue that rounding cannot tell from 0
NEARLY_SINGULAR = 1e-4  # of the largest eigenvalue, which is 1
_SPARSE = 8  # where fewer than one in so many cells are anything, the others are not multiplied
_DENSE_CELLS = 1 << 18  # that are written out at once


@dataclass(frozen=True, eq=False)
class BucketKinds:
    """Buckets of equal contents: kind t occurs `times[t]` times and holds `counts` of `values`.

    The entries of kind t are those with `kinds == t`; `kinds` is sorted.
    """

    times: IntArray
    kinds: IntArray
    values: IntArray
    counts: IntArray

    def held(self, values: int) -> csr_array:
        """Counts by (kind, value), of so many values."""
        from scipy.sparse import csr_array

        shape = (len(self.times), values)
        return csr_array((self.counts.astype(np.float64), (self.kinds, self.values)), shape=shape)

    def together(self, values: int) -> FloatArray:
        """C[x, y] = Σ_g c_x(g)·c_y(g)/|g| over these buckets.

        >>> pair = BucketKinds(*map(np.array, ([3], [0, 0], [0, 1], [1, 1])))
        >>> pair.together(2).tolist()
        [[1.5, 1.5], [1.5, 1.5]]
        """
        counts = self.held(values)
        weights = self.times / counts.sum(axis=1)
        return met_often(counts, weights)


@dataclass(frozen=True, eq=False)
class BucketOperator:
    """The operator of a set of buckets, and how the observed shares scatter around it.

    >>> pairs = BucketKinds(*map(np.array, ([2, 1], [0, 0, 1, 1], [0, 1, 0, 2], [1, 1, 1, 1])))
    >>> operator = BucketOperator.of([pairs], 3)
    >>> operator.matrix()[0].round(3).tolist()
    [0.5, 0.333, 0.167]
    """

    counts: FloatArray  # o_x: how often a value stands in the buckets
    together: FloatArray  # C[x, y] = Σ_g c_x(g)·c_y(g)/|g|

    @classmethod
    def of(cls, pieces: Iterable[BucketKinds], values: int) -> BucketOperator:
        """Sum over buckets that come in pieces."""
        counts, together = np.zeros(values), np.zeros((values, values))
        for piece in pieces:
            counts += piece.times @ piece.held(values)
            together += piece.together(values)
        return cls(counts, together)

    def matrix(self) -> FloatArray:
        """M; a value that no bucket holds keeps to itself."""
        return self._matrix

    @cached_property
    def _matrix(self) -> FloatArray:
        matrix = self.together / np.maximum(self.counts, 1)[:, None]
        absent = self.counts == 0
        matrix[absent, absent] = 1.0
        return matrix

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues (ascending) and vectors of C scaled to o = 1: M's, which lie in [0, 1]."""
        root, absent = np.sqrt(np.maximum(self.counts, 1)), self.counts == 0
        scaled = self.together / root / root[:, None]
        scaled[absent, absent] = 1.0
        values, vectors = np.linalg.eigh(scaled)
        return values, vectors

    @cached_property
    def seen_inverse(self) -> FloatArray:
        """M⁻¹ along all directions that the buckets tell anything of, 0 along the others."""
        values, vectors = self.spectrum
        seen, root = values > UNSEEN, np.sqrt(np.maximum(self.counts, 1))
        inverse = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
        return np.asarray(inverse * root / root[:, None])

    @property
    def condition(self) -> float:
        """How much the inverse may amplify noise: largest over smallest eigenvalue of M."""
        smallest = float(self.spectrum[0][0])
        return 1 / smallest if smallest > 1e-12 else float("inf")

    def confused(self) -> IntArray:
        """Codes of the values that the buckets cannot tell apart, or hardly can."""
        values, vectors = self.spectrum
        weak = vectors[:, values < NEARLY_SINGULAR]
        if not weak.shape[1]:
            return np.empty(0, np.int64)
        return np.asarray(np.flatnonzero(np.sqrt((weak**2).sum(axis=1)) > 0.05), np.int64)

    def noise(self, spread: FloatArray) -> FloatArray:
        """Cov(o) for Σ_x spread_x·Cov_x, Cov_x being that of s_g = c(g)/|g| over the slots
        of x: here all are taken as their mean; `spread` by value along the last axis.

        For n_{A,x} of the o_x records of x, chosen at random among the slots without replacement,
        spread_x = n_{A,x}(1 − n_{A,x}/o_x)·o_x/(o_x − 1).
        """
        matrix = self.matrix()
        scatter = self.together - matrix.T @ (self.counts[:, None] * matrix)
        whole = spread.sum(axis=-1)[..., None, None] / max(float(self.counts.sum()), 1.0)
        return np.asarray(scatter * whole)


def met_often(held: csr_array, weights: FloatArray) -> FloatArray:
    """heldᵀ·diag(weights)·held, for counts by (bucket, value).

    Large buckets hold many of the values. Their entries are multiplied a hundred times faster in
    dense rows, a few rows at a time, than as sparse ones.

    >>> from scipy.sparse import csr_array
    >>> met_often(csr_array(np.array([[1.0, 1.0], [0.0, 2.0]])), np.array([1.0, 0.5])).tolist()
    [[1.0, 1.0], [1.0, 3.0]]
    """
    from scipy.sparse import csr_array

    rows, values = held.shape
    if held.nnz * _SPARSE < rows * values:
        return np.asarray((csr_array(held * weights[:, None]).T @ held).toarray())
    meetings, step = np.zeros((values, values)), max(1, _DENSE_CELLS // values)
    for low in range(0, rows, step):
        dense = held[low : low + step].toarray()
        meetings += (dense * weights[low : low + step, None]).T @ dense
    return meetings
