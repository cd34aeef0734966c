"""Buckets of people with two rows, of all people or by block: conditions on people, and on rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.operators.block_people import PeopleBlocks
from sfumato.operators.buckets import BucketKinds, BucketOperator
from sfumato.operators.deviations import BlockTable, Deviations
from sfumato.operators.estimator import Estimator, Forms, Moments, Statistic
from sfumato.operators.local import LocalEstimator
from sfumato.operators.people_values import PeopleListed, PeopleValues
from sfumato.operators.pools import FewValues
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
def estimators(rows: np.ndarray) -> dict[str, Estimator]:
    """As people, as rows, and as both in two blocks, the first of a third of the buckets."""
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
    first = np.array([0, len(held) // 3])
    table = BlockTable.of(csr_array(held), first, None)
    people = PeopleBlocks.of(listed, shares, first)
    return {
        "people": ShrunkEstimator(PeopleValues(operator, listed, shares), shares),
        "rows": ShrunkEstimator(FewValues(operator, operator.counts), shares),
        "people in blocks": LocalEstimator(table, shares, people=people),
        "rows in blocks": LocalEstimator(table, shares),
    }


def _held(
    estimator: Estimator,
    rows: np.ndarray,
    takes: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    blocks: bool = False,
) -> float:
    """The share of 95 % intervals that hold, over dealings of people to the slots of their kind,
    and of their block."""
    rng, kind = np.random.default_rng(5), np.sort(rows, axis=1) @ [_VALUES, 1]
    if blocks:
        kind = kind + (np.arange(_PEOPLE) // _SIZE < _PEOPLE // _SIZE // 3) * _VALUES**2
    found = []
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


TAKES = [_people_by_value, _rows_by_value, _rows_of_such_people]


@pytest.mark.parametrize("takes", TAKES)
def test_intervals_hold(rows, estimators, takes) -> None:
    """Of 240 intervals that hold with 95 % at least, fewer than 214 do with a chance of 1e-4."""
    assert _held(estimators["people"], rows, takes) > 0.89


@pytest.mark.parametrize("takes", TAKES)
def test_intervals_hold_in_blocks(rows, estimators, takes) -> None:
    """The same."""
    assert _held(estimators["people in blocks"], rows, takes, blocks=True) > 0.89


def test_rows_as_people_would_be_too_sure(rows, estimators) -> None:
    assert _held(estimators["rows"], rows, _people_by_value) < 0.8
    assert _held(estimators["rows in blocks"], rows, _people_by_value, blocks=True) < 0.8


def test_people_with_one_row_are_rows() -> None:
    """Block by block, the law of people with one row each is that of records."""
    rng = np.random.default_rng(3)
    held = rng.integers(1, 4, (40, _VALUES))
    shares, first = csr_array(held / held.sum(axis=1, keepdims=True)), np.array([0, 15])
    code = np.concatenate([np.repeat(np.arange(_VALUES), each) for each in held])
    size = held.sum(axis=1)
    holder = np.concatenate([np.arange(each) for each in size])
    listed = PeopleListed.of(
        np.repeat(np.arange(40), size), holder, code, np.ones_like(code), _VALUES
    )
    table = BlockTable.of(csr_array(held), first, None)
    loose = csr_array(np.array([[0.2, 0.1], [0.25, 0.0]]))
    residual = rng.normal(size=(2, _VALUES))
    residual -= residual.mean(axis=1, keepdims=True)  # records stay records
    people = PeopleBlocks.of(listed, shares, first)
    own = people.fitted(table, loose, residual, np.ones(2, np.bool_))
    rows = Deviations.fitted(table, loose, residual)
    for name, moved in rows.moved().items():
        assert own.moved()[name] == pytest.approx(moved, abs=1e-6)
    forms = rng.normal(size=(2, _VALUES))
    found = own.quadratics(np.arange(2), forms)
    assert found == pytest.approx(rows.quadratics(np.arange(2), forms), abs=1e-6)
