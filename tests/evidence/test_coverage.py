"""The standing proof of honest intervals, short: `benchmarks.coverage` is the long one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.coverage import MECHANISMS, Cell, Held, Source, held, lines_of
from sfumato.datasets import census

CENSUS = Source(lambda: census(6_000, seed=5), "occupation", "age", ("age",))


def counts_of_one_release(name: str, estimator: str | None = None) -> Held:
    people = CENSUS.read().select(["age", "gender", "education", "marital", "occupation"])
    mechanism, guarantee = MECHANISMS[name]
    return held(
        people,
        CENSUS,
        guarantee,
        mechanism,
        publications=1,
        conditions=14,
        seed=21,
        aggregates=("COUNT",),
        estimator=estimator,
    )


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize(
    "name",
    [
        "uniform",
        pytest.param("general", marks=pytest.mark.slow),
        "partitioned",
        "splu",
        "optimal, l-diversity",
        "optimal with fakes",
    ],
)
def test_default_intervals_hold(name: str) -> None:
    """About 600 intervals of one release, which hang together: 95 % ± 4 of them.

    An interval too narrow by a third would hold 81 %; one of half the width 67 %.
    """
    found = counts_of_one_release(name)
    assert len(found.count) > 300
    assert 0.91 < float(np.nanmean(found.inside[0])) < 0.995


def test_what_lies_outside_is_marked() -> None:
    assert Cell(0.90, 0.01, 2_000).is_outside
    assert Cell(0.995, 0.01, 2_000).is_outside
    assert not Cell(0.925, 0.01, 2_000).is_outside


def test_groups_cover_every_answer() -> None:
    people = CENSUS.read().select(["age", "gender", "occupation"])
    found = held(people, CENSUS, "l-diversity(3)", "optimal", publications=1, conditions=3, seed=1)
    sizes = sum(int(chosen.sum()) for name, chosen in found.groups() if "counts" in name)
    assert sizes == len(found.count)
    assert all(0 <= cell.share <= 1 for _, _, cells in lines_of(found) for cell in cells if cell)
