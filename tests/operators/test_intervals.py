"""Intervals of default answers hold whatever the truth is, and two ways of asking agree."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.operators import Uniform
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.intervals import assisted_interval, ratio_interval
from sfumato.operators.tails import TwoRates, _Tails, assisted_count
from sfumato.operators.weighing import Composition


@pytest.mark.parametrize("truth", [-6.0, -2.0, 0.0, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("deviation", [0.05, 0.7, 5.0])
def test_the_interval_holds_for_every_truth(truth, deviation):
    """20,000 draws: the share has a standard deviation of 0.0015; 5 of them, false alarm 6e-7."""
    draw = np.random.default_rng(17)
    seen = draw.normal(truth, 1.0, 20_000)
    low, high = assisted_interval(
        seen, np.ones(20_000), np.zeros(20_000), np.full(20_000, deviation), 0.95
    )
    assert abs(np.mean((low <= truth) & (truth <= high)) - 0.95) < 0.0077


def test_it_is_shorter_where_the_prior_is_right():
    draw = np.random.default_rng(18)
    truth = draw.normal(0.0, 0.5, 5_000)
    seen = draw.normal(truth, 1.0)
    low, high = assisted_interval(seen, np.ones(5_000), np.zeros(5_000), np.full(5_000, 0.5), 0.95)
    assert np.mean(high - low) < 0.93 * 2 * 1.96


@pytest.mark.parametrize("records", [20, 60, 200, 1_000])
def test_small_counts_of_redrawn_values_hold_by_exact_chances(records):
    """50 values, 30 % kept, and every count that a value can show, with its exact chance.

    A count of so few steps cannot hold exactly 95 % everywhere.
    """
    operator = Uniform(50, Fraction(3, 10))
    steps = np.arange(min(records, 60) + 1)
    shown = np.zeros((len(steps), 50))
    shown[:, 0], shown[:, 1] = steps, records - steps
    cells = np.full((1, 50), -1)
    cells[0, 0] = 0
    there = cells == 0
    forms = Forms.of(np.zeros(len(steps), np.int64), cells, np.array([0, 1]))
    asked = Statistic("n", "n", there.astype(np.float64), there)
    whole = Composition.of(operator.inverse(), np.full(50, 1_000.0))
    of, symbols = np.nonzero(shown)
    sums = shown[of, symbols]
    seen = Moments(len(shown), of, (symbols,), {("n",): sums, ("n", "n"): sums})
    totals = DrawnEstimated(seen, [operator.inverse()], [whole], shrunk=False)
    read = totals.read(forms, [asked])
    error = np.sqrt(read.variance([1.0]))
    low, high = read.interval(read.values[0], error, 1.959964, [1.0])
    kept, drawn = 0.3 + 0.7 / 50, 0.7 / 50
    held = []
    for truth in range(min(records, 12) + 1):
        inside, outside = binom(truth, kept), binom(records - truth, drawn)
        chance = np.convolve(inside.pmf(steps), outside.pmf(steps))[: len(steps)]
        held.append(float(chance[(low <= truth) & (truth <= high)].sum()))
    assert 0.93 <= np.mean(held) <= 0.98
    assert min(held) > 0.88
    assert held[0] < 0.995


@pytest.mark.parametrize("truth", [0.0, 50.0, 100.0])
def test_draws_that_stand_for_several_people_have_the_law_of_as_many_draws(truth):
    """90 draws for 2 people each and 24 for 5, against the sum of four binomials.

    A law of 300 people with a wider noise is off by up to 0.06 where nothing is shown.
    """
    people, own, other = 300.0, 0.6, 0.02
    law = np.ones(1)
    for copies, share in ((2, 0.6), (5, 0.4)):
        for number, rate in ((truth, own), (people - truth, other)):
            draws = round(number * share / copies)
            by_copies = np.zeros(draws * copies + 1)
            by_copies[::copies] = binom(draws, rate).pmf(np.arange(draws + 1))
            law = np.convolve(law, by_copies)
    likely = np.flatnonzero(law > 1e-3)
    ones = np.ones(len(likely))
    rates = TwoRates(
        people * ones, likely * ones, own * ones, other * ones,
        np.array([[2.0], [5.0]]) * ones, np.array([[0.6], [0.4]]) * ones,
    )  # fmt: skip
    below = np.cumsum(law) - law / 2
    assert np.abs(rates.below(truth * ones) - below[likely]).max() < 0.03


def test_an_end_is_where_the_law_is_as_unlikely_as_it_may_be():
    """Both ends of many counts, few people and many, one belief and none."""
    draw = np.random.default_rng(5)
    people = draw.integers(1, 400, 300).astype(float)
    shown = np.floor(draw.random(300) * (people + 1) * 0.5)
    ones = np.ones((1, 300))
    law = TwoRates(people, shown, np.full(300, 0.4), np.full(300, 0.1), ones, ones)
    low, high = assisted_count(law, np.zeros(300), np.full(300, np.inf), 0.95)
    tails, every = _Tails(law), np.arange(300)
    inner = (low > 0) & (low < law.seen - 1e-3)
    assert inner.sum() > 50
    assert np.abs(tails.below(every, low)[inner] - 0.975).max() < 1e-3
    inner = (high < people) & (high > law.seen + 1e-3)
    assert inner.sum() > 50
    assert np.abs(tails.below(every, high)[inner] - 0.025).max() < 1e-3
    assert (tails.below(every, people)[high == people] >= 0.025 - 1e-3).all()


@pytest.mark.parametrize("bottom", [0.5, 2.0, 5.0, 20.0])
def test_quotients_hold_however_small_the_bottom_is(bottom):
    """20,000 draws of (N, D) with D's error 1 and R = 40: Fieller holds 95 % ± 5 × 0.0015.

    Where D is not told from 0 the quotient is between what is possible, and holds more often.
    """
    draw = np.random.default_rng(19)
    below = draw.normal(bottom, 1.0, 20_000)
    above = 40 * below + draw.normal(0.0, 15.0, 20_000)
    ones = np.ones(20_000)
    low, high = ratio_interval(
        above, below, (ones * (40**2 + 15**2), ones * 40, ones), 1.959964, (0 * ones, 90 * ones)
    )
    held = np.mean((low <= 40) & (high >= 40))
    assert held > 0.95 - 0.0077
    assert bottom < 20 or held < 0.95 + 0.0077
    assert ((low >= 0) & (high <= 90)).all()


def people(rows: int, seed: int) -> pa.Table:
    """Ten values; the first two are ten times as common among the few of the north."""
    draw = np.random.default_rng(seed)
    north = draw.random(rows) < 0.04
    common = np.r_[0.02, 0.02, np.full(8, 0.12)]
    special = np.r_[0.2, 0.2, np.full(8, 0.075)]
    ill = np.where(
        north, draw.choice(10, rows, p=special), draw.choice(10, rows, p=common / common.sum())
    )
    return pa.table(
        {
            "age": draw.integers(20, 80, rows),
            "region": np.where(north, "north", "south"),
            "ill": [f"v{code}" for code in ill],
        }
    )


@pytest.fixture(scope="module", params=["optimal", "local(min=1000)"])
def release(tmp_path_factory, request):
    place = tmp_path_factory.mktemp("interval") / "release"
    sf.publish(
        people(6_000, 1),
        "l-diversity(4)",
        to=place,
        mechanism=request.param,
        quasi=["age", "region"],
        sensitive="ill",
    )
    return sf.open(place)


def row(release, sql):
    (found,) = release.sql(sql).to_json()["rows"]
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT SUM(age * 2) AS x FROM release WHERE region = 'north' AND ill = 'v0'",
            "SELECT SUM(age + age) AS x FROM release WHERE region = 'north' AND ill = 'v0'",
        ),
        (
            "SELECT SUM(CASE WHEN ill = 'v0' THEN age END) AS x FROM release WHERE age < 50",
            "SELECT SUM(age) AS x FROM release WHERE age < 50 AND ill = 'v0'",
        ),
        (
            "SELECT SUM(CASE WHEN ill = 'v0' AND age < 50 THEN 1 ELSE 0 END) AS x FROM release",
            "SELECT COUNT(*) AS x FROM release WHERE age < 50 AND ill = 'v0'",
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE ill = 'v0' AND age < 50) AS x FROM release",
            "SELECT COUNT(*) AS x FROM release WHERE age < 50 AND ill = 'v0'",
        ),
        (
            "SELECT SUM(CASE WHEN ill = 'v0' AND age < 50 THEN age ELSE 0 END) AS x FROM release",
            "SELECT SUM(age) AS x FROM release WHERE age < 50 AND ill = 'v0'",
        ),
        (
            # a 0 that is a value counts as one: people of 20 are looked at
            "SELECT SUM(CASE WHEN ill = 'v0' AND age < 50 THEN age - 20 ELSE 0 END) AS x "
            "FROM release",
            "SELECT SUM(age - 20) AS x FROM release WHERE age < 50 AND ill = 'v0'",
        ),
        (
            "SELECT AVG(CASE WHEN ill = 'v0' THEN age END) AS x FROM release WHERE age < 50",
            "SELECT AVG(age) AS x FROM release WHERE age < 50 AND ill = 'v0'",
        ),
    ],
)
def test_two_ways_of_asking_agree(release, one, other):
    found, expected = row(release, one), row(release, other)
    for name in ("x", "x_stderr", "x_low", "x_high"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-9), name


@pytest.mark.slow
def test_what_is_far_from_independence_is_inside_too(tmp_path):
    """Counts ten times above independence, which shrinking misses: 12 publications of 6 counts.

    An interval that holds with 0.95 keeps 58 of 72 or fewer with a chance of 1.2e-5, taken as
    independent. Those of plus and minus 1.96 standard errors kept 48.
    """
    table = people(6_000, 2)
    records = list(zip(*table.to_pydict().values(), strict=True))
    inside = 0
    for number in range(12):
        place = tmp_path / str(number)
        sf.publish(
            table, "l-diversity(4)", to=place, quasi=["age", "region"], sensitive="ill", seed=number
        )
        opened = sf.open(place)
        for value in ("v0", "v1"):
            for low, high in ((20, 39), (40, 59), (60, 79)):
                truth = sum(
                    region == "north" and ill == value and low <= age <= high
                    for age, region, ill in records
                )
                found = row(
                    opened,
                    f"SELECT COUNT(*) AS x FROM release WHERE region = 'north' AND ill = '{value}' "
                    f"AND age BETWEEN {low} AND {high}",
                )
                inside += found["x_low"] <= truth <= found["x_high"]
    assert inside > 58


def test_buckets_that_tell_nothing_answer_with_what_is_possible(tmp_path):
    """Every bucket holds every value once: as many can have one as buckets are met."""
    table = pa.table({"age": list(range(40)), "ill": ["a", "b", "c", "d"] * 10})
    sf.publish(table, "l-diversity(4)", to=tmp_path / "r", quasi="age", sensitive="ill")
    release = sf.open(tmp_path / "r")
    found = row(release, "SELECT COUNT(*) AS x FROM release WHERE ill = 'a' AND age < 8")
    records = pq.read_table(release.records[0])
    met = set(records.filter(pc.less(records["age"], 8))["bucket"].to_pylist())
    assert found["x_low"] == 0
    assert found["x_high"] == len(met)


def test_the_whole_table_is_known_and_its_sums_are_not(release):
    counted = row(release, "SELECT COUNT(*) AS x FROM release WHERE ill = 'v3'")
    assert counted["x_low"] == pytest.approx(counted["x_high"])
    summed = row(release, "SELECT SUM(age) AS x FROM release WHERE ill = 'v3'")
    assert summed["x_low"] < summed["x"] < summed["x_high"]


def test_small_groups_under_several_retentions_are_held(tmp_path):
    """Twenty people in a group and twelve values: 4 publications of 25 groups, 1,200 intervals.

    An error bar from the records alone is too short where few of them show a value: it held 82 %.
    Taken as independent, intervals that hold with 0.95 keep fewer than 1,101 below once in 10⁶.
    """
    draw = np.random.default_rng(4)
    shares = np.r_[0.2, 0.16, 0.14, 0.12, 0.1, 0.08, np.full(6, 0.2 / 6)]
    table = pa.table(
        {
            "group": [f"g{number // 20}" for number in range(500)],
            "ill": [f"v{code:02}" for code in draw.choice(12, 500, p=shares)],
        }
    )
    truth = {
        (line["group"], line["ill"]): line["group_count"]
        for line in table.group_by(["group", "ill"]).aggregate([("group", "count")]).to_pylist()
    }
    inside = 0
    for number in range(4):
        place = tmp_path / str(number)
        sf.publish(
            table, "fine-rho-privacy(theta=2.5)", to=place, mechanism="fine-grain", quasi="group",
            sensitive="ill", seed=number,
        )  # fmt: skip
        sql = 'SELECT "group", ill, COUNT(*) AS x FROM release GROUP BY "group", ill'
        for line in sf.open(place).sql(sql).rows():
            inside += line["x_low"] <= truth.get((line["group"], line["ill"]), 0) <= line["x_high"]
    assert inside > 1_100
