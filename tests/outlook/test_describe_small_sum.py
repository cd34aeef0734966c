"""What describe shows a steward who thinks about small-sum privacy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import InfeasibleGuarantee
from sfumato.outlook.describe import describe
from sfumato.outlook.describe_small_sum import large_sums, small_sums, trade_off
from sfumato.profile import Histogram
from sfumato.table import read


def test_the_trade_off_stops_at_the_largest_group_size() -> None:
    histogram = Histogram("disease", tuple("abcd"), np.array([3000, 3000, 2500, 1500]))
    table = trade_off(histogram, Fraction(3, 10), 3)
    assert [row[0] for row in table.rows] == [2, 3]
    hidden = [row[1] for row in table.rows]
    assert hidden[0] == pytest.approx(0.5)
    assert hidden[1] == pytest.approx(5 / 9)
    assert "at most 3" in table.title


def test_a_value_at_the_limit_has_no_error_to_predict() -> None:
    even = Histogram("disease", tuple("abc"), np.array([1000, 1000, 1000]))
    assert [row[-1] is None for row in trade_off(even, Fraction(3, 10), 3).rows] == [False, True]


def test_the_two_curves() -> None:
    assert small_sums(10).rows[4] == (5, pytest.approx(0.4801, abs=1e-4))
    right = dict(large_sums(10).rows)  # type: ignore[arg-type]
    assert right[100] == pytest.approx(1 - 0.3165, abs=1e-4)
    assert right[5000] > 0.999


def test_describe_shows_them_for_the_promise() -> None:
    rng = np.random.default_rng(1)
    people = pa.table({"age": rng.integers(0, 9, 900), "disease": rng.integers(0, 12, 900)})
    table = read(people, quasi=["age"], sensitive=["disease"])
    found = describe(table, "small-sum(error=0.3, probability=0.55, up_to=3)")
    names = [table.name for table in found.tables]
    assert names[-3:] == ["Trade-off", "Small sums", "Large sums"]
    assert "Groups of 3 different values." in found.notes
    assert "drawn from 3 different values" in str(found)
    with pytest.raises(InfeasibleGuarantee):
        describe(table, "small-sum(groups=12)")
