"""Buckets planned for answers: the law that ranks plans, its bound, and what is picked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import BetaLikeness, CeilingGuarantee, FPrivacy, LDiversity, RhoPrivacy
from sfumato.mechanisms import mechanisms_for, parse_mechanism
from sfumato.mechanisms.buckets import OptimalBuckets
from sfumato.mechanisms.buckets.foretold import SizedLaw
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.operators.buckets import BucketOperator
from sfumato.profile import Histogram, Profile


def profile_of(counts: IntArray) -> Profile:
    histogram = Histogram("s", tuple(range(len(counts))), np.asarray(counts, np.int64))
    return Profile(histogram.rows, {"s": histogram})


TWO, MULTI = OptimalBuckets(objective="two-size"), OptimalBuckets(objective="multi-size")


def planned(way: OptimalBuckets, counts: IntArray,
            promise: CeilingGuarantee, seed: int = 1) -> BucketPlan:  # fmt: skip
    return way.plan(profile_of(counts), promise, Draws.from_seed(seed))


def geometric(rows: int, values: int, ratio: float, top: float = 0.0) -> IntArray:
    shares = np.geomspace(1, 1 / ratio, values)
    counts = np.maximum((shares / shares.sum() * (1 - top) * rows).astype(np.int64), 1)
    counts[0] += rows - counts.sum()
    return counts


PROMISES = (
    [LDiversity(2), LDiversity(4)]
    + [BetaLikeness(beta) for beta in ("0.5", "1", "3")]
    + [FPrivacy(theta=theta, floor="0.03") for theta in (2, 6)]
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 400) | st.integers(1, 9), min_size=3, max_size=12),
    st.sampled_from(PROMISES),
    st.integers(0, 1 << 30),
)
def test_the_pick_is_never_predicted_much_worse_than_two_sizes_or_many(
    counts: list[int], promise: CeilingGuarantee, seed: int
) -> None:
    held = np.array(counts)
    try:
        found = planned(OptimalBuckets(), held, promise, seed)
    except InfeasibleGuarantee:
        with pytest.raises(InfeasibleGuarantee):
            planned(TWO, held, promise, seed)
        return
    found.check()
    for way in (TWO, MULTI):
        try:
            other = planned(way, held, promise, seed)
        except InfeasibleGuarantee:
            continue
        assert found.predicted_error() <= other.predicted_error() * 1.2


@pytest.mark.parametrize(
    ("counts", "promise", "near"),
    [
        (geometric(100_000, 50, 40), BetaLikeness(2), 0.15),
        (geometric(100_000, 50, 40), FPrivacy(theta=2, floor="0.02"), 0.15),
        (geometric(100_000, 50, 40), LDiversity(5), 0.02),
        (geometric(10_000, 30, 20), BetaLikeness(3), 0.25),
    ],
    ids=["likeness", "floor", "diversity", "few rows"],
)
def test_what_is_foretold_is_what_the_mixed_buckets_tell(
    counts: IntArray, promise: CeilingGuarantee, near: float
) -> None:
    """One law: by sizes alone it says what it says of the buckets as they are."""
    plan = planned(OptimalBuckets(), counts, promise)
    identified = np.diag(BucketOperator.of(*plan.contents()).together) - counts**2 / counts.sum()
    law = SizedLaw(counts.astype(float)[None], identified[None], np.ones(1))
    assert plan.predicted_error() == pytest.approx(law.error(), rel=near)


@pytest.mark.parametrize("values", [15, 73])
def test_one_value_of_half_the_rows_is_planned(values: int) -> None:
    """That took minutes: every pair of sizes up to what the rarest value needs was looked at."""
    counts = geometric(199_523, values, 2000, top=0.5)
    plan = planned(OptimalBuckets(), counts, BetaLikeness(2))
    plan.check()
    assert plan.predicted_error() < 0.2
    assert plan.predicted_error() < planned(TWO, counts, BetaLikeness(2)).predicted_error()


def test_one_person_alone_with_a_value_costs_one_large_bucket() -> None:
    counts = geometric(71_507, 19, 50)
    counts[-1], counts[0] = 1, counts[0] + counts[-1] - 1
    plan = planned(OptimalBuckets(), counts, BetaLikeness(3))
    plan.check()
    assert plan.setting[-1].size >= 71_507 / 4
    assert plan.setting[-1].buckets == 1


def test_publish_tries_every_useful_form() -> None:
    """`two-size` and `multi-size` are tried within `optimal`, as the first test here shows."""
    assert [str(way) for way in mechanisms_for(BetaLikeness(2))] == ["optimal", "local"]
    offered = [str(way) for way in mechanisms_for(RhoPrivacy("0.08", "1/3"))]
    assert offered == ["uniform", "fine-grain(objective=counts)"]
    offered = [str(way) for way in mechanisms_for(RhoPrivacy("0.08", "1/3", reader="shares"))]
    assert offered[-1:] == ["partitioned"]


def test_the_loss_of_the_paper_stays_for_who_asks() -> None:
    counts = geometric(30_000, 20, 15)
    way = parse_mechanism("optimal(objective=loss)")
    assert str(way) == "optimal(objective=loss)"
    plan = way.plan(profile_of(counts), FPrivacy(theta=4, floor="0.02"), Draws.from_seed(1))
    assert isinstance(plan, BucketPlan)
    plan.check()
    with pytest.raises(UsageError, match="'objective' parameter"):
        parse_mechanism("optimal(objective=best)")
