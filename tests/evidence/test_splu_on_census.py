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
from sfumato.engines.publishing import publish
from sfumato.operators.base import FloatArray
from sfumato.queries import open_release
from sfumato.table import read

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


def test_large_counts_are_right_and_small_ones_wrong(
    answered: tuple[IntArray, FloatArray, BoolArray],
) -> None:
    truth, errors, _ = answered
    assert errors[:, (truth >= 500) & (truth <= 2000)].mean() <= 0.11
    assert errors[:, truth > 2000].mean() <= 0.05
    assert np.median(errors[:, truth <= 10]) >= 0.8


def test_intervals_cover(answered: tuple[IntArray, FloatArray, BoolArray]) -> None:
    truth, _, covers = answered
    assert 0.92 <= covers.mean() <= 0.97
    for low, high in ((11, 99), (100, 499), (500, 2000), (2001, 10**6)):
        inside = (truth >= low) & (truth <= high)
        assert 0.91 <= covers[:, inside].mean() <= 0.985, (low, high)


def test_sql_answers_are_these_answers(people: People, tmp_path: Path) -> None:
    """The published folder, asked in SQL, gives the closed form and its error bar."""
    columns = [*people.quasi, "occupation"]
    table = read(DATA / "occ100k.parquet", quasi=list(people.quasi), sensitive=["occupation"])
    publish(table, f"small-sum(groups={GROUPS})", to=tmp_path / "release", seed=4)
    release = open_release(tmp_path / "release")
    import pyarrow.parquet as pq

    shown = pq.read_table(tmp_path / "release" / "records", columns=columns)
    published = np.array(shown.column("occupation").to_pylist())
    marital = np.array(shown.column("marital").to_pylist())
    chosen = marital == 1
    operator = methods.Decoy(50, GROUPS).observed(np.bincount(published, minlength=50))
    rates = operator.decoy_rates
    sql = "SELECT occupation, COUNT(*) AS n FROM release WHERE marital = 1 GROUP BY 1 ORDER BY 1"
    rows = release.sql(sql, estimator="inverse").rows()
    counts = np.bincount(published[chosen], minlength=50)
    expected = (counts - chosen.sum() * rates) / (1 / GROUPS - rates)
    errors = np.sqrt(
        operator.variances_within(np.arange(50), np.maximum(expected, 0), float(chosen.sum()))
    )
    # the operator whose rows sum to 1 is the closed form up to the squares of the shares
    assert (np.abs(np.array([row["n"] for row in rows]) - expected) < 0.25 * errors).all()
    assert [row["n_stderr"] for row in rows] == pytest.approx(errors.tolist(), rel=0.02)
