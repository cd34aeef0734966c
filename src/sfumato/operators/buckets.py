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

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_MOMENTS = 128  # values: with more, the third moments would not fit
UNSEEN = 1e-9  # an eigenvalue that rounding cannot tell from 0
NEARLY_SINGULAR = 1e-4  # of the largest eigenvalue, which is 1
_SPARSE = 8  # where fewer than one in so many cells are anything, the others are not multiplied
_DENSE_CELLS = 1 << 18  # that are written out at once
UNTOLD = 0.25 / NEARLY_SINGULAR  # times the noise of a count that needs no undoing


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
    moments: FloatArray | None  # Σ_g c_x(g)·s_g·s_gᵀ by x, s_g = c(g)/|g|; None for many values

    @classmethod
    def of(cls, pieces: Iterable[BucketKinds], values: int) -> BucketOperator:
        """Sum over buckets that come in pieces. Cost: Σ |g|³ over the kinds, sparse."""
        from scipy.sparse import csr_array

        counts = np.zeros(values)
        together = np.zeros((values, values))
        few = values <= MOST_MOMENTS
        moments = np.zeros((values, values * values)) if few else None
        for piece in pieces:
            counts_by_kind = piece.held(values)
            counts += piece.times @ counts_by_kind
            together += piece.together(values)
            if moments is not None:
                share = csr_array(counts_by_kind / counts_by_kind.sum(axis=1)[:, None])
                weighted = csr_array(counts_by_kind * piece.times[:, None])
                moments += (weighted.T @ _pairs(share)).toarray()
        cube = None if moments is None else moments.reshape(values, values, values)
        return cls(counts, together, cube)

    @property
    def has_many_values(self) -> bool:
        return len(self.counts) > MOST_MOMENTS

    def matrix(self) -> FloatArray:
        """M; a value that no bucket holds keeps to itself."""
        return self._matrix

    @cached_property
    def _matrix(self) -> FloatArray:
        matrix = self.together / np.maximum(self.counts, 1)[:, None]
        absent = self.counts == 0
        matrix[absent, absent] = 1.0
        return matrix

    def met(self, shares: FloatArray) -> FloatArray:
        """Mᵀ·shares."""
        meetings = (shares / np.maximum(self.counts, 1)) @ self.together
        return np.asarray(np.where(self.counts == 0, shares, meetings))

    @cached_property
    def inverse(self) -> FloatArray:
        """M⁻¹."""
        return np.asarray(np.linalg.inv(self.matrix()))

    def scaled(self) -> FloatArray:
        """C̃ = o^(-½)·C·o^(-½), symmetric, with M's eigenvalues."""
        root = np.sqrt(np.maximum(self.counts, 1))
        scaled = self.together / root
        scaled /= root[:, None]
        absent = self.counts == 0
        scaled[absent, absent] = 1.0
        return np.asarray(scaled)

    def scaled_inverse(self, ridge: float) -> FloatArray:
        """(C̃ + ridge)⁻¹ by Cholesky. Cost: values³."""
        from scipy.linalg.lapack import dpotrf, dpotri

        scaled = self.scaled()
        places = np.arange(len(scaled))
        scaled[places, places] += ridge
        factor, failed = dpotrf(scaled.T, lower=0, overwrite_a=1)
        while failed:  # rounding made it indefinite
            ridge *= 10
            scaled = self.scaled()
            scaled[places, places] += ridge
            factor, failed = dpotrf(scaled.T, lower=0, overwrite_a=1)
        upper, _ = dpotri(factor, lower=0, overwrite_c=1)
        for index in range(len(upper) - 1):
            upper[index + 1 :, index] = upper[index, index + 1 :]
        return np.asarray(upper)

    @cached_property
    def undoing(self) -> FloatArray:
        """C̃⁻¹, made once; directions that no bucket tells of are stretched by 10⁹."""
        return self.scaled_inverse(UNSEEN)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues (ascending) and vectors of C scaled to o = 1: M's, which lie in [0, 1]."""
        values, vectors = np.linalg.eigh(self.scaled())
        return values, vectors

    @cached_property
    def _seen(self) -> BoolArray:
        return self.spectrum[0] > UNSEEN

    @cached_property
    def seen_inverse(self) -> FloatArray:
        """M⁻¹ along all directions that the buckets tell anything of, 0 along the others."""
        values, vectors = self.spectrum
        seen = vectors[:, self._seen]
        return self._unscaled((seen / values[self._seen]) @ seen.T)

    @cached_property
    def unseen(self) -> FloatArray | None:
        """What is left of a linear form of counts beyond M·M⁻¹; None where all is seen."""
        if self._seen.all():
            return None
        blind = self.spectrum[1][:, ~self._seen]
        return self._unscaled(blind @ blind.T)

    def _unscaled(self, matrix: FloatArray) -> FloatArray:
        root = np.sqrt(np.maximum(self.counts, 1))
        return np.asarray(matrix * root / root[:, None])

    @property
    def condition(self) -> float:
        """How much the inverse may amplify noise: largest over smallest eigenvalue of M."""
        smallest = float(self.spectrum[0][0])
        return 1 / smallest if smallest > 1e-12 else float("inf")

    def confused(self) -> IntArray:
        """Codes of the values that the buckets cannot tell apart, or hardly can."""
        if self.has_many_values:
            return np.asarray(np.flatnonzero(np.diagonal(self.undoing) > UNTOLD), np.int64)
        values, vectors = self.spectrum
        weak = vectors[:, values < NEARLY_SINGULAR]
        if not weak.shape[1]:
            return np.empty(0, np.int64)
        return np.asarray(np.flatnonzero(np.sqrt((weak**2).sum(axis=1)) > 0.05), np.int64)

    @cached_property
    def scatter(self) -> FloatArray:
        """Σ_x o_x·Cov_x: how the observed o would scatter if every record were drawn anew.

        Cov_x is the covariance of s_g over the slots of x; Σ_g |g|·s_g·s_gᵀ is C itself.
        """
        matrix = self.matrix()
        scatter: FloatArray = self.together - matrix.T @ (self.counts[:, None] * matrix)
        return scatter

    def noise(self, spread: FloatArray) -> FloatArray:
        """Cov(o) for Σ_x spread_x·Cov_x; `spread` by value along the last axis.

        For n_{A,x} of the o_x records of x, chosen at random among the slots without replacement,
        spread_x = n_{A,x}(1 − n_{A,x}/o_x)·o_x/(o_x − 1). With many values all Cov_x are taken as
        their mean.
        """
        if self.moments is None:
            whole = spread.sum(axis=-1)[..., None, None] / max(self.counts.sum(), 1)
            return np.asarray(self.scatter * whole)
        matrix = self.matrix()
        per_record = spread / np.maximum(self.counts, 1)
        second = np.tensordot(per_record, self.moments, axes=1)
        noise: FloatArray = second - matrix.T @ (spread[..., :, None] * matrix)
        return noise


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


def _pairs(share: csr_array) -> csr_array:
    """Row by row, s_g·s_gᵀ written out flat."""
    from scipy.sparse import csr_array

    rows, values = share.shape
    lengths = np.diff(share.indptr)
    repeat = np.repeat(lengths, lengths)  # each entry meets all entries of its row
    first = np.repeat(np.arange(share.nnz), repeat)
    starts = np.repeat(share.indptr[:-1], lengths**2)
    within = np.arange(len(first)) - np.repeat(
        np.concatenate([[0], np.cumsum(lengths**2)[:-1]]), lengths**2
    )
    second = starts + within % np.repeat(lengths, lengths**2)
    column = share.indices[first].astype(np.int64) * values + share.indices[second]
    pointers = np.concatenate([[0], np.cumsum(lengths**2)])
    data = share.data[first] * share.data[second]
    return csr_array((data, column, pointers), shape=(rows, values * values))
