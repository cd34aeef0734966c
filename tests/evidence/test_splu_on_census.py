"""SPLU on CENSUS occupations, c = 5, three publications: the errors and the coverage we claim."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from papers.coded import People, census, coded
from papers.splu import methods
from papers.splu.methods import Pool
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.operators.base import FloatArray

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
GROUPS = 5


@pytest.fixture(scope="module")
def people() -> People:
    if not (DATA / "occ100k.parquet").is_file():
        pytest.skip("CENSUS occ100k.parquet is not here (SFUMATO_DATA)")
    return coded(census(DATA, 0)[0], "occupation")


@pytest.fixture(scope="module")
def answered(people: People) -> tuple[IntArray, FloatArray, BoolArray]:
    """True counts, relative errors and whether the interval covers, by (publication, query).

    Queries are random conjunctions of one to three quasi columns with every value that occurs.
    """
    pool = Pool.of(people, 1500, 10, Draws.from_seed(0))
    asked = pool.truth > 0
    truth = pool.truth[asked]
    errors, covers = [], []
    for seed in (50, 51, 52):
        estimates, deviations = methods.exact(pool, people, GROUPS, Draws.from_seed(seed))
        distance = np.abs(estimates[asked] - truth)
        errors.append(distance / truth)
        covers.append(distance <= 1.96 * deviations[asked])
    return truth, np.array(errors), np.array(covers)


def test_intervals_cover(answered: tuple[IntArray, FloatArray, BoolArray]) -> None:
    truth, _, covers = answered
    assert 0.92 <= covers.mean() <= 0.97
    for low, high in ((11, 99), (100, 499), (500, 2000), (2001, 10**6)):
        inside = (truth >= low) & (truth <= high)
        assert 0.91 <= covers[:, inside].mean() <= 0.985, (low, high)
