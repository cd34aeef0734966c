"""The expected error of counts from buckets that were mixed block by block, without drawing any.

The law is that of `operators.block_law`. How much of which block satisfies a condition is told by
the binned counts that the tree grew on; a range that cuts a bin takes it in proportion.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.blocks import Cut
from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.buckets import BucketPlan
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.block_law import BlockLaw
from sfumato.outlook.prediction.bucket_law import USUAL_DEVIATION
from sfumato.outlook.prediction.laws import Asked, ErrorLaw
from sfumato.profile import BinnedCounts, ColumnBins
from sfumato.workloads.conditions import Between, Condition
from sfumato.workloads.questions import CountQuestion


class LocalLaw(ErrorLaw):
    """For one sensitive column in local buckets; `binned` are the counts that its tree grew on."""

    def __init__(self, plan: BucketPlan, binned: BinnedCounts) -> None:
        self._plan, self._binned = plan, binned
        self.histogram = plan.holdings.counts.astype(np.float64)

    @cached_property
    def _through(self) -> FloatArray:
        assert self._plan.blocks is not None
        return self._plan.blocks.let_through

    @cached_property
    def _law(self) -> BlockLaw:
        return BlockLaw(self._plan.block_table())

    @cached_property
    def _blocks(self) -> IntArray:
        """The block of every cell: cuts lie at the edges of bins."""
        bins = {column.column: column for column in self._binned.columns}
        codes = dict(zip(bins, self._binned.codes, strict=True))

        def first(cut: Cut) -> BoolArray:
            column_bins = bins[cut.column]
            if cut.below is not None:
                return np.arange(column_bins.number) <= column_bins.edges.index(float(cut.below))
            assert column_bins.values is not None
            return np.array(
                [*(value in cut.values for value in column_bins.values), False], np.bool_
            )

        return self._plan.cuts.walk(len(self._binned.counts), codes, first)

    def _inside(self, question: CountQuestion) -> FloatArray:
        """By (block, value): how many people of the block satisfy the conditions."""
        fits = self._binned.counts.astype(np.float64)
        for bins, codes in zip(self._binned.columns, self._binned.codes, strict=True):
            if bins.column in question.conditions:
                fits *= shares_of(bins, question.conditions[bins.column])[codes]
        values, blocks = len(self.histogram), self._plan.cuts.blocks
        at = self._blocks * values + self._binned.values
        counts = np.bincount(at, fits, minlength=blocks * values).astype(np.float64)
        return counts.reshape(blocks, values)

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        inside = self._inside(question)
        # columns that were not counted cut every block alike; the true counts are known
        whole = inside.sum(axis=0)
        inside *= np.divide(counts, whole, out=np.zeros_like(whole), where=whole > 0)
        inside = np.minimum(inside, self._law.table.counts)
        bias, covariance = self._law.moments(inside)
        biases = np.array([bias[values].sum() for values in asked])
        variances = np.array([covariance[np.ix_(values, values)].sum() for values in asked])
        return expected_absolute(biases, variances)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        """As if every block let through what usual conditions let of it, on average."""
        hidden, seen = self._law.matrices(self._through)
        eigenvalues, vectors = np.linalg.eigh(seen)
        squares, eigenvalues = (hidden @ vectors) ** 2, np.maximum(eigenvalues, 0.0)
        people = np.where(self.histogram > 0, self.histogram, np.nan)
        errors = np.empty((len(sizes), len(people)))
        for index, size in enumerate(sizes):
            share = np.minimum(size / people, 1.0)
            free = share * (1 - share)
            spread = np.divide(
                USUAL_DEVIATION, (1 - share) ** 2, out=np.zeros_like(people), where=share < 1
            )[:, None]
            left = squares * spread / (1 + spread * free[:, None] * eigenvalues)
            variance = free * np.diag(hidden) + free**2 * left.sum(axis=1)
            errors[index] = expected_absolute(0.0, variance)
        return errors


def shares_of(bins: ColumnBins, condition: Condition) -> npt.NDArray[np.float64]:
    """How much of every bin satisfies a condition; one that is cut counts in proportion.

    >>> shares_of(ColumnBins("age", edges=(20.0, 30.0, 50.0)), Between(25, 39)).tolist()
    [0.0, 0.5, 0.5, 0.0]
    """
    if bins.values is not None:
        return np.array([*(condition.holds_json(value) for value in bins.values), 0.0], np.float64)
    if not isinstance(condition, Between):
        pieces = [Between(v, v) for v in condition.values if v is not None]
        shares = sum((shares_of(bins, piece) for piece in pieces), np.zeros(bins.number))
        return np.asarray(np.minimum(shares, 1.0))
    whole = isinstance(condition.low, int) and isinstance(condition.high, int)
    low, high = float(condition.low), float(condition.high) + whole
    edges = np.array(bins.edges)
    inside = np.clip(
        (np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1])) / np.diff(edges), 0.0, 1.0
    )
    return np.array([float(low < edges[0]), *inside, float(high > edges[-1])])
