"""One of two columns in the same buckets, asked where the condition goes with the other one."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.operators.buckets import BucketKinds, BucketOperator
from sfumato.operators.other_columns import OtherColumns
from sfumato.operators.pools import FewValues

_FIRST, _SECOND = np.divmod(np.arange(12), 4)  # kinds: 3 values of one column, 4 of the other
_TRIALS = 80


@pytest.fixture(scope="module")
def held() -> np.ndarray:
    """Buckets by kinds: who has the other column's last values stands in larger buckets, where
    the first column is less mixed."""
    rng = np.random.default_rng(3)
    small = rng.multinomial(4, np.where(_SECOND < 2, 1 + _FIRST, 0) / 12, 500)
    large = rng.multinomial(20, np.where(_SECOND >= 2, 3 - _FIRST, 0.2) / (12 + 1.2), 60)
    return np.concatenate([small, large])


def _operator(held: np.ndarray, of: np.ndarray) -> BucketOperator:
    counts = np.stack([held[:, of == value].sum(axis=1) for value in range(of.max() + 1)], axis=1)
    kinds, values = np.nonzero(counts)
    ones = np.ones(len(held), np.int64)
    made = BucketKinds(ones, kinds, values, counts[kinds, values])
    return BucketOperator.of([made], counts.shape[1])


def _asked(held: np.ndarray, chances: np.ndarray, rng: np.random.Generator):
    """How many satisfy a condition by kind, and in which buckets they stand."""
    chosen = rng.binomial(held.sum(axis=0), chances)
    dealt = [
        rng.multivariate_hypergeometric(held[:, kind], many) for kind, many in enumerate(chosen)
    ]
    return chosen, np.sum(dealt, axis=0)


def _asked_often(fit, held, of, chances) -> tuple[np.ndarray, np.ndarray]:
    """For every trial and value of the first column: whether its interval holds, and its reach."""
    sizes = held.sum(axis=1)
    counts = np.stack([held[:, of == value].sum(axis=1) for value in range(of.max() + 1)], axis=1)
    shares, rng = counts / sizes[:, None], np.random.default_rng(9)
    found, reach = [], []
    for _ in range(_TRIALS):
        chosen, buckets = _asked(held, chances, rng)
        number = np.array([float(chosen.sum())])
        beside = (buckets @ shares)[None, :]
        fitted = fit.fit(number, beside)
        independent, residual = fit.residual(number, beside)
        estimate = (independent + fitted.undone(residual, np.zeros(1, np.int64)))[0]
        first, second = (each.matrices[0] for each in fitted.noise)
        spread = np.sqrt(np.diagonal(number * first - number**2 * second))
        truth = np.bincount(_FIRST, chosen)
        found.append(np.abs(estimate - truth) <= 1.96 * spread)
        reach.append(spread)
    return np.array(found), np.array(reach)


def _fits(held: np.ndarray) -> tuple[OtherColumns, FewValues]:
    alone = FewValues(_operator(held, _FIRST), held.sum(axis=0) @ np.eye(3)[_FIRST])
    return OtherColumns(_operator(held, np.arange(12)), _FIRST, [_SECOND]), alone


def test_intervals_hold_where_a_condition_goes_with_the_other_column(held) -> None:
    """Of 240 intervals of 95 % fewer than 216 hold with a chance below 1e-3; through the first
    column alone hardly any does."""
    chances = np.array([0.1, 0.6, 0.2, 0.8])[_SECOND]
    through_kinds, alone = _fits(held)
    assert _asked_often(through_kinds, held, np.arange(12), chances)[0].mean() > 0.9
    assert _asked_often(alone, held, _FIRST, chances)[0].mean() < 0.5


def test_a_condition_that_goes_with_nothing_is_hardly_widened(held) -> None:
    chances = np.full(12, 0.4)
    through_kinds, alone = _fits(held)
    inside, reach = _asked_often(through_kinds, held, np.arange(12), chances)
    assert inside.mean() > 0.9
    assert reach.mean() < 1.25 * _asked_often(alone, held, _FIRST, chances)[1].mean()


def test_the_whole_table_is_known(held) -> None:
    fit, _ = _fits(held)
    whole = np.array([float(held.sum())])
    beside = held.sum(axis=0)[None, :].astype(float)
    fitted = fit.fit(whole, beside)
    independent, residual = fit.residual(whole, beside)
    moved = fitted.moved(residual, np.zeros(1, np.int64))
    assert independent + moved == pytest.approx(np.bincount(_FIRST, held.sum(axis=0))[None, :])
