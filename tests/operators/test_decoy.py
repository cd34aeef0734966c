"""The decoy operator: exact between x and not x, honest about the eligibility limit."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import ValidationError, convert

from sfumato.errors import SingularOperator, WeakPromiseWarning
from sfumato.operators import AnyOperator
from sfumato.operators.decoy import Decoy


def test_expected_published_counts_are_the_true_ones() -> None:
    """Errata S2: o/c from its own records and o(c−1)/c from the others make o again."""
    counts = np.array([1057, 7459, 20_000, 71_484])
    operator = Decoy(4, 4).observed(counts[[0, 1, 2, 2]])
    own = np.array(operator.counts)
    rest = own.sum() - own
    assert np.allclose(own / 4 + rest * operator.decoy_rates, own)


def test_variance_over_everybody_is_the_binomial_one() -> None:
    counts = np.array([100.0, 200, 300, 150, 250])
    operator = Decoy(5, 3).observed(counts.astype(int))
    assert operator.variances(counts) == pytest.approx(counts * (1 - 1 / 3))


def test_a_value_at_the_limit_is_refused() -> None:
    operator = Decoy(4, 3).observed(np.array([1000, 900, 600, 500]))
    assert operator.at_the_limit().tolist() == [0]
    with pytest.raises(SingularOperator, match=r"value number 0 .* smaller groups"):
        operator.weights()


def test_a_value_near_the_limit_warns() -> None:
    operator = Decoy(4, 3).observed(np.array([310_000, 290_000, 200_000, 200_000]))
    with pytest.warns(WeakPromiseWarning, match="close to the limit of 1/3"):
        operator.weights()


def test_the_manifest_form_round_trips() -> None:
    described = Decoy(4, 3).to_json()
    assert described == {"form": "decoy", "values": 4, "groups": 3}
    assert convert(described, AnyOperator) == Decoy(4, 3)


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"values": 3},
        {"values": 3, "groups": 1},
        {"values": 3, "groups": 4},
        {"values": 3, "groups": 2, "counts": [1, 2, 3]},
    ],
)
def test_nonsense_in_a_manifest_is_refused(described: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        convert({"form": "decoy", **described}, AnyOperator)
