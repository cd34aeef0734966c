"""How far answers will be off, told from the release alone: the error bars of a usual question.

Its condition has nothing to do with the sensitive column: people drawn at random satisfy it.
Nothing of the raw table is looked at.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.errors import SfumatoError
from sfumato.operators import Operator
from sfumato.operators.base import FloatArray
from sfumato.release import GeneralizedRelease, Release
from sfumato.workloads import answers_of_shares

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
YARDSTICK = 500
MOST_VALUES = 2_000
_SHARES = 9  # of the people, between which errors are interpolated
_LARGEST_SHARE = 0.7
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
    if isinstance(release, GeneralizedRelease):
        return "The error of ranges and sets depends on the question; ask, or compare."
    if release.scales is not None:
        return (
            "Records are copies of a sample, more of them in some groups than in others: the error "
            "depends on whom a question asks about. Answers come with their error bars."
        )
    shares = np.geomspace(min(10 / max(release.rows, 1), 0.1), _LARGEST_SHARE, _SHARES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of stands in the caveats
            counts, stderrs = answers_of_shares(release, column, shares)
    except SfumatoError as error:
        return str(error)
    sizes = sorted({*SIZES, YARDSTICK})
    errors = _by_size(np.array(sizes, np.float64), counts, stderrs)
    usual = np.isfinite(errors).mean(axis=1) >= 0.5  # what at least half of the values reach
    size = max((n for n, is_usual in zip(sizes, usual, strict=True) if is_usual and n <= YARDSTICK),
               default=sizes[0])  # fmt: skip
    if not np.isfinite(errors).any():
        return "Values cannot be told apart: what answers are worth depends on the question."
    finite = [
        (size, errors[np.isfinite(errors)])
        for size, errors in zip(sizes, errors, strict=True)
        if size in SIZES and np.isfinite(errors).any()
    ]
    return ExpectedErrors(
        column,
        tuple(value_text(value) for value in domain.to_pylist()),
        size,
        errors[sizes.index(size)],
        tuple((n, float(np.median(e)), float(e.min()), float(e.max())) for n, e in finite),
    )


def _by_size(sizes: FloatArray, counts: FloatArray, stderrs: FloatArray) -> FloatArray:
    """Relative errors by (size, value), on a line between logarithms; NaN beyond what there is."""
    errors = np.full((len(sizes), counts.shape[1]), np.nan)
    for value, (count, stderr) in enumerate(zip(counts.T, stderrs.T, strict=True)):
        there = np.isfinite(stderr) & (stderr > 0) & (count > 0)
        if there.sum() > 1:
            relative = np.log(_MEAN_OF_NORMAL * stderr[there] / count[there])
            logs = np.interp(np.log(sizes), np.log(count[there]), relative, np.nan, np.nan)
            errors[:, value] = np.exp(logs)
    return errors


def published_counts(release: Release, column: str, operator: Operator) -> IntArray:
    """How often each value, or each (part, value), stands in the records."""
    names = list(release.shown_as(release.column(column)))
    counts = np.zeros(operator.values, np.int64)
    for _, batch in release.batches(names):
        counts += np.bincount(release.shown_codes(batch, column), minlength=operator.values)
    return counts
