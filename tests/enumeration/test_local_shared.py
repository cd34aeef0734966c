"""Local buckets for several columns: ceilings of the whole table, in every bucket of every block.

Nothing here is drawn but tables and plans: chances are fractions, from what is listed and, for few
people, from all worlds in which everybody stays in their block.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.draws import Draws
from sfumato.engines.choosing import profile_for
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms.buckets import LocalBuckets, tree
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.table import read
from tests.enumeration.shared import posteriors, worst_ratio


@pytest.fixture(autouse=True)
def always_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cuts are worth: these are about promises."""
    monkeypatch.setattr(tree, "CUT", -100.0)
    monkeypatch.setattr(tree, "CARE", 0.0)
    monkeypatch.setattr(tree, "FEWEST", 1)


def planned(
    rng: np.random.Generator, people: int, least: int, promise: str, columns: int = 2
) -> tuple[BucketPlan, Guarantee] | None:
    """People of two towns, whose values go with the town a little."""
    town = rng.integers(0, 2, people)
    held = {
        name: np.where(rng.random(people) < 0.2, town, rng.integers(0, 4, people))
        for name in "abc"[:columns]
    }
    table = read(pa.table({"town": town, "age": rng.integers(20, 60, people), **held}),
                 quasi="town,age", sensitive=list(held))  # fmt: skip
    guarantee, way = parse_guarantee(promise), LocalBuckets(min=least)
    profile = profile_for(table, guarantee, way)
    try:
        plan = way.plan(profile, guarantee, Draws.from_seed(int(rng.integers(1 << 30))))
    except InfeasibleGuarantee:
        return None
    return (plan, guarantee) if plan.tree is not None else None


@pytest.mark.parametrize("columns", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_no_table_exceeds_a_ceiling(columns: int) -> None:
    rng, looked = np.random.default_rng(columns), 0
    for number in range(6):
        promise = ("l-diversity(2)", "f-privacy(theta=2, floor=0.1)")[number % 2]
        made = planned(rng, 80, 16, promise, columns)
        if made is not None:
            made[0].check()
            assert made[0].tree.blocks > 1
            assert worst_ratio(made[0]) <= 1
            looked += 1
    assert looked > 2


def test_all_worlds_of_people_who_stay_in_their_blocks() -> None:
    """Eight people: the chance over all worlds is within the table's ceiling."""
    rng, looked = np.random.default_rng(8), 0
    for _ in range(60):
        made = planned(rng, 8, 3, "l-diversity(2)")
        if made is None:
            continue
        plan, promise = made
        for (_, column, value), chance in posteriors(plan).items():
            assert chance <= promise.ceilings(plan.holdings.views[column])[value]
        looked += 1
        if looked == 2:
            break
    assert looked
