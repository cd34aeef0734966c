"""How far answers will be off, told from the release alone: its operator and what it shows.

The yardstick is a question whose condition 20 times as many people satisfy as have the value asked
for: a count of 500 among 10,000. Nothing of the raw table is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol

import numpy as np

from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.release import BucketedRelease, GeneralizedRelease, Release


class _Variances(Protocol):
    """By value: how many people seem to have it, and the variance of a count of some size."""

    people: FloatArray

    def __call__(self, size: int) -> FloatArray: ...


SHARE = 20  # people that satisfy the condition, per person counted
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
YARDSTICK = 500
MOST_VALUES = 2_000
_WORST_CONDITION = 1e4
_MEAN_OF_NORMAL = math.sqrt(2 / math.pi)  # E|Z|: from a standard error to a mean error


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """Expected |estimate − truth| / truth of one column: by value, and by size of count."""

    column: str
    values: tuple[str, ...]
    size: int  # the count that `by_value` is about
    by_value: FloatArray
    by_count: tuple[tuple[int, float, float, float], ...]  # size; median, best, worst value


def expected_errors(release: Release, column: str) -> ExpectedErrors | str:
    """The errors, or why they cannot be told in advance."""
    domain = release.domain(column)
    if len(domain) > MOST_VALUES:
        return f"Column {column!r} has more than {MOST_VALUES:,} values."
    variances = _variances(release, column)
    if isinstance(variances, str):
        return variances
    largest = release.rows // SHARE
    size = min(YARDSTICK, max(largest, 1))
    by_count = []
    for count in [size for size in SIZES if size <= largest] or [size]:
        errors = _relative(variances(count), count)
        # a count of that size is one of a value that so many people have
        known = errors[np.isfinite(errors) & (variances.people >= count)]
        if len(known):
            by_count.append(
                (count, float(np.median(known)), float(known.min()), float(known.max()))
            )
    return ExpectedErrors(
        column,
        tuple(value_text(value) for value in domain.to_pylist()),
        size,
        _relative(variances(size), size),
        tuple(by_count),
    )


def _relative(variances: FloatArray, size: int) -> FloatArray:
    return np.asarray(_MEAN_OF_NORMAL * np.sqrt(np.maximum(variances, 0.0)) / size)


class _OfOperator:
    """Var(n̂_x) = Σ_y E[o_y]·W[y, x]² − n_x, where those without x show what all records show."""

    def __init__(self, operator: Operator, published: IntArray) -> None:
        shown = published / max(int(published.sum()), 1)
        matrix, weights = operator.matrix(), operator.weights()
        if isinstance(operator, Parts):
            # a value's records stand in the parts as the release lets estimate
            held = np.maximum(operator.estimate(published.astype(np.float64)), 0.0)
            total = operator.total(held)[operator.symbol_codes]
            to_value = np.zeros((operator.values, operator.domain))
            to_value[np.arange(operator.values), operator.symbol_codes] = 1.0
            spread = np.divide(held, total, out=np.zeros_like(held), where=total > 0)
            matrix = (to_value * spread[:, None]).T @ matrix
            weights = weights @ to_value
            self.people = operator.total(held)
        else:
            self.people = operator.estimate(published.astype(np.float64))
        squares = weights**2
        self._others = shown @ squares
        self._own = np.einsum("xy,yx->x", matrix, squares)

    def __call__(self, size: int) -> FloatArray:
        others = (SHARE - 1) * size * self._others
        return np.asarray(others + size * self._own - size)


class _OfDecoys:
    def __init__(self, operator: Decoy, people: FloatArray) -> None:
        self._operator = operator
        self.people = people

    def __call__(self, size: int) -> FloatArray:
        counts = np.full(self._operator.values, float(size))
        places = np.arange(self._operator.values)
        return self._operator.variances_within(places, counts, float(SHARE * size))


class _OfBuckets:
    """Cov(n̂) = M⁻ᵀ·Cov(o)·M⁻¹ for people drawn at random among all."""

    def __init__(self, release: BucketedRelease, column: str, rows: int) -> None:
        from sfumato.queries.bucket_table import read_bucket_table

        operator = read_bucket_table(release, [column]).operator
        self._operator, self._rows = operator, rows
        self.condition = operator.condition
        self.people = np.asarray(operator.counts, np.float64)

    def __call__(self, size: int) -> FloatArray:
        counts, weights = self._operator.counts, self._operator.inverse
        share = min(1.0, SHARE * size / max(self._rows, 1))
        free = share * (1 - share) * counts * counts / np.maximum(counts - 1, 1.0)
        return np.asarray(np.diagonal(weights.T @ self._operator.noise(free) @ weights))


@singledispatch
def _variances(release: Release, column: str) -> _Variances | str:
    """The variances of estimated counts by value, or why they cannot be told in advance."""
    if release.scales is not None:
        return (
            "Records are copies of a sample, more of them in some groups than in others: the error "
            "depends on whom a question asks about. Answers come with their error bars."
        )
    operator = release.operators.get(column)
    if operator is None:
        return (
            "Values were redrawn without regard to the person's own: counts within a condition "
            "cannot be told from this release."
        )
    published = published_counts(release, column, operator)
    if isinstance(operator, Decoy):
        return _OfDecoys(operator.observed(published), published.astype(np.float64))
    return _OfOperator(operator, published)


@_variances.register
def _of_ranges(release: GeneralizedRelease, column: str) -> str:
    return "The error of ranges and sets depends on the question; ask, or compare."


@_variances.register
def _of_buckets(release: BucketedRelease, column: str) -> _Variances | str:
    return _told(_OfBuckets(release, column, release.rows))


def _told(law: _OfBuckets) -> _Variances | str:
    if law.condition > _WORST_CONDITION:
        return (
            "Some values nearly always stand in the same buckets, so that nothing tells them "
            "apart: what answers are worth depends on the question. Error bars say it."
        )
    return law


def published_counts(release: Release, column: str, operator: Operator) -> IntArray:
    """How often each value, or each (part, value), stands in the records."""
    import pyarrow.parquet as pq

    names = list(release.shown_as(release.column(column)))
    counts = np.zeros(operator.values, np.int64)
    for path in release.records:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=names):
                codes = release.shown_codes(batch, column)
                counts += np.bincount(codes, minlength=operator.values)
    return counts
