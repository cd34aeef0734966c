"""Handing out values: each edge with chance 1/l, and what one original record can be told."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.draws import Draws
from sfumato.mechanisms.heterogeneous.ncp import NumericAxis
from sfumato.mechanisms.heterogeneous.sweeps import Matching, shifted

NUMBER, SIZE = 4, 12


@pytest.fixture(scope="module")
def members() -> np.ndarray:
    rng = np.random.default_rng(0)
    records = rng.permutation(NUMBER * SIZE).reshape(NUMBER, SIZE)
    axes = [NumericAxis("x", rng.integers(0, 60, NUMBER * SIZE), np.arange(60), 59)]
    return Matching(axes).members(records, 99)


def test_every_edge_has_chance_one_in_l(members: np.ndarray) -> None:
    """Chi-square per row over 600 seeded publications; false alarm 48 × 1e-5."""
    matches = members.reshape(-1, NUMBER)
    used = np.zeros(matches.shape, np.int64)
    for seed in range(600):
        source = shifted([members], Draws.from_seed(seed))
        assert len(np.unique(source)) == len(matches)  # every record is published once
        hit = matches == source[:, None]
        assert (hit.sum(axis=1) == 1).all()  # from among the row's own matches
        used += hit
    assert min(stats.chisquare(row).pvalue for row in used) > 1e-5


def carried(matches: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Per record: the buckets of the values that its rows carry."""
    order = np.argsort(matches.ravel(), kind="stable")
    return source[order // NUMBER].reshape(-1, NUMBER)


def test_shift_gives_every_original_one_value_of_every_bucket(members: np.ndarray) -> None:
    """Errata H1: the paper's matching does not, whatever it does for published records."""
    matches = members.reshape(-1, NUMBER)
    bucket_of = np.empty(NUMBER * SIZE, np.int64)
    for bucket in range(NUMBER):
        bucket_of[np.unique(members[:, :, bucket])] = bucket
    for seed in range(NUMBER * 3):
        values = bucket_of[carried(matches, shifted([members], Draws.from_seed(seed)))]
        assert (np.sort(values, axis=1) == np.arange(NUMBER)).all()


def test_blocks_have_shifts_of_their_own(members: np.ndarray) -> None:
    other = members + NUMBER * SIZE
    seen = set()
    for seed in range(60):
        source = shifted([members, other], Draws.from_seed(seed))
        first = source[: NUMBER * SIZE]
        second = source[NUMBER * SIZE :] - NUMBER * SIZE
        seen.add(bool((first == second).all()))
    assert seen == {True, False}
