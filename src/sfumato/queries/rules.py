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

    codes: Sequence[IntArray]  # by quasi column
    sizes: Sequence[int]  # codes of every column
    ordered: Sequence[bool]  # whether neighbouring codes are alike
    unit: IntArray  # of every record: what is independent of the others, from 0 on
    units: int
    shown: IntArray  # the symbol of every record
    part: IntArray | None  # the sub-table of every record, where a release has some
    reading: Callable[[IntArray], SampleReading]  # of some units by themselves
    placed: bool  # whether records were placed without replacement: all of them together are known
    share: float  # of the release's records


@dataclass(frozen=True, eq=False)
class SampleReading:
    """What symbols tell, as far as some units of a sample know."""

    evidence: RecordLikelihoods  # of the whole sample
    prior: FloatArray  # shares of the values
    chances: Any  # Pr(symbol | value), (symbols, values), dense or sparse
    weights: FloatArray  # (symbols, values): what a symbol counts towards a value, unbiased
    parts: FloatArray | None = None  # Pr(sub-table | value), (sub-tables, values)

    def variances(self) -> FloatArray:
        """By (true value, value): what one record adds to the variance of an unbiased count."""
        squares = np.asarray(self.chances.T @ self.weights**2)
        return np.maximum(squares - np.eye(len(self.prior)), 0.0)


@dataclass(frozen=True, eq=False)
class RuleShape:
    """The columns of a rule: quasi columns, then pairs of their coarse codes."""

    coarse: tuple[IntArray, ...]  # by column: the coarse code of every code
    pairs: IntArray  # (pairs, 2): columns that are also looked at together
    design: Design
    scales: tuple[float, ...]  # by column: slopes of pairs are smaller

    @classmethod
    def of(cls, sample: Sample, whole: SampleReading) -> RuleShape:
        """The shape that fits a sample; `whole` is the reading of all its units."""
        coarse = tuple(
            coarse_codes(np.bincount(column, minlength=size), ordered)
            for column, size, ordered in zip(
                sample.codes, sample.sizes, sample.ordered, strict=True
            )
        )
        pairs = np.array(list(combinations(_telling(sample, whole, coarse), 2)), np.int64)
        pairs = pairs.reshape(-1, 2)
        features = with_pairs(sample.codes, coarse, pairs)
        sizes = [*sample.sizes, *(_many(coarse[i]) * _many(coarse[j]) for i, j in pairs.tolist())]
        scales = (1.0,) * len(sample.codes) + (_PAIR,) * len(pairs)
        bins = {
            index: codes
            for index, (codes, size) in enumerate(zip(coarse, sample.sizes, strict=True))
            if _many(codes) < size
        }
        return cls(coarse, pairs, Design.joined(_blocks(features, sizes, scales), bins), scales)

    def draw(self, reading: SampleReading, half: IntArray, normal: Normal) -> Links:
        """A rule as likely as any other, given what is seen of all units and the ridge as a prior.

        A random half, counted twice, disturbs the likelihood by as much as the units themselves
        do, and a centre drawn from the prior disturbs the prior: the maximum is then a draw from
        the posterior, exactly so where both are normal (methods, section 10).
        """
        shape = self.design.matrix.shape[1], len(reading.prior)
        centre = normal(shape[0] * shape[1]).reshape(shape) / np.sqrt(_RIDGE)
        return self._fitted(reading, half, _RIDGE / 2, centre)

    def fit(self, reading: SampleReading, units: IntArray) -> Links:
        """The rule under which what is seen of these units is likeliest."""
        return self._fitted(reading, units, _RIDGE, None)

    def _fitted(
        self, reading: SampleReading, units: IntArray, ridge: float, centre: FloatArray | None
    ) -> Links:
        rule = fit_links(
            self.design,
            reading.evidence,
            reading.prior,
            lambda every, many: units,
            ridges=(ridge,),
            cells=CELLS,
            still=_STILL,
            centre=centre,
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


def _telling(sample: Sample, reading: SampleReading, coarse: Sequence[IntArray]) -> list[int]:
    """The columns whose values tell most about the sensitive one, as far as is seen.

    By the excess of squared deviations of unbiased counts from independence over their noise.
    """
    noise = float((reading.prior @ reading.variances()).sum())
    from scipy.sparse import csr_array

    ones, symbols = np.ones(len(sample.shown)), len(reading.weights)
    excess = []
    for column, rough in zip(sample.codes, coarse, strict=True):
        cell = rough[column]
        records = np.bincount(cell, minlength=_many(rough))
        shown = csr_array((ones, (cell, sample.shown)), shape=(len(records), symbols))
        counts = shown @ reading.weights
        squares = (counts - records[:, None] * reading.prior) ** 2
        excess.append(float((squares.sum(axis=1) / np.maximum(records, 1) - noise).sum()))
    return sorted(np.argsort(excess)[::-1][:_PAIRED].tolist())
