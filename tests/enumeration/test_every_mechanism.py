"""No mechanism that `publish` may choose by itself tells its reader more than its statement says.

A sample of the tables with `make test`; all of them with `make test-all`.
"""

from __future__ import annotations

import pytest

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan
from sfumato.engines.words import Facts
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import GUARANTEES as REGISTERED
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.profile import Profile
from tests.enumeration.readers import (
    GUARANTEES,
    cases,
    histogram_of,
    placed_ratio,
    planned,
    tables,
    worst_ratio,
)

SMALL = [counts for counts in tables() if sum(counts) <= 6 or counts in {(3, 3, 2), (4, 2, 1, 1)}]
LARGE = [counts for counts in tables() if counts not in SMALL]


@pytest.mark.parametrize("counted", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize(("mechanism", "guarantee"), list(cases()), ids=str)
def test_no_table_exceeds_its_ceiling(
    mechanism: Mechanism, guarantee: Guarantee, counted: list[tuple[int, ...]]
) -> None:
    looked_at = 0
    for counts in counted:
        made = planned(mechanism, guarantee, counts)
        if made is not None:
            promised, plan = made
            assert worst_ratio(plan, promised, counts) <= 1 + 1e-9, counts
            looked_at += 1
    assert looked_at > 0


@pytest.mark.parametrize(
    ("text", "counts"),
    [("l-diversity(2)", (2, 2, 1)), ("beta-likeness(1)", (2, 2, 2)), ("l-diversity(3)", (2, 2, 2))],
)
def test_buckets_are_dealt_evenly(text: str, counts: tuple[int, ...]) -> None:
    """Five standard errors over some hundred cells: a false alarm in less than 1e-4 of seeds."""
    guarantee = parse_guarantee(text)
    made = planned(MECHANISMS["optimal"](), guarantee, counts)
    assert made is not None
    assert isinstance(made[1], BucketPlan)
    ratio, excess = placed_ratio(made[1], guarantee, counts, seeds=40)
    assert ratio > 0.8
    assert excess < 5


def test_all_that_limits_belief_is_looked_at() -> None:
    """But small sums, which have no ceiling."""
    named = {parse_guarantee(text).name for text in GUARANTEES}
    limiting = {name for name, cls in REGISTERED.items() if cls.limits_belief}
    assert named == limiting - {"small-sum"}
    chosen = {name for name, cls in MECHANISMS.items() if cls.candidates()}
    elsewhere = {"splu", "sps", "local"}
    assert {mechanism.name for mechanism, _ in cases()} == chosen - elsewhere


@pytest.mark.parametrize(
    "text", [text for text in GUARANTEES if "rho" in text and "=shares" not in text]
)
def test_whoever_knows_everybody_else_learns_nothing_from_the_plan(text: str) -> None:
    """Neighbouring tables have one operator, where `publish` chooses; others say whom not."""
    guarantee = parse_guarantee(text)
    for table in tables(4, 6):
        found = set()
        for value in range(len(table)):
            counts = tuple(count + (code == value) for code, count in enumerate(table))
            histogram = histogram_of(counts)
            profile = Profile(histogram.rows, {"s": histogram})
            try:
                way, plan = choose_plan(profile, guarantee, None, Draws.from_seed(1))
            except InfeasibleGuarantee:
                continue
            assert isinstance(plan, PerturbedPlan)
            assert not plan.narrower
            words = Facts.of_plan(way, guarantee, plan, profile.histograms)
            found.add((plan.operators["s"], *words.statement()))
        assert len(found) <= 1, table


def test_a_fitted_operator_says_against_whom_it_does_not_hold() -> None:
    guarantee = parse_guarantee("fine-rho-privacy(theta=2)")
    counts = (3, 2, 1)
    way = MECHANISMS["fine-grain"](objective="counts")
    made = planned(way, guarantee, counts)
    assert made is not None
    (said,) = Facts.of_plan(way, guarantee, made[1], {"s": histogram_of(counts)}).statement()
    assert "does not hold against whoever knows the values of everybody else" in said
