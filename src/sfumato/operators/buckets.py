"""Buckets are operators too: how often values meet in a bucket (methods, section 1).

A bucketed release shows o_x(A) = Σ_g n_A(g)·c_x(g)/|g| for the records that satisfy a condition A.
Records reach the slots of their value by a uniform permutation, so E[o_x(A)] = Σ_x' n_{A,x'}·
M[x', x] with M[x', x] = Σ_g c_x'(g)·c_x(g)/|g| / o_x'. Everything here follows from the contents
of the buckets, which the sensitive table shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
class BucketOperator:
    """The operator of a set of buckets, and how the observed shares scatter around it.

    >>> from scipy.sparse import csr_array
    >>> shares = csr_array(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]]))
    >>> operator = BucketOperator.of(shares, np.array([2, 2, 2]))
    >>> operator.matrix[0].round(3).tolist()
    [0.5, 0.333, 0.167]
    """

    counts: FloatArray  # o_x: how often a value stands in the buckets
    together: FloatArray  # C[x, y] = Σ_g c_x(g)·c_y(g)/|g|

    @classmethod
    def of(cls, shares: csr_array, sizes: FloatArray | IntArray) -> BucketOperator:
        """From the shares of values by bucket, and how many it lists."""
        from scipy.sparse import csr_array

        met = csr_array(met_often(shares, sizes))
        return cls(np.rint(sizes @ shares), met.toarray())

    @cached_property
    def matrix(self) -> FloatArray:
        """M; a value that no bucket holds keeps to itself."""
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

    def confused(self) -> IntArray:
        """Codes of the values that the buckets cannot tell apart, or hardly can."""
        values, vectors = self.spectrum
        weak = vectors[:, values < NEARLY_SINGULAR]
        if not weak.shape[1]:
            return np.empty(0, np.int64)
        return np.asarray(np.flatnonzero(np.sqrt((weak**2).sum(axis=1)) > 0.05), np.int64)


def met_often(held: csr_array, weights: FloatArray | IntArray) -> Any:
    """heldᵀ·diag(weights)·held, for counts by (bucket, value); sparse where they are.

    Large buckets hold many of the values. Their entries are multiplied a hundred times faster in
    dense rows, a few rows at a time, than as sparse ones.

    >>> from scipy.sparse import csr_array
    >>> met_often(csr_array(np.array([[1.0, 1.0], [0.0, 2.0]])), np.array([1.0, 0.5])).tolist()
    [[1.0, 1.0], [1.0, 3.0]]
    """
    from scipy.sparse import csr_array

    rows, values = held.shape
    is_sparse = held.nnz * _SPARSE < rows * values
    meetings: Any = csr_array((values, values)) if is_sparse else np.zeros((values, values))
    step = max(1, _DENSE_CELLS // (1 if is_sparse else values))
    for low in range(0, rows, step):
        some = held[low : low + step]
        entries = some if is_sparse else some.toarray()
        meetings += (entries * weights[low : low + step, None]).T @ entries
    return meetings
