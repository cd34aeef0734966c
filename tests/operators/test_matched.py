"""Records read as the people that they span: written out person by person."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.operators.matched import Marginal, MatchedRecords


def spans(
    seed: int, values: int, records: int, matches: int
) -> tuple[MatchedRecords, list[list[int]]]:
    """Ranges or sets, and the values that each record shows; the named ones come first."""
    draw = np.random.default_rng(seed)
    if seed % 2:
        ends = np.sort(draw.integers(0, values, (records, 2)), axis=1)
        shown = [
            list(dict.fromkeys([low, high, *range(low, high + 1)])) for low, high in ends.tolist()
        ]
        return MatchedRecords.of_ranges(ends[:, 0], ends[:, 1], values, matches), shown
    shown = [
        draw.choice(values, draw.integers(1, values + 1), replace=False).tolist()
        for _ in range(records)
    ]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in shown])])
    return MatchedRecords.of_sets(
        np.concatenate(shown).astype(np.int64), starts, values, matches
    ), shown


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.integers(2, 8))
def test_shares_and_marginals_are_those_of_people_written_out(
    seed: int, values: int, records: int, matches: int
) -> None:
    matched, shown = spans(seed, values, records, matches)
    marginal = matched.marginal
    people = np.zeros((records, values))
    for record, inside in enumerate(shown):
        named = inside if seed % 2 == 0 else list({min(inside), max(inside)})
        number = max(matches, len(named))
        people[record, named] += 1 / number
        mass = marginal[inside].sum()
        people[record, inside] += (1 - len(named) / number) * marginal[inside] / max(mass, 1e-300)
    satisfied = np.random.default_rng(seed + 1).random(values) < 0.5
    assert matched.share(satisfied) == pytest.approx(people[:, satisfied].sum(axis=1), abs=1e-9)
    assert people.sum(axis=1) == pytest.approx(1.0)
    # what the records add up to is the marginal that they were read with
    assert people.mean(axis=0) == pytest.approx(marginal, abs=2e-3)


def test_records_add_up_to_the_people_that_are_told() -> None:
    """600 people, half of them with the first of 20 values, in rows of 8 from near and far."""
    draw = np.random.default_rng(7)
    value = np.sort(np.minimum(draw.exponential(3.0, 600).astype(np.int64), 19))
    rows = value[(np.arange(600)[:, None] + draw.integers(0, 300, (600, 8))) % 600]
    people = np.bincount(rows.ravel(), minlength=20) / 8  # as the rows take them
    cell = np.repeat(np.arange(10), 2)
    told = Marginal(cell, np.rint(np.bincount(cell, people)).astype(np.int64))
    low, high = rows.min(axis=1), rows.max(axis=1)
    blind = MatchedRecords.of_ranges(low, high, 20, 8)
    knowing = MatchedRecords.of_ranges(low, high, 20, 8, told)
    off = []
    for each in range(4):
        satisfied = cell == each
        true = int(told.people[each])
        assert knowing.share(satisfied).sum() == pytest.approx(true, abs=2.5)
        apart = abs(600 - int(told.people.sum()))
        assert knowing.reading(satisfied).told == (true - apart, true + apart)
        assert blind.reading(satisfied).told == (0.0, 600.0)
        off.append(abs(float(blind.share(satisfied).sum()) - true))
    assert max(off) > 10
    half = np.arange(20) == 0  # one of two values of a cell: nobody or all of it
    assert knowing.reading(half).told == (-apart, told.people[0] + apart)
