"""Calibrated noise for numbers: the limit holds exactly, and averages gain by it."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.guarantees import RhoPrivacy
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.noise import CalibratedNoise
from sfumato.profile import Histogram, Profile

PROMISE = RhoPrivacy("0.05", "0.5")


def plan_for(
    values: tuple[Any, ...], mechanism: str = "noise", promise: RhoPrivacy = PROMISE
) -> Any:
    histogram = Histogram("cost", values, np.arange(1, len(values) + 1))
    return parse_mechanism(mechanism).plan(
        Profile(histogram.rows, {"cost": histogram}), promise, Draws.from_seed(1)
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-1000, 10**6), min_size=25, max_size=60, unique=True),
    st.sampled_from(
        ["noise", "noise(width=0.05)", "noise(width=1, uniform=0)", "noise(uniform=0.9)"]
    ),
    st.fractions(Fraction(6, 100), Fraction(9, 10)),
)
def test_no_value_raises_or_lowers_odds_beyond_the_limit(
    values: list[int], mechanism: str, after: Fraction
) -> None:
    promise = RhoPrivacy(Fraction(1, 20), after)
    operator = plan_for(tuple(sorted(values)), mechanism, promise).operators["cost"]
    for column in zip(*operator.rows, strict=True):
        assert Fraction(max(column), min(column)) <= promise.gamma
    assert {sum(row) for row in operator.rows} == {1 << 32}


def test_the_plan_looks_at_no_count() -> None:
    values = tuple(range(40))
    profiles = [
        Profile(h.rows, {"cost": h})
        for h in (
            Histogram("cost", values, np.arange(1, 41)),
            Histogram("cost", values, np.arange(40, 0, -1)),
        )
    ]
    plans = [CalibratedNoise().plan(profile, PROMISE, Draws.from_seed(1)) for profile in profiles]
    assert plans[0].public() == plans[1].public()


def test_near_values_are_likelier_and_a_missing_value_is_far_from_all() -> None:
    rows = np.array(plan_for((None, *range(40)), "noise(width=0.3)").operators["cost"].rows)
    middle = rows[20, 1:]
    assert (np.diff(middle[20:31]) <= 0).all()
    assert middle[20] > middle[25] > middle[39]
    assert np.ptp(rows[0, 1:]) <= 2  # from missing to anything: alike, but for rounding


@pytest.mark.parametrize(
    ("values", "mechanism", "said"),
    [
        (("a", "b"), "noise", "is for numbers"),
        ((True, False), "noise", "is for numbers"),
        (tuple(range(500)), "noise", "the most is 400"),
    ],
)
def test_what_does_not_fit_is_refused(values: tuple[Any, ...], mechanism: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan_for(values, mechanism)


def test_an_average_is_told_better_than_by_uniform_and_its_interval_holds(tmp_path: Path) -> None:
    """Six releases, four groups each: errors at most 0.7 of uniform's (0.4 foreseen), and at
    least 18 of 24 intervals hold (chance of fewer where 95 % do: 1e-4)."""
    draw = np.random.default_rng(5)
    age = draw.integers(0, 4, 1600)
    cost = np.clip(np.round(10 + 4 * age + draw.normal(0, 7, 1600)), 0, 39).astype(np.int64)
    table = pa.table({"age": age, "cost": cost})
    truth = np.array([cost[age == group].mean() for group in range(4)])
    errors: dict[str, list[float]] = {"noise": [], "uniform": []}
    held = 0
    for mechanism, found in errors.items():
        for number in range(6):
            place = tmp_path / f"{mechanism}{number}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # seeded
                sf.publish(
                    table,
                    PROMISE,
                    to=place,
                    mechanism=mechanism,
                    quasi="age",
                    sensitive="cost",
                    seed=number,
                )
            answer = (
                sf.open(place, verify=False)
                .sql("SELECT age, AVG(cost) AS a FROM release GROUP BY age ORDER BY age")
                .to_arrow()
            )
            found += np.abs(answer["a"].to_numpy() - truth).tolist()
            if mechanism == "noise":
                low, high = answer["a_low"].to_numpy(), answer["a_high"].to_numpy()
                held += int(((low <= truth) & (truth <= high)).sum())
    assert np.mean(errors["noise"]) < 0.7 * np.mean(errors["uniform"])
    assert held >= 18


@pytest.mark.parametrize("mechanism", ["noise", "uniform", "general"])
def test_an_average_does_not_depend_on_where_numbers_begin(tmp_path: Path, mechanism: str) -> None:
    """A value of 0 was left out of the count that decides how far a sum is shrunk."""
    draw = np.random.default_rng(5)
    cost, age = draw.integers(0, 30, 1200), draw.integers(0, 3, 1200)
    for first in (0, 50):
        sf.publish(
            pa.table({"age": age, "cost": cost + first}),
            PROMISE,
            to=tmp_path / str(first),
            mechanism=mechanism,
            quasi="age",
            sensitive="cost",
            seed=1,
        )
    sql = "SELECT age, AVG(cost) - {} AS a FROM release GROUP BY age ORDER BY age"
    averages = [
        sf.open(tmp_path / str(first), verify=False).sql(sql.format(first)).to_arrow()
        for first in (0, 50)
    ]
    for column in ("a", "a_low", "a_high"):
        numbers = [answer[column].to_numpy() for answer in averages]
        np.testing.assert_allclose(*numbers, atol=1e-6)
