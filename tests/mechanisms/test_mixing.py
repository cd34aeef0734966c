"""Mixed buckets: exact margins, ceilings in every bucket, close to proportional company."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.buckets.filling import places
from sfumato.mechanisms.mixing import MixedGroups
from sfumato.mechanisms.steps import SlotBuckets


@st.composite
def parts(draw: st.DrawFn) -> tuple[IntArray, int, int, IntArray]:
    """Counts that fill `buckets` of `size` places, often at the eligibility limit."""
    size, buckets = draw(st.integers(1, 6)), draw(st.integers(1, 60))
    limits = draw(st.lists(st.integers(1, size), min_size=1, max_size=12))
    limits += [1] * max(0, size - sum(limits))
    counts = [0] * len(limits)
    rest = size * buckets
    for place in draw(st.permutations(range(len(limits)))):
        # at the limit in half of the cases: that is where rounding could break a ceiling
        most = min(limits[place] * buckets, rest)
        counts[place] = most if draw(st.booleans()) else draw(st.integers(0, most))
        rest -= counts[place]
    for place, limit in enumerate(limits):
        more = min(limit * buckets - counts[place], rest)
        counts[place] += more
        rest -= more
    return np.array(counts), size, buckets, np.array(limits)


def every_record(counts: IntArray) -> tuple[IntArray, IntArray]:
    slots = np.concatenate([np.arange(count) for count in counts])
    return np.repeat(np.arange(len(counts)), counts), slots


@settings(max_examples=150, deadline=None)
@given(parts(), st.integers(1, 70), st.booleans(), st.integers(0, 1 << 30))
def test_margins_ceilings_and_the_bijection(
    part: tuple[IntArray, int, int, IntArray], blocks: int, gathered: bool, seed: int
) -> None:
    counts, size, buckets, limits = part
    mixed = MixedGroups.plan(
        counts,
        size=size,
        buckets=buckets,
        limits=limits,
        draws=Draws.from_seed(seed),
        blocks=blocks,
        gathered=gathered,
    )
    mixed.check()
    values, slots = every_record(counts)
    bucket, place = mixed.place(values, slots)
    assert sorted((bucket * size + place).tolist()) == list(range(size * buckets))
    assert np.array_equal(mixed.values_at(bucket, place), values)
    table = np.zeros((buckets, len(counts)))
    np.add.at(table, (bucket, values), 1)
    assert bool((table <= limits).all())
    assert np.allclose(mixed.co_occurrence(), table.T @ table / size)
    steps = (slots * 7 + 3) % size
    others = mixed.values_at(bucket, (place + steps) % size)
    assert np.array_equal(mixed.mates(values, slots, steps), others)
    spelled = [np.repeat(places(kinds), kinds.times, axis=0) for _, kinds in mixed.runs()]
    held = np.empty((buckets, size), np.int64)
    held[bucket, place] = values
    assert np.array_equal(np.sort(np.concatenate(spelled), axis=1), np.sort(held, axis=1))
    if gathered:
        through_one_table = SlotBuckets([mixed.slot_runs()], [0])
        assert np.array_equal(through_one_table(values, slots), bucket)


def test_everybody_at_the_limit_fills_every_bucket_with_every_value() -> None:
    mixed = MixedGroups.plan([7, 7, 7], size=3, buckets=7, limits=1, draws=Draws.from_seed(5))
    rows = [row for _, kinds in mixed.runs() for row in places(kinds).tolist()]
    assert all(sorted(row) == [0, 1, 2] for row in rows)


def test_company_is_close_to_proportional() -> None:
    """With 20,000 buckets of 5, common pairs meet within 25 % of the proportional number."""
    shares = 1 / np.arange(4, 54) ** 1.1
    counts = (shares / shares.sum() * 99_000).astype(int)
    counts[-10:] += (100_000 - counts.sum()) // 10
    counts[-1] += 100_000 - counts.sum()
    mixed = MixedGroups.plan(counts, size=5, buckets=20_000, limits=1, draws=Draws.from_seed(9))
    met = mixed.co_occurrence()
    expected = np.outer(counts, counts * 4 / (5 * (100_000 - counts)))
    common = (expected > np.quantile(expected, 0.75)) & ~np.eye(50, dtype=bool)
    ratio = met[common] / expected[common]
    assert ratio.min() > 0.75
    assert ratio.max() < 1.25
    one_block = MixedGroups.plan(
        counts, size=5, buckets=20_000, limits=1, draws=Draws.from_seed(9), blocks=1
    )
    assert (one_block.co_occurrence()[common] == 0).mean() > 0.3  # what mixing is there against


def test_many_values_and_blocks() -> None:
    """1,600 values, rounding on counts of which most are smaller than the number of blocks."""
    counts = np.full(1600, 125)
    counts[:800] += np.arange(800) % 7
    counts[800:] -= np.arange(800) % 7
    mixed = MixedGroups.plan(counts, size=10, buckets=20_000, limits=1, draws=Draws.from_seed(2))
    mixed.check()


@pytest.mark.parametrize(
    ("counts", "size", "buckets", "message"),
    [([2, 1], 2, 2, "do not fill"), ([3, 1], 2, 2, "value 0 has 3 records")],
)
def test_impossible_parts_are_refused(
    counts: list[int], size: int, buckets: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MixedGroups.plan(counts, size=size, buckets=buckets, limits=1, draws=Draws.from_seed(1))
