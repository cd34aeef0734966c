"""The shape of a rule P(value | quasi) that is fitted to a release, and its fit to some units.

Softmax on the quasi values, on coarse groups of them, and on pairs of the coarse groups of the
columns that tell most (methods, section 8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Design, Links, RecordLikelihoods, fit_links
from sfumato.queries.quasi_codes import QuasiCode

CELLS = 1 << 23  # (records, values) that are read at most
Normal = Callable[[int], FloatArray]  # so many standard normal numbers

_RIDGE = 5.0  # the slopes of quasi values have a variance of about 1/5
_PAIR = 0.5  # so that those of pairs have a quarter of that
_PAIRED = 7  # columns, at most
_COARSE = 6  # groups of a column's values
_STILL = 1e-8  # large counts need the likelihood's maximum, not its neighbourhood


@dataclass(frozen=True, eq=False)
class Sample:
    """Records of a release as codes, and what they show."""

    coded: Sequence[QuasiCode]  # by quasi column
    codes: Sequence[IntArray]
    shown: IntArray  # the symbol of every record
    weights: FloatArray  # (symbols, values): what a symbol counts towards a value, unbiased
    units: int  # of records: what is independent of the others, numbered from 0 on
    read: Callable[[IntArray], tuple[RecordLikelihoods, FloatArray]]
    # what symbols tell and the shares of values, as far as some units know


@dataclass(frozen=True, eq=False)
class RuleShape:
    """The columns of a rule: quasi columns, then pairs of their coarse codes."""

    coarse: tuple[IntArray, ...]  # by column: the coarse code of every code
    pairs: IntArray  # (pairs, 2): columns that are also looked at together
    design: Design
    scales: tuple[float, ...]  # by column: slopes of pairs are smaller

    @classmethod
    def of(cls, sample: Sample) -> RuleShape:
        """The shape that fits a sample."""
        sizes = [column.size for column in sample.coded]
        coarse = tuple(
            coarse_codes(np.bincount(codes, minlength=column.size), column.is_ordered)
            for codes, column in zip(sample.codes, sample.coded, strict=True)
        )
        pairs = np.array(list(combinations(_telling(sample, coarse), 2)), np.int64)
        pairs = pairs.reshape(-1, 2)
        features = with_pairs(sample.codes, coarse, pairs)
        many = [*sizes, *(_many(coarse[i]) * _many(coarse[j]) for i, j in pairs.tolist())]
        scales = (1.0,) * len(sample.codes) + (_PAIR,) * len(pairs)
        bins = {
            index: codes
            for index, (codes, size) in enumerate(zip(coarse, sizes, strict=True))
            if _many(codes) < size
        }
        return cls(coarse, pairs, Design.joined(_blocks(features, many, scales), bins), scales)

    def draw(
        self, evidence: RecordLikelihoods, prior: FloatArray, half: IntArray, normal: Normal
    ) -> Links:
        """A rule as likely as any other, given what is seen of all units and the ridge as a prior.

        A random half, counted twice, disturbs the likelihood by as much as the units themselves
        do, and a centre drawn from the prior disturbs the prior: the maximum is then a draw from
        the posterior, exactly so where both are normal (methods, section 9).
        """
        shape = self.design.matrix.shape[1], len(prior)
        rule = fit_links(
            self.design,
            evidence,
            prior,
            lambda every, many: half,
            ridges=(_RIDGE / 2,),
            cells=CELLS,
            still=_STILL,
            centre=normal(shape[0] * shape[1]).reshape(shape) / np.sqrt(_RIDGE),
        )
        tables = [table * scale for table, scale in zip(rule.tables, self.scales, strict=True)]
        return Links(rule.name, rule.start, tuple(tables), rule.ridge)


def with_pairs(
    codes: Sequence[IntArray], coarse: Sequence[IntArray], pairs: IntArray
) -> list[IntArray]:
    """The columns, and the pairs of their coarse codes as further columns."""
    rough = {column: coarse[column][codes[column]] for column in np.unique(pairs).tolist()}
    columns = list(codes)
    for one, other in pairs.tolist():
        columns.append(rough[one] * (int(coarse[other].max()) + 1) + rough[other])
    return columns


def coarse_codes(counts: IntArray, ordered: bool) -> IntArray:
    """A few groups of codes: neighbours of about equal weight, or the most frequent ones apart.

    >>> coarse_codes(np.array([5, 1, 1, 1, 1, 1, 1, 1]), ordered=True).tolist()
    [1, 2, 3, 3, 4, 4, 5, 5]
    >>> coarse_codes(np.array([1, 9, 1, 8, 7, 6, 5, 4]), ordered=False).tolist()
    [5, 0, 5, 1, 2, 3, 4, 5]
    """
    if len(counts) <= _COARSE:
        return np.arange(len(counts))
    if ordered:
        middle = np.cumsum(counts) - counts / 2
        return np.minimum(middle * _COARSE // max(int(counts.sum()), 1), _COARSE - 1).astype(int)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, _COARSE - 1)


def _many(codes: IntArray) -> int:
    return int(codes.max(initial=0)) + 1


def _blocks(
    features: Sequence[IntArray], sizes: Sequence[int], scales: Sequence[float]
) -> list[Any]:
    from scipy.sparse import csr_array

    records = len(features[0])
    return [
        csr_array(
            (np.full(records, scale, np.float32), column, np.arange(records + 1)),
            shape=(records, size),
        )
        for column, size, scale in zip(features, sizes, scales, strict=True)
    ]


def _telling(sample: Sample, coarse: Sequence[IntArray]) -> list[int]:
    """The columns whose values tell most about the sensitive one, as far as is seen.

    By the excess of squared deviations of unbiased counts from independence over their noise.
    """
    from scipy.sparse import csr_array

    if len(coarse) <= _PAIRED:
        return list(range(len(coarse)))
    ones, symbols = np.ones(len(sample.shown)), len(sample.weights)
    seen = np.bincount(sample.shown, minlength=symbols) / len(sample.shown)
    prior = seen @ sample.weights
    noise = float(seen @ ((sample.weights - prior) ** 2).sum(axis=1))
    excess = []
    for codes, rough in zip(sample.codes, coarse, strict=True):
        cell = rough[codes]
        records = np.bincount(cell, minlength=_many(rough))
        shown = csr_array((ones, (cell, sample.shown)), shape=(len(records), symbols))
        squares = (shown @ sample.weights - records[:, None] * prior) ** 2
        excess.append(float((squares.sum(axis=1) / np.maximum(records, 1) - noise).sum()))
    return sorted(np.argsort(excess)[::-1][:_PAIRED].tolist())
