"""small-sum(…): text forms, the search for a group size, eligibility with its witness."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.guarantees.small_sum import SmallSum
from sfumato.guarantees.small_sum_tails import (
    large_sum,
    small_sum_privacy,
    wrong_sum,
    wrong_sums,
)
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


@pytest.mark.parametrize("text", ["small-sum", "small-sum(error=0.3)", "small-sum(5, error=0.3)"])
def test_wrong_parameters(text: str) -> None:
    with pytest.raises(UsageError, match="either a group size or all of error"):
        parse_guarantee(text)


def test_the_statement_says_small_and_large_and_no_counts() -> None:
    text = SmallSum(10).statement(histogram(351, 200, 100))
    assert "10 different values" in text
    assert "0.612" in text
    assert "41 or more" in text
    assert "200" not in text


TENTH, THREE_TENTHS, TWENTIETH = Fraction(1, 10), Fraction(3, 10), Fraction(1, 20)


def by_definition(count: int, groups: int, error: Fraction) -> Fraction:
    trials = groups * count
    return sum(
        (
            Fraction(math.comb(trials, x) * (groups - 1) ** (trials - x), groups**trials)
            for x in range(trials + 1)
            if abs(x - count) >= error * count
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("groups", [2, 3, 7, 10])
@pytest.mark.parametrize("error", [TENTH, THREE_TENTHS, Fraction(1, 2), Fraction(1)])
def test_wrong_sum_is_its_definition(groups: int, error: Fraction) -> None:
    for count in range(1, 24):
        exact = wrong_sum(count, groups, error)
        assert exact == by_definition(count, groups, error)
        assert wrong_sums([count], groups, error)[0] == pytest.approx(float(exact), abs=1e-12)


def test_large_sums_that_stay_accurate() -> None:
    assert large_sum(10, TENTH, TWENTIETH) == 351
    assert large_sum(10, THREE_TENTHS, TWENTIETH) == 41


def test_the_exact_large_sum_is_the_last_wrong_one_plus_one() -> None:
    found = large_sum(4, Fraction(1, 5), TENTH)
    tails = {f: by_definition(f, 4, Fraction(1, 5)) for f in range(1, 200)}
    assert tails[found - 1] > TENTH
    assert all(tails[f] <= TENTH for f in range(found, 200))


def test_at_least_and_more_than_differ_where_the_window_ends_on_an_integer() -> None:
    """Errata S8: c = 10, sums up to 10, e = 0.3."""
    assert float(small_sum_privacy(10, THREE_TENTHS, 10)) == pytest.approx(0.3174, abs=1e-4)
    # 0.3 · 10 in binary is not 3, and (1 + 0.3)·10 is 13.000000000000002 or 13 by luck
    assert wrong_sum(10, 10, THREE_TENTHS) == by_definition(10, 10, THREE_TENTHS)
