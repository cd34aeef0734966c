"""small-sum(…): text forms, the search for a group size, eligibility with its witness."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.guarantees.small_sum import SmallSum
from sfumato.guarantees.small_sum_tails import small_sum_privacy
from sfumato.profile import Histogram


def histogram(*counts: int) -> Histogram:
    return Histogram("disease", tuple("abcdefgh")[: len(counts)], np.array(counts))


def test_the_smallest_group_size_is_found() -> None:
    aim = Fraction(3, 5)
    found = SmallSum(error="0.3", probability=aim, up_to=3)
    assert small_sum_privacy(found.size, Fraction(3, 10), 3) >= aim
    assert small_sum_privacy(found.size - 1, Fraction(3, 10), 3) < aim


def test_an_aim_out_of_reach_names_the_nearest() -> None:
    """Sums of 4 are off by 0.3 with a chance below 0.454 in groups of any size."""
    aim = SmallSum(error=0.3, probability=0.5, up_to=5)
    with pytest.raises(InfeasibleGuarantee) as caught:
        aim.require_feasible(histogram(10, 10, 10))
    assert caught.value.nearest == "small-sum(error=0.3, probability=0.44, up_to=5)"
    assert "sums up to 3" in str(caught.value)
    assert parse_guarantee(caught.value.nearest).size >= 2  # type: ignore[attr-defined]


def test_eligibility_is_exact() -> None:
    SmallSum(3).require_feasible(histogram(3, 3, 3))
    SmallSum(3).require_feasible(histogram(3, 3, 3, 1))  # 10 records, 3 groups, one record withheld
    with pytest.raises(InfeasibleGuarantee) as caught:
        SmallSum(3).require_feasible(histogram(4, 3, 3))
    assert caught.value.witness == "'a'"
    assert caught.value.nearest == "small-sum(groups=2)"


def test_nothing_is_near_when_a_value_has_more_than_half() -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        SmallSum(2).require_feasible(histogram(6, 3))
    assert caught.value.nearest is None


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(InfeasibleGuarantee):
        SmallSum(2).require_feasible(Histogram("disease", (), np.array([], np.int64)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("small-sum", "either a group size or all of error"),
        ("small-sum(error=0.3)", "either a group size or all of error"),
        ("small-sum(5, error=0.3)", "either a group size or all of error"),
        ("small-sum(1)", "'groups' parameter of small-sum must be a whole number of at least 2"),
        ("small-sum(2.5)", "Got 2.5 instead"),
        ("small-sum(error=2, probability=0.5, up_to=3)", "'error' parameter"),
        ("small-sum(error=0.3, probability=0.5, up_to=0)", "'up_to' parameter"),
    ],
)
def test_wrong_parameters(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_guarantee(text)


def test_the_statement_says_small_and_large_and_no_counts() -> None:
    text = SmallSum(10).statement(histogram(351, 200, 100))
    assert "10 different values" in text
    assert "0.612" in text
    assert "41 or more" in text
    assert "200" not in text
