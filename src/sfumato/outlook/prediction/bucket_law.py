"""The expected error of the `shrunk` estimate from buckets, without drawing any.

The law is that of `operators.block_law`. How much of which block satisfies a condition is told by
the binned counts that the tree of blocks grew on; a range that cuts a bin takes it in proportion.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.mechanisms.buckets import BucketPlan
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.block_law import BlockLaw
from sfumato.outlook.prediction.laws import Asked, ErrorLaw
from sfumato.profile import ColumnBins
from sfumato.workloads.conditions import Between, Condition
from sfumato.workloads.questions import CountQuestion

USUAL_DEVIATION = 0.25  # τ², where only a histogram is known: counts half off from independence


class BucketLaw(ErrorLaw):
    """For one sensitive column in buckets, by its place among them."""

    def __init__(self, plan: BucketPlan, view: int) -> None:
        self._plan, self._view = plan, view
        self.histogram: FloatArray = plan.holdings.views[view].counts.astype(np.float64)

    @cached_property
    def _law(self) -> BlockLaw:
        return BlockLaw(self._plan.block_table(self._view))

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

    def _inside(self, question: CountQuestion) -> FloatArray:
        """By (block, value): how many people of the block satisfy the conditions."""
        if self._plan.blocks is None:
            return self.histogram[None, :].copy()
        binned, block = self._plan.blocks.binned, self._plan.blocks.block
        fits = binned.counts.astype(np.float64)
        for bins, codes in zip(binned.columns, binned.codes, strict=True):
            if bins.column in question.conditions:
                fits *= shares_of(bins, question.conditions[bins.column])[codes]
        shape = self._plan.cuts.blocks, len(self.histogram)
        at = block * shape[1] + self._plan.holdings.of[binned.values, self._view]
        counts = np.bincount(at, fits, shape[0] * shape[1]).astype(np.float64)
        return counts.reshape(shape)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        """As if every block let through what usual conditions let of it, on average."""
        people = np.where(self.histogram > 0, self.histogram, np.nan)
        share = np.minimum(sizes[:, None] / people, 1.0)
        deviation = USUAL_DEVIATION / np.maximum(1 - share, 1e-9) ** 2
        law = self._plan.foretold(self._view)
        return expected_absolute(0.0, law.variances(share * (1 - share), deviation))


def shares_of(bins: ColumnBins, condition: Condition) -> FloatArray:
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
