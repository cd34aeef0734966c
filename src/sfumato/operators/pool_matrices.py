"""Covariances of many groups at once, as far as linear forms of them are asked for.

A group (a *pool*) has a covariance of its values' estimates. Few values are held as whole matrices;
of many values only what gives them shape: a diagonal whose sum is known, or one matrix that all
pools share up to a factor. Each answers hᵀ·C·k over the values of every form of a partition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray


@dataclass(frozen=True, eq=False)
class Partition:
    """Values by form: a value is in one form of a profile, or in none (−1).

    >>> parts = Partition(np.array([0, 1, 1, -1]), 2)
    >>> parts.sums(np.array([[1.0, 2.0, 3.0, 4.0]])).tolist()
    [[1.0, 5.0]]
    """

    of: IntArray
    forms: int

    @cached_property
    def _asked(self) -> IntArray:
        return np.flatnonzero(self.of >= 0)

    def sums(self, by_value: FloatArray) -> FloatArray:
        """Sums over the values of every form, by (pool, form)."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self._asked))
        shape = (len(self.of), self.forms)
        return np.asarray(by_value @ csr_array((ones, (self._asked, self.of[self._asked])), shape))

    @cached_property
    def alone(self) -> tuple[IntArray, IntArray]:
        """The values that are a form by themselves, and which."""
        many = np.bincount(self.of[self._asked], minlength=self.forms)
        values = self._asked[many[self.of[self._asked]] == 1]
        return values, self.of[values]

    @cached_property
    def larger(self) -> list[tuple[int, IntArray]]:
        """The other forms, each with its values."""
        order = self._asked[np.argsort(self.of[self._asked], kind="stable")]
        cuts = np.searchsorted(self.of[order], np.arange(self.forms + 1))
        return [
            (form, order[cuts[form] : cuts[form + 1]])
            for form in np.flatnonzero(np.diff(cuts) > 1).tolist()
        ]


class PoolMatrices(ABC):
    """A covariance for every pool."""

    def bilinear(
        self, parts: Partition, one: FloatArray, other: FloatArray, at: IntArray
    ) -> FloatArray:
        """oneᵀ·C·other over the values of every form, by (place in `at`, form)."""
        pools, where = np.unique(at, return_inverse=True)
        return np.asarray(self._bilinear(parts, one, other, pools)[where])

    @abstractmethod
    def _bilinear(
        self, parts: Partition, one: FloatArray, other: FloatArray, pools: IntArray
    ) -> FloatArray:
        """For different pools."""

    @abstractmethod
    def quadratic(self, vectors: FloatArray, at: IntArray) -> FloatArray:
        """vᵀ·C·v for vectors over all values, each with the C of its pool."""


@dataclass(frozen=True, eq=False)
class WholeMatrices(PoolMatrices):
    """Matrices by (pool, value, value)."""

    matrices: FloatArray

    def _bilinear(
        self, parts: Partition, one: FloatArray, other: FloatArray, pools: IntArray
    ) -> FloatArray:
        found = np.zeros((len(pools), parts.forms))
        values, forms = parts.alone
        found[:, forms] = self.matrices[pools[:, None], values, values] * (one * other)[values]
        for form, inside in parts.larger:
            block = self.matrices[pools[:, None, None], inside[:, None], inside]
            found[:, form] = (block @ other[inside]) @ one[inside]
        return found

    def quadratic(self, vectors: FloatArray, at: IntArray) -> FloatArray:
        found = np.zeros(len(vectors))
        for pool, chosen in by_pool(at):
            each = vectors[chosen]
            found[chosen] = ((each @ self.matrices[pool]) * each).sum(axis=1)
        return found


@dataclass(frozen=True, eq=False)
class TiedDiagonals(PoolMatrices):
    """Independent deviations of `variances` by (pool, value) whose sum is known to be 0."""

    variances: FloatArray

    def _bilinear(
        self, parts: Partition, one: FloatArray, other: FloatArray, pools: IntArray
    ) -> FloatArray:
        variances = self.variances[pools]
        first = parts.sums(variances * one)
        second = first if other is one else parts.sums(variances * other)
        tie = first * second / _total(variances)[:, None]
        return np.asarray(parts.sums(variances * (one * other)) - tie)

    def quadratic(self, vectors: FloatArray, at: IntArray) -> FloatArray:
        variances = self.variances[at]
        straight = (variances * vectors**2).sum(axis=1)
        tie = (variances * vectors).sum(axis=1) ** 2 / _total(variances)
        return np.asarray(straight - tie)


@dataclass(frozen=True, eq=False)
class SharedMatrix(PoolMatrices):
    """One matrix for all pools, times a factor for each."""

    matrix: FloatArray
    factors: FloatArray

    def _bilinear(
        self, parts: Partition, one: FloatArray, other: FloatArray, pools: IntArray
    ) -> FloatArray:
        found = np.zeros(parts.forms)
        values, forms = parts.alone
        found[forms] = self.matrix[values, values] * (one * other)[values]
        for form, inside in parts.larger:
            found[form] = one[inside] @ self.matrix[inside[:, None], inside] @ other[inside]
        return np.asarray(self.factors[pools, None] * found)

    def quadratic(self, vectors: FloatArray, at: IntArray) -> FloatArray:
        return np.asarray(self.factors[at] * ((vectors @ self.matrix) * vectors).sum(axis=1))


def _total(variances: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(variances.sum(axis=1), 1e-300))


def by_pool(at: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The places of every pool that is named."""
    order = np.argsort(at, kind="stable")
    pools, starts = np.unique(at[order], return_index=True)
    return zip(pools.tolist(), np.split(order, starts[1:]), strict=True)
