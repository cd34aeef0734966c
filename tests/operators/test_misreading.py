"""How far shares of ranges and sets may be misread."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.operators.ranges import Misreading, Reading, Shown, misreading, people_of

ROWS, VALUES = 400, 8


def misread(readings: list[Reading], seen: Shown) -> Misreading:
    return misreading(readings, people_of(readings, seen), seen)


def shown(*, bucketed: bool = False, spans: int = 4) -> Shown:
    return Shown(np.arange(ROWS) % VALUES, VALUES, spans, bucketed)


def flat(even: float, people: float) -> Reading:
    return Reading(np.full(ROWS, even), np.full(ROWS, people))


def test_the_truth_lies_anywhere_between_two_readings() -> None:
    """Of a point between 0 and d the mean square is d²/3, and τ is in units of w(1 − w)."""
    found = misread([flat(0.6, 0.5)], shown())
    assert found.common == pytest.approx(0.1 / 0.25 / np.sqrt(3))
    assert found.own == pytest.approx(0.0, abs=1e-12)


def test_columns_are_misread_each_by_itself_and_pairs_hang_together() -> None:
    """Squares of columns add up, and a unit of log odds moves a(1 − a)b(1 − b) of a pair."""
    one = misread([flat(0.6, 0.5)], shown()).common * 0.25  # in shares
    product = 0.5 * 0.5
    both = misread([flat(0.6, 0.5), flat(0.6, 0.5)], shown()).common * product * (1 - product)
    assert both**2 == pytest.approx(2 * (0.5 * one) ** 2 + (0.25 * 0.25) ** 2)


def test_a_column_that_is_told_is_misread_only_where_a_cell_is_cut() -> None:
    share = np.full(ROWS, 0.5)
    told = misread([Reading(share + 0.1, share, 0.0)], shown())
    assert told == Misreading(0.0, 0.0)
    people = 12.0  # of a cell, half of them asked for
    cut = misread([Reading(share, share, (people / 2) ** 2)], shown())
    assert cut.common * 0.25 * ROWS == pytest.approx(people / 2)


def test_what_is_read_the_same_and_known_for_certain_is_not_misread() -> None:
    certain = np.arange(ROWS) % 2 * 1.0
    assert misread([Reading(certain, certain)], shown()) == Misreading(0.0, 0.0)
    assert misread([], shown()) == Misreading(0.0, 0.0)


def test_values_hang_inside_records_as_between_them_up_to_one_unit() -> None:
    codes = np.arange(ROWS) % VALUES
    seen = Shown(codes, VALUES, 50, bucketed=False)
    founds = []
    for strength in (0.0, 0.08, 0.2):
        share = 0.5 + strength * (codes / (VALUES - 1) - 0.5)
        share = share + 0.3 * (np.arange(ROWS) // VALUES % 2 - 0.5)
        founds.append(misread([Reading(share, share)], seen).own)
    assert founds[0] == 0.0 < founds[1] < founds[2] <= 1.0


def test_what_buckets_hide_is_taken_to_be_at_the_limit() -> None:
    """A value that fills its bucket stands in as many records as any other, whoever they are."""
    even = flat(0.5, 0.5)
    full = misread([even], shown(bucketed=True, spans=VALUES)).own
    assert full**2 == pytest.approx(0.75)
    half = misread([even], shown(bucketed=True, spans=VALUES // 2)).own
    assert half**2 == pytest.approx(0.75 * (1 - 0.5**2))
    assert misread([even], shown(bucketed=False)).own == 0.0
