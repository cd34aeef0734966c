"""Unbiased answers, honest error bars: against enumeration, against formulas, by simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from sfumato.draws import Draws, Positions
from sfumato.operators import FineGrain, Operator, Uniform
from sfumato.queries import OpenedRelease, ask

from .conftest import MakeRelease

Floats = npt.NDArray[np.float64]

AGES = [30, 45, 60]
TRUE_DISEASE = [0, 2, 0]
TRUE_COST = [1, 0, 0]
DISEASES = ["flu", "HIV", None]
COSTS = [10, 25]
OPERATORS: dict[str, Operator] = {
    "uniform": Uniform(3, Fraction(1, 4)),
    "fine-grain": FineGrain.of([Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)]),
}
COST_OPERATOR = Uniform(2, Fraction(1, 2))


def every_world(make_release: MakeRelease, disease: Operator) -> tuple[OpenedRelease, Floats]:
    """A release whose column `world` numbers every way in which three people can be published.

    Returns it with the probability of each world.
    """
    worlds = list(
        itertools.product(
            itertools.product(range(3), repeat=3), itertools.product(range(2), repeat=3)
        )
    )
    p, q = disease.matrix(), COST_OPERATOR.matrix()
    chances = np.array(
        [
            math.prod(p[x, y] for x, y in zip(TRUE_DISEASE, ys, strict=True))
            * math.prod(q[x, y] for x, y in zip(TRUE_COST, cs, strict=True))
            for ys, cs in worlds
        ]
    )
    truth = pa.table(
        {
            "world": pa.array([0, 1, 2], pa.int32()),
            "age": pa.array(AGES, pa.int32()),
            "disease": pa.array(DISEASES),
            "cost": pa.array([*COSTS, COSTS[0]], pa.int32()),
        }
    )
    published = pa.table(
        {
            "world": pa.array(np.repeat(np.arange(len(worlds)), 3), pa.int32()),
            "age": pa.array(AGES * len(worlds), pa.int32()),
            "disease": pa.array([DISEASES[y] for ys, _ in worlds for y in ys], pa.string()),
            "cost": pa.array([COSTS[c] for _, cs in worlds for c in cs], pa.int32()),
        }
    )
    ordered = ["HIV", "flu", None]  # the fixture sorts the domain
    places = [DISEASES.index(v) for v in ordered]
    operator = (
        Uniform(3, disease.retention)
        if isinstance(disease, Uniform)
        else FineGrain.of_numerators(tuple(disease.kept[i] for i in places))  # type: ignore[attr-defined]
    )
    release = make_release(
        truth,
        ["disease", "cost"],
        {"disease": operator, "cost": COST_OPERATOR},
        published=published,
        verify=False,
    )
    assert chances.sum() == pytest.approx(1)
    return release, chances


Contribution = Callable[[int, str | None, int], float]  # g(age, disease, cost), nan for null

QUESTIONS: dict[str, tuple[str, Contribution]] = {
    "count by one value": (
        "COUNT(*) FILTER (WHERE disease = 'flu')",
        lambda age, d, cost: d == "flu",
    ),
    "count by several values": (
        "COUNT(*) FILTER (WHERE disease IS NULL OR disease = 'HIV')",
        lambda age, d, cost: d != "flu",
    ),
    "or across quasi and sensitive": (
        "COUNT(*) FILTER (WHERE disease = 'flu' OR age > 50)",
        lambda age, d, cost: d == "flu" or age > 50,
    ),
    "two sensitive columns": (
        "COUNT(*) FILTER (WHERE disease = 'flu' AND cost = 10 AND age < 50)",
        lambda age, d, cost: d == "flu" and cost == 10 and age < 50,
    ),
    "or across two sensitive columns": (
        "COUNT(*) FILTER (WHERE disease = 'flu' OR cost = 10)",
        lambda age, d, cost: d == "flu" or cost == 10,
    ),
    "sum by moments": (
        "SUM(age) FILTER (WHERE disease = 'flu')",
        lambda age, d, cost: age * (d == "flu"),
    ),
    "the same sum, general": (
        "SUM(CASE WHEN disease = 'flu' THEN age ELSE 0 END)",
        lambda age, d, cost: age * (d == "flu"),
    ),
    "sum of a sensitive column": ("SUM(cost)", lambda age, d, cost: cost),
    "sum across columns": (
        "SUM(age + cost) FILTER (WHERE disease IS NOT NULL)",
        lambda age, d, cost: (age + cost) * (d is not None),
    ),
    "count of a sensitive column": ("COUNT(disease)", lambda age, d, cost: d is not None),
}  # fmt: skip


def reference(
    contribution: Contribution, disease: Operator, published: list[tuple[str | None, int]]
) -> tuple[float, float]:
    """Σ z and Σ z² − ΣΣ w g², in the plainest way."""
    w, u = np.linalg.inv(disease.matrix()), np.linalg.inv(COST_OPERATOR.matrix())
    value = variance = 0.0
    for age, (shown, paid) in zip(AGES, published, strict=True):
        weights = np.outer(w[DISEASES.index(shown)], u[COSTS.index(paid)])
        g = np.array([[float(contribution(age, d, c)) for c in COSTS] for d in DISEASES])
        z = (weights * g).sum()
        value += z
        variance += z * z - (weights * g * g).sum()
    return value, variance


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_outcome_agrees_with_the_formula_and_the_formula_is_unbiased(
    operator: str, make_release: MakeRelease
) -> None:
    disease = OPERATORS[operator]
    release, chances = every_world(make_release, disease)
    calls = ", ".join(f"{call} AS c{i}" for i, (call, _) in enumerate(QUESTIONS.values()))
    sql = f"SELECT world, {calls} FROM release GROUP BY world"
    rows = ask(release, sql, estimator="inverse").rows()
    assert [row["world"] for row in rows] == list(range(len(chances)))
    worlds = itertools.product(
        itertools.product(DISEASES, repeat=3), itertools.product(COSTS, repeat=3)
    )
    expected = [[*zip(ys, cs, strict=True)] for ys, cs in worlds]
    for i, (name, (_, contribution)) in enumerate(QUESTIONS.items()):
        values = np.array([row[f"c{i}"] for row in rows])
        stderrs = np.array([row[f"c{i}_stderr"] for row in rows])
        formula = np.array([reference(contribution, disease, world) for world in expected])
        np.testing.assert_allclose(values, formula[:, 0], atol=1e-6, err_msg=name)
        # tiny variances are differences of rounding errors: compare squares
        np.testing.assert_allclose(
            stderrs**2, np.maximum(formula[:, 1], 0), rtol=1e-9, atol=1e-5, err_msg=name
        )
        truth = sum(
            float(contribution(age, DISEASES[d], COSTS[c]))
            for age, d, c in zip(AGES, TRUE_DISEASE, TRUE_COST, strict=True)
        )
        mean = float(chances @ values)
        assert mean == pytest.approx(truth, abs=1e-6), name
        variance = float(chances @ (values - truth) ** 2)
        assert float(chances @ formula[:, 1]) == pytest.approx(variance, rel=1e-6), name


def test_average_is_the_ratio_with_the_delta_methods_variance(make_release: MakeRelease) -> None:
    release, _ = every_world(make_release, OPERATORS["uniform"])
    condition = "disease = 'flu' AND world < 60"
    sql = f"SELECT SUM(age), COUNT(*), AVG(age) FROM release WHERE {condition}"
    row = ask(release, sql, estimator="inverse").rows()[0]
    ratio = row["sum_age"] / row["count"]
    assert row["avg_age"] == pytest.approx(ratio)
    # Var(N − R·D) / D²: the sum of age − R, as one more SUM
    sql = f"SELECT SUM(age - {ratio!r}) FROM release WHERE {condition}"
    residual = ask(release, sql, estimator="inverse")
    assert row["avg_age_stderr"] == pytest.approx(residual.stderr / abs(row["count"]))


@pytest.mark.parametrize(
    "call",
    ["COUNT(*)", "COUNT(age)", "SUM(age)", "AVG(age)", "SUM(cost)", "AVG(cost)", "COUNT(disease)"],
)
@pytest.mark.parametrize(
    "condition", ["age > 99", "disease LIKE 'gout'", "disease = 'flu' AND age > 99"]
)
def test_nothing_is_counted_as_sql_counts_nothing(
    call: str, condition: str, release: OpenedRelease
) -> None:
    rows = ask(release, f"SELECT {call} AS c FROM release WHERE {condition}").rows()
    expected = 0.0 if call.startswith("COUNT") else None
    assert rows == [{"c": expected, "c_stderr": expected, "c_low": expected, "c_high": expected}]
    grouped = ask(release, f"SELECT city, {call} FROM release WHERE {condition} GROUP BY city")
    assert grouped.rows() == []
    assert "(no rows)" in repr(grouped)


def test_nan_stays_where_it_is(make_release: MakeRelease) -> None:
    table = pa.table({"x": [1.0, math.nan, 2.0, math.inf], "s": ["a", "b", "a", "c"]})
    release = make_release(table, ["s"])
    assert ask(release, "SELECT SUM(x) FROM release WHERE s = 'a'").value == 3
    assert ask(release, "SELECT SUM(x) FILTER (WHERE s = 'a') AS c FROM release").value == 3
    assert ask(release, "SELECT AVG(CASE WHEN s = 'a' THEN x END) AS c FROM release").value == 1.5
    assert math.isnan(ask(release, "SELECT SUM(x) FROM release WHERE s <> 'c'").value)


def published(operator: Operator, codes: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
    return operator.apply(codes, "test", Positions(0, len(codes)), Draws.from_seed(seed))


@pytest.mark.slow
def test_answers_are_unbiased_and_intervals_cover(make_release: MakeRelease) -> None:
    """600 publications of 400 people, and 10 questions.

    A mean is off by 4.5 standard errors with probability 7e-6. Of 600 intervals of 95 %, 549 to
    588 cover but with probability 4e-5 a question, if the estimates are normal, which 400 people
    leave a little room for.
    """
    people, worlds = 400, 600
    random = np.random.default_rng(3)
    age = random.integers(20, 80, people)
    disease = np.minimum(random.geometric(0.4, people) - 1 + (age > 50), 4)
    cost = (disease + random.integers(0, 2, people)) % 3
    operators: dict[str, Operator] = {
        "disease": Uniform.for_amplification(5, Fraction(8)),
        "cost": FineGrain.of([Fraction(1, 2), Fraction(2, 3), Fraction(3, 4)]),
    }
    truth = pa.table(
        {
            "world": pa.array(np.zeros(people), pa.int32()),
            "age": pa.array(age, pa.int32()),
            "disease": [f"d{code}" for code in disease],
            "cost": pa.array(cost * 10, pa.int32()),
        }
    )
    shown = {
        "disease": published(operators["disease"], np.tile(disease, worlds), 11),
        "cost": published(operators["cost"], np.tile(cost, worlds), 12),
    }
    release = make_release(
        truth,
        ["disease", "cost"],
        operators,
        published=pa.table(
            {
                "world": pa.array(np.repeat(np.arange(worlds), people), pa.int32()),
                "age": pa.array(np.tile(age, worlds), pa.int32()),
                "disease": pa.array(np.array([f"d{code}" for code in range(5)])[shown["disease"]]),
                "cost": pa.array(shown["cost"] * 10, pa.int32()),
            }
        ),
        verify=False,
    )
    exact = make_release(truth, ["disease", "cost"])
    calls = [
        "COUNT(*) FILTER (WHERE disease = 'd0')",
        "COUNT(*) FILTER (WHERE disease IN ('d1', 'd2') AND age < 45)",
        "COUNT(*) FILTER (WHERE disease = 'd1' OR age > 60)",
        "COUNT(*) FILTER (WHERE disease = 'd0' AND cost = 0)",
        "COUNT(*) FILTER (WHERE disease = 'd1' OR cost = 20)",
        "SUM(age) FILTER (WHERE disease = 'd0')",
        "SUM(cost)",
        "SUM(cost * age) FILTER (WHERE disease <> 'd3')",
        "AVG(age) FILTER (WHERE disease IN ('d0', 'd1'))",
        "AVG(cost) FILTER (WHERE age < 50)",
    ]
    listed = ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls))
    sql = f"SELECT world, {listed} FROM release GROUP BY world"
    rows = ask(release, sql, estimator="inverse").rows()
    true_row = ask(exact, f"SELECT {listed} FROM release").rows()[0]
    for i, call in enumerate(calls):
        values = np.array([row[f"c{i}"] for row in rows])
        stderrs = np.array([row[f"c{i}_stderr"] for row in rows])
        truth_value = true_row[f"c{i}"]
        spread = values.std(ddof=1)
        if not call.startswith("AVG"):  # a ratio is unbiased only in the limit
            assert abs(values.mean() - truth_value) < 4.5 * spread / math.sqrt(worlds), call
        assert np.sqrt((stderrs**2).mean()) == pytest.approx(spread, rel=0.15), call
        covered = sum(row[f"c{i}_low"] <= truth_value <= row[f"c{i}_high"] for row in rows)
        assert 549 <= covered <= 588, (call, covered)


def test_a_condition_inside_a_sum_says_what_nobody_adds(make_release: MakeRelease) -> None:
    """With `ELSE 0` nobody adds 0, and without it nothing, as in SQL; a 1 counts people."""
    release = make_release(pa.table({"x": [1, 2, 3], "s": ["a", "a", "b"]}), ["s"])
    told = "SELECT SUM(CASE WHEN x > 9 AND s = 'a' THEN {} END) AS c FROM release"
    assert ask(release, told.format("x ELSE 0")).value == 0
    assert math.isnan(ask(release, told.format("x")).value)
    counted = ask(release, "SELECT SUM(CASE WHEN s = 'a' THEN 1 ELSE 0 END) AS c FROM release")
    assert counted.counts == {"c"}
