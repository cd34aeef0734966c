"""Fine-grain and sub-table operators: closed forms, exact limits, exact draws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import ValidationError, convert, json

from sfumato.draws import Draws, Positions
from sfumato.errors import SingularOperator
from sfumato.operators import (
    AnyOperator,
    FineGrain,
    Operator,
    Parts,
    SubTable,
    Uniform,
)
from sfumato.operators.base import DYADIC

HALF = DYADIC // 2


def brute_gains(operator: Operator) -> list[Fraction]:
    assert isinstance(operator, FineGrain)
    m = operator.values
    p = [Fraction(kept, DYADIC) for kept in operator.kept]
    rows = [[p[x] * (x == y) + (1 - p[x]) / m for y in range(m)] for x in range(m)]
    return [
        max(rows[x][y] / rows[k][y] for y in range(m) for k in range(m) if k != x) for x in range(m)
    ]


kept_lists = st.lists(st.integers(1, DYADIC - 1), min_size=2, max_size=7)


@settings(max_examples=100, deadline=None)
@given(kept_lists)
def test_fine_grain_gains_are_exact(kept: list[int]) -> None:
    operator = FineGrain.of_numerators(tuple(kept))
    assert operator.odds_gains() == [max(gain, Fraction(0)) for gain in brute_gains(operator)]


@settings(max_examples=100, deadline=None)
@given(kept_lists)
def test_closed_forms_are_the_matrix_algebra(kept: list[int]) -> None:
    operator = FineGrain.of_numerators(tuple(max(number, DYADIC // 1000) for number in kept))
    matrix, n = operator.matrix(), np.arange(1.0, len(kept) + 1) * 100
    assert matrix.sum(axis=1) == pytest.approx(1)
    assert operator.weights() @ matrix == pytest.approx(np.eye(len(kept)), abs=1e-6)
    assert operator.estimate(n @ matrix) == pytest.approx(n, rel=1e-6)
    slow = n @ matrix @ operator.weights() ** 2 - n
    assert operator.variances(n) == pytest.approx(np.maximum(slow, 0), rel=1e-6, abs=1e-6)


def test_condition_is_close_to_the_matrix_norms() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        operator = FineGrain.of_numerators(tuple(rng.integers(DYADIC // 50, DYADIC, 12).tolist()))
        assert operator.condition() == pytest.approx(np.linalg.cond(operator.matrix()))
    assert FineGrain.of([Fraction(1, 2), Fraction(0)]).condition() == float("inf")
    assert Uniform(1, Fraction(1, 2)).condition() == 1


def test_values_that_are_never_kept_have_no_weights() -> None:
    with pytest.raises(SingularOperator, match="codes \\[1\\]"):
        FineGrain.of_numerators((HALF, 0, HALF)).weights()
    with pytest.raises(SingularOperator):
        FineGrain.of_numerators((HALF, 0, HALF)).estimate(np.ones(3))


def test_excluded_values_are_infinitely_amplified() -> None:
    with pytest.raises(ZeroDivisionError):
        FineGrain.of_numerators((DYADIC, HALF)).amplification()


PARTS = Parts(
    4,
    (
        SubTable((0, 1, 3), Uniform(3, Fraction(1, 4))),
        SubTable((1, 2), FineGrain.of_numerators((HALF, DYADIC // 8))),
    ),
)


@pytest.mark.parametrize(
    "operator",
    [
        FineGrain.of_numerators((HALF, DYADIC // 8, DYADIC // 3)),
        PARTS,
    ],
    ids=["fine-grain", "parts"],
)
def test_draws_follow_the_matrix(operator: Operator) -> None:
    """200,000 draws a row; every frequency within 5.5 standard errors (false alarm < 1e-6)."""
    n = 200_000
    matrix = operator.matrix()
    for x in range(operator.values):
        codes = np.full(n, x, np.int64)
        shown = operator.apply(codes, "test", Positions(x * n, n), Draws.from_seed(11))
        frequency = np.bincount(shown, minlength=operator.values) / n
        deviation = np.sqrt(matrix[x] * (1 - matrix[x]) / n)
        assert (np.abs(frequency - matrix[x]) <= 5.5 * deviation).all()


@pytest.mark.parametrize(
    "operator",
    [FineGrain.of_numerators((HALF, 3)), PARTS],
    ids=["fine-grain", "parts"],
)
def test_json_round_trip(operator: Operator) -> None:
    assert json.decode(json.encode(operator.to_json()), type=AnyOperator) == operator


@pytest.mark.parametrize(
    "described",
    [
        {"form": "fine-grain", "values": 2, "denominator": DYADIC, "retentions": [1]},
        {"form": "fine-grain", "values": 1, "denominator": DYADIC, "retentions": [DYADIC + 1]},
        {"form": "general", "values": 1, "denominator": DYADIC, "rows": [[DYADIC]]},
        {"form": "uniform", "values": 2, "retention": "1/0"},
        {"form": "observed-decoy", "values": 2, "groups": 2, "counts": [1, 1]},
        {"form": "parts", "values": 2, "parts": []},
        {"form": "parts", "values": 1, "parts": [{"codes": [1], "operator": {"form": "uniform"}}]},
        {
            "form": "parts",
            "values": 1,
            "parts": [
                {"codes": [3], "operator": {"form": "uniform", "values": 1, "retention": "1"}}
            ],
        },
    ],
)
def test_foreign_descriptions_are_refused(described: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        convert(described, AnyOperator)


def test_parts_weights_and_estimates() -> None:
    counts = np.array([50.0, 20.0, 10.0, 30.0, 5.0])  # by symbol
    shown = counts @ PARTS.matrix()
    assert PARTS.estimate(shown) == pytest.approx(counts)
    # what a record adds to every value, by what it shows, and what all of them add up to
    added = PARTS.inverse().weigh(np.eye(4))
    assert np.count_nonzero(np.abs(added) > 1e-12) == 9 + 4
    assert added @ shown == pytest.approx(PARTS.total(counts))
    assert PARTS.condition() >= 1
    assert PARTS.amplification() == max(part.operator.amplification() for part in PARTS.parts)
