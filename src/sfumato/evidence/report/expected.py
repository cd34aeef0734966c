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
from sfumato.errors import SfumatoError
from sfumato.operators.base import FloatArray
from sfumato.release import GeneralizedRelease, Release
from sfumato.workloads import answers_of_shares

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
YARDSTICK = 500
MOST_VALUES = 2_000
_SHARES = 9  # of the people, between which errors are interpolated
_LARGEST_SHARE = 0.7
_MEAN_OF_NORMAL = math.sqrt(2 / math.pi)  # E|Z|: from a standard error to a mean error


@dataclass(frozen=True)
class SizeErrors:
    """The errors of counts of one size: of the middle value, the best and the worst."""

    count: int
    median: float
    best: float
    worst: float


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """Expected |estimate − truth| / truth of one column: by value, and by size of count."""

    column: str
    count: int  # that `by_value` is about
    by_value: dict[str, float]  # of values that so many people can have
    by_count: tuple[SizeErrors, ...]


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
    if not np.isfinite(errors).any():
        return "Values cannot be told apart: what answers are worth depends on the question."
    usual = np.isfinite(errors).mean(axis=1) >= 0.5  # what at least half of the values reach
    counts_reached = [n for n, reached in zip(sizes, usual, strict=True) if reached]
    size = max((n for n in counts_reached if n <= YARDSTICK), default=sizes[0])
    names = map(value_text, domain.to_pylist())
    by_value = zip(names, errors[sizes.index(size)].tolist(), strict=True)
    by_size = [(n, e[np.isfinite(e)]) for n, e in zip(sizes, errors, strict=True) if n in SIZES]
    return ExpectedErrors(
        column,
        size,
        {name: _short(error) for name, error in by_value if math.isfinite(error)},
        tuple(
            SizeErrors(n, *(_short(f) for f in (np.median(e), e.min(), e.max())))
            for n, e in by_size
            if len(e)
        ),
    )


def _short(error: float) -> float:
    return float(f"{error:.3g}")


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
