"""Buckets of people with two rows: conditions on people, and on rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.operators.buckets import BucketKinds, BucketOperator
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.people_values import PeopleListed, PeopleValues
from sfumato.operators.pools import FewValues, PooledFit
from sfumato.operators.shrunk import ShrunkEstimator

_PEOPLE, _SIZE, _VALUES, _TRIALS = 1200, 4, 4, 60


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """The two values of every person; people stand in buckets of four, in this order."""
    rng = np.random.default_rng(1)
    first = rng.choice(_VALUES, _PEOPLE, p=[0.4, 0.3, 0.2, 0.1])
    other = rng.choice(_VALUES, _PEOPLE, p=[0.4, 0.3, 0.2, 0.1])
    return np.stack([first, np.where(rng.random(_PEOPLE) < 0.4, first, other)], axis=1)


@pytest.fixture(scope="module")
def fits(rows: np.ndarray) -> tuple[PooledFit, PooledFit, csr_array]:
    person = np.repeat(np.arange(_PEOPLE), 2)
    flat, count = np.unique(person * _VALUES + rows.ravel(), return_counts=True)
    holder, code = np.divmod(flat, _VALUES)
    listed = PeopleListed.of(holder // _SIZE, holder % _SIZE, code, count, _VALUES)
    held = np.zeros((_PEOPLE // _SIZE, _VALUES), np.int64)
    np.add.at(held, (person // _SIZE, rows.ravel()), 1)
    bucket, value = np.nonzero(held)
    kinds = BucketKinds(np.ones(len(held), np.int64), bucket, value, held[bucket, value])
    operator = BucketOperator.of([kinds], _VALUES)
    shares = csr_array(held / held.sum(axis=1, keepdims=True))
    return (
        PeopleValues(operator, listed, shares),
        FewValues(operator, operator.counts),
        shares,
    )


def _held(
    fit: PooledFit,
    shares: csr_array,
    rows: np.ndarray,
    takes: Callable[[np.ndarray, np.random.Generator], np.ndarray],
) -> float:
    """The share of 95 % intervals that hold, over dealings of people to the slots of their kind."""
    rng, kind = np.random.default_rng(5), np.sort(rows, axis=1) @ [_VALUES, 1]
    estimator, found = ShrunkEstimator(fit, shares), []
    for _ in range(_TRIALS):
        place = np.empty(_PEOPLE, np.int64)
        for each in np.unique(kind):
            slots = np.flatnonzero(kind == each)
            place[rng.permutation(slots)] = slots
        taken = takes(rows, rng)
        buckets = np.repeat(place // _SIZE, 2)[taken.ravel()]
        shown, counts = np.unique(buckets, return_counts=True)
        sums = {("n",): counts.astype(float), ("n", "n"): counts.astype(float)}
        moments = Moments(1, np.zeros(len(shown), np.int64), (shown,), sums)
        forms = Forms.of(np.zeros(1, np.int64), np.arange(_VALUES)[None, :], np.array([0, _VALUES]))
        one = np.ones((1, _VALUES))
        totals = estimator.estimate(moments).read(forms, [Statistic("n", "n", one, one > 0)])
        stderr = np.sqrt(totals.variance([1.0]))
        low, high = totals.interval(totals.values[0], stderr, 1.96, [1.0])
        truth = np.bincount(rows[taken], minlength=_VALUES)
        found.append((low <= truth) & (truth <= high))
    return float(np.mean(found))


def _people_by_value(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    chance = np.array([0.2, 0.5, 0.4, 0.8])[rows].mean(axis=1)
    return np.repeat(rng.random(_PEOPLE) < chance, 2).reshape(-1, 2)


def _rows_by_value(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(rows.shape) < np.array([0.2, 0.5, 0.4, 0.8])[rows]


def _rows_of_such_people(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return _people_by_value(rows, rng) & (rng.random(rows.shape) < 0.5)


@pytest.mark.parametrize("takes", [_people_by_value, _rows_by_value, _rows_of_such_people])
def test_intervals_hold(rows, fits, takes) -> None:
    """Of 240 intervals that hold with 95 % at least, fewer than 214 do with a chance of 1e-4."""
    assert _held(fits[0], fits[2], rows, takes) > 0.89


def test_rows_as_people_would_be_too_sure(rows, fits) -> None:
    assert _held(fits[1], fits[2], rows, _people_by_value) < 0.8
