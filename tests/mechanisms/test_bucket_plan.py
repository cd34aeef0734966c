"""Buckets as they are published: filled, numbered, listed, with and without fakes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sfumato.draws import Draws
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import BetaLikeness, FPrivacy, LDiversity
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets import (
    OptimalBuckets,
)
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.buckets.settings import Limits, check_parts, part_rooms, setting_of
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.transport import transport
from sfumato.profile import Histogram, Profile

COUNTS = np.array([70, 60, 50, 40, 40, 30, 30, 20, 20, 20, 10, 10])


def profile_of(counts, column="s"):
    histogram = Histogram(column, tuple(range(len(counts))), np.asarray(counts, np.int64))
    return Profile(int(histogram.counts.sum()), {column: histogram})


def all_records(counts, rng):
    codes = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    ranks = np.zeros(len(codes), np.int64)
    for value in range(len(counts)):
        here = codes == value
        ranks[here] = np.arange(here.sum())
    return codes, ranks


WAYS = [OptimalBuckets(objective=objective) for objective in ("error", "multi-size", "two-size")]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    "promise", [LDiversity(4), BetaLikeness(3), FPrivacy(theta=3, floor="0.05")], ids=str
)
def test_records_and_sensitive_table_agree(way, promise):
    counts = COUNTS
    plan = way.plan(profile_of(counts), promise, Draws.from_seed(1))
    plan.check()
    codes, ranks = all_records(counts, np.random.default_rng(1))
    bucket = plan.bucket_of(codes, ranks)
    held = np.zeros((plan.buckets, len(counts)), np.int64)
    np.add.at(held, (bucket, codes), 1)
    table = pa.concat_tables(plan.side_tables(list)["sensitive"])
    listed = np.zeros_like(held)
    listed[table.column("bucket").to_numpy(), table.column("s").to_numpy()] = table.column(
        "count"
    ).to_numpy()
    assert (held == listed).all()
    ceilings = promise.ceilings(profile_of(counts).histograms["s"])
    for g in range(plan.buckets):
        size = int(held[g].sum())
        for x, count in enumerate(held[g].tolist()):
            assert Fraction(count, size) <= ceilings[x]


def test_every_slot_of_a_value_is_equally_likely():
    """χ² over 400 keys for one record of a value with 10: false alarm 1e-4."""
    from scipy.stats import chi2

    counts = np.array([10, 10, 10, 10])
    hits = np.zeros(10)
    for seed in range(400):
        plan = OptimalBuckets(objective="two-size").plan(
            profile_of(counts), LDiversity(4), Draws.from_seed(seed)
        )
        hits[plan.bucket_of(np.array([2]), np.array([3]))[0]] += 1
    assert ((hits - 40) ** 2 / 40).sum() < chi2.ppf(1 - 1e-4, 9)


def test_fakes_are_listed_once_and_belong_to_nobody():
    plan = OptimalBuckets(fakes=2).plan(profile_of(COUNTS), LDiversity(4), Draws.from_seed(3))
    plan.check()
    codes, ranks = all_records(COUNTS, np.random.default_rng(3))
    bucket = plan.bucket_of(codes, ranks)
    real = [set(codes[bucket == g].tolist()) for g in range(plan.buckets)]
    table = pa.concat_tables(plan.side_tables(list)["sensitive"])
    assert set(table.column("count").to_pylist()) == {1}
    listed = [set() for _ in real]
    for g, x in zip(table.column("bucket").to_pylist(), table.column("s").to_pylist(), strict=True):
        listed[g].add(x)
    for g, values in enumerate(real):
        assert values < listed[g]
        assert len(listed[g]) == len(values) + 2
    again = pa.concat_tables(plan.side_tables(list)["sensitive"])
    assert again.equals(table)  # drawn by address: asking twice does not draw twice
    assert plan.public()["histogram"].value == COUNTS.tolist()


def test_too_many_fakes_are_refused():
    with pytest.raises(InfeasibleGuarantee, match="fewer fakes"):
        OptimalBuckets(fakes=9).plan(profile_of(COUNTS), LDiversity(4), Draws.from_seed(1))


def test_a_maximum_size_that_is_too_small_is_refused_with_what_would_do():
    way = OptimalBuckets(max_size=20)
    with pytest.raises(InfeasibleGuarantee, match="Leave max_size out") as caught:
        way.plan(profile_of([90, 60, 49, 1]), BetaLikeness(3), Draws.from_seed(1))
    assert caught.value.witness == "3"
    enough = parse_mechanism(caught.value.nearest)
    enough.plan(profile_of([90, 60, 49, 1]), BetaLikeness(3), Draws.from_seed(1)).check()


def test_without_a_maximum_the_buckets_grow():
    plan = OptimalBuckets().plan(
        profile_of([900, 600, 499, 1]), BetaLikeness(3), Draws.from_seed(1)
    )
    plan.check()
    assert plan.setting[-1].size >= 500


def test_several_sensitive_columns_and_reserved_names_are_refused():
    one = profile_of(COUNTS).histograms["s"]
    two = Profile(int(COUNTS.sum()), {"a": one, "b": one})
    with pytest.raises(UsageError, match="in all sensitive columns: count"):
        OptimalBuckets().plan(two, LDiversity(2), Draws.from_seed(1))
    with pytest.raises(DataError, match="Rename"):
        OptimalBuckets().plan(profile_of(COUNTS, "count"), LDiversity(2), Draws.from_seed(1))


def test_two_parts_are_filled_wherever_they_can_be():
    """Without a flow, as with one: 400 random settings, those that cannot be filled among them."""
    rng, filled = np.random.default_rng(7), 0
    for _ in range(400):
        counts = rng.integers(0, 12, 5)
        sizes, buckets = rng.choice(np.arange(2, 9), 2, replace=False), rng.integers(1, 5, 2)
        counts[0] += max(int(sizes @ buckets) - counts.sum(), 0)
        limits = Limits(tuple(Fraction(int(rng.integers(1, 5)), 5) for _ in counts))
        setting = setting_of(sizes, buckets)
        if sum(part.records for part in setting) != counts.sum():
            continue
        demands = np.array([part.records for part in setting])
        can = transport(counts, demands, part_rooms(setting, counts, limits)).short == 0
        shares = spread_evenly(setting, counts, limits)
        assert (shares is not None) == can
        if shares is not None:
            check_parts(setting, shares, counts, limits)
            filled += 1
    assert filled > 20


def test_fakes_are_ruled_out_as_often_as_real_values(tmp_path):
    """Nobody of type B has value 0 or 1: listed in a bucket with a B, they are as real as others.

    Three values are real of five listed. Fakes that avoided such values would leave only real ones
    among them (a share of 1); fakes that know of no types leave a share far below.
    """
    import pyarrow.parquet as pq

    from sfumato.engines.publishing import publish
    from sfumato.table import read

    rng = np.random.default_rng(6)
    rows = 60_000  # so many that a tenth of what is usual lies three errors above nothing
    kind = np.where(rng.random(rows) < 0.5, "A", "B")
    value = np.where(kind == "A", rng.integers(0, 10, rows), rng.integers(2, 10, rows))
    people = {"row": np.arange(rows), "kind": kind, "v": value}  # rows leave in their order
    table = read(pa.table(people), quasi="row,kind", sensitive="v")

    def real_share(mechanism):
        place = tmp_path / mechanism
        publish(table, "l-diversity(3)", to=place, mechanism=mechanism, seed=1)
        bucket = pq.read_table(place / "records")["bucket"].to_numpy()
        listed = pq.read_table(place / "sensitive.parquet")
        real = set(zip(bucket.tolist(), value.tolist(), strict=True))
        with_b = set(bucket[kind == "B"].tolist())
        pairs = list(zip(listed["bucket"].to_pylist(), listed["v"].to_pylist(), strict=True))
        assert sum(pair not in real for pair in pairs) == 2 * (int(bucket.max()) + 1)
        ruled_out = [(g, v) in real for g, v in pairs if v < 2 and g in with_b]
        return sum(ruled_out) / len(ruled_out)

    assert real_share("optimal(fakes=2, association=0.1)") == pytest.approx(0.6, abs=0.05)
    with pytest.raises(UsageError, match="needs fakes"):
        OptimalBuckets(association="0.1")


@pytest.mark.parametrize(("real", "absent"), [(0.02, 0.2), (0.1, 0.4), (0.3, 0.6)])
def test_what_is_ruled_out_tells_no_fakes(real: float, absent: float) -> None:
    """As rules at thresholds 0.1, 0.3 and 0.5 do: they rule out what is absent more often.

    The share of real values among those that are ruled out and those that are not, with 4 standard
    errors of room: a false alarm in less than 1 of 5,000 seeds.
    """
    counts = np.array([900, 800, 700, 600, 500, 400, 300, 300, 200, 100] * 2)
    histogram = Histogram("s", tuple(range(20)), counts)
    plan = OptimalBuckets(fakes=2, association="0.1").plan(
        Profile(histogram.rows, {"s": histogram}), LDiversity(5), Draws.from_seed(2)
    )
    assert isinstance(plan, BucketPlan)
    held = np.zeros((plan.buckets, 20), bool)
    for bucket, value, _ in plan.filling.listed():
        held[bucket, value] = True
    barred = np.random.default_rng(3).random(held.shape) < np.where(held, real, absent)
    listed = np.zeros_like(held)
    for bucket, value, _ in plan.listed(barred):
        listed[bucket, value] = True
    shares = [
        (held & listed & chosen).sum() / (listed & chosen).sum() for chosen in (barred, ~barred)
    ]
    numbers = [(listed & chosen).sum() for chosen in (barred, ~barred)]
    error = np.sqrt(sum(share * (1 - share) / n for share, n in zip(shares, numbers, strict=True)))
    # drawing without replacement leaves what the paper's fakes leave too: a per cent or so
    assert abs(shares[0] - shares[1]) < 4 * error + 0.02
