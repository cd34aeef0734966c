"""Mixed buckets: exact margins, ceilings in every bucket, close to proportional company."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.buckets.foretold import varies_between
from sfumato.mechanisms.mixed import BucketParts, Mixed
from sfumato.operators.base import FloatArray

Part = tuple[IntArray, int, int, IntArray]


@st.composite
def a_part(draw: st.DrawFn, values: int) -> Part:
    """Counts that fill `buckets` of `size` places, often at the eligibility limit."""
    size, buckets = draw(st.integers(1, min(6, values))), draw(st.integers(1, 40))
    limits = [draw(st.integers(1, size)) for _ in range(values)]
    counts, rest = [0] * values, size * buckets
    for place in draw(st.permutations(range(values))):
        # at the limit in half of the cases: that is where rounding could break a ceiling
        most = min(limits[place] * buckets, rest)
        counts[place] = most if draw(st.booleans()) else draw(st.integers(0, most))
        rest -= counts[place]
    for place, limit in enumerate(limits):
        more = min(limit * buckets - counts[place], rest)
        counts[place] += more
        rest -= more
    return np.array(counts), size, buckets, np.array(limits)


@st.composite
def parts(draw: st.DrawFn) -> tuple[BucketParts, IntArray]:
    values = draw(st.integers(1, 9))
    made = draw(st.lists(a_part(values), min_size=1, max_size=4))
    counts, sizes, buckets, limits = (np.array(each) for each in zip(*made, strict=True))
    blocks = np.cumsum([0, *(draw(st.integers(0, 1)) for _ in made[1:])])
    return BucketParts(blocks, sizes, buckets, counts), limits


def table_of(mixed: Mixed) -> IntArray:
    """Records by bucket and value, slot by slot."""
    counts = mixed.parts.by_block.reshape(-1)
    values = np.repeat(np.arange(len(counts)), counts) % mixed.parts.values
    found = np.zeros((int(mixed.parts.first[-1]), mixed.parts.values), np.int64)
    np.add.at(found, (mixed.slot_buckets(), values), 1)
    return found


@settings(max_examples=120, deadline=None)
@given(parts(), st.integers(1, 70), st.booleans(), st.integers(0, 1 << 30))
def test_margins_ceilings_and_what_is_listed(
    made: tuple[BucketParts, IntArray], pieces: int, gathered: bool, seed: int
) -> None:
    held, limits = made
    many = np.full(len(held.sizes), pieces)
    mixed = Mixed(held, limits, many, Draws.from_seed(seed), gathered)
    mixed.check()
    found = table_of(mixed)
    assert np.array_equal(found.sum(axis=1), held.bucket_sizes())
    assert bool((found <= np.repeat(limits, held.buckets, axis=0)).all())
    listed = np.zeros_like(found)
    for bucket, value, count in mixed.listed():
        assert bool((np.diff(bucket) >= 0).all())
        listed[bucket, value] = count
    assert np.array_equal(listed, found)
    sent = pickle.loads(pickle.dumps(mixed))
    assert np.array_equal(sent.slot_buckets(), mixed.slot_buckets())


def test_mates_are_those_of_the_own_bucket() -> None:
    counts = np.array([9, 8, 7, 3, 3])
    groups = Mixed.groups(counts, 3, Draws.from_seed(4))
    values = np.repeat(np.arange(5), counts)
    slots = np.concatenate([np.arange(count) for count in counts])
    bucket, found = groups.numbers(values, slots), table_of(groups)
    met = np.zeros_like(found)
    for place in range(3):
        mate = groups.mates(values, slots, np.full(len(values), place))
        np.add.at(met, (bucket, mate), 1)
    assert np.array_equal(met, 3 * found)  # everybody meets everybody of the bucket


def together(mixed: Mixed) -> FloatArray:
    """How often values meet in a bucket."""
    held = table_of(mixed)
    return np.asarray(held.T @ (held / held.sum(axis=1)[:, None]))


def one_part(counts: IntArray, size: int, limit: int, seed: int, pieces: int = 4096) -> Mixed:
    one = np.ones(1, np.int64)
    held = BucketParts(0 * one, size * one, one * int(counts.sum() // size), counts[None, :])
    limits = np.full((1, len(counts)), limit)
    return Mixed(held, limits, one * pieces, Draws.from_seed(seed), gathered=limit > 1)


def test_company_is_close_to_proportional() -> None:
    """With 20,000 buckets of 5, common pairs meet within 25 % of the proportional number."""
    shares = 1 / np.arange(4, 54) ** 1.1
    counts = (shares / shares.sum() * 99_000).astype(int)
    counts[-10:] += (100_000 - counts.sum()) // 10
    counts[-1] += 100_000 - counts.sum()
    expected = np.outer(counts, counts * 4 / (5 * (100_000 - counts)))
    common = (expected > np.quantile(expected, 0.75)) & ~np.eye(50, dtype=bool)

    def met(pieces: int) -> IntArray:
        mixed = one_part(counts, 5, 1, 9, pieces)
        return together(mixed)[common]

    ratio = met(4096) / expected[common]
    assert ratio.min() > 0.75
    assert ratio.max() < 1.25
    assert (met(1) == 0).mean() > 0.3  # what mixing is there against


def test_gathering_spreads_values_as_widely_as_they_may() -> None:
    counts = np.array([264] * 10)
    mixed = one_part(counts, 10, 2, 3, pieces=64)
    share = mixed.held / mixed.widths[:, None]
    ideal = varies_between(counts / 264, np.full(10, 2))
    assert (share.var(axis=0) > 0.75 * ideal).all()


def test_rare_values_do_not_meet() -> None:
    """Forty values with one or two records each in 2,000 buckets: no two in one bucket."""
    counts = np.array([2000] * 4 + [1, 2] * 20)
    counts[:4] -= 15
    for seed in range(5):
        met = together(replace(one_part(counts, 4, 2, seed), gathered=False))
        assert (met[4:, 4:][~np.eye(40, dtype=bool)] == 0).all()


@pytest.mark.parametrize(
    ("counts", "size", "message"), [([2, 1], 2, "do not fill"), ([3, 1], 2, "more records than")]
)
def test_impossible_parts_are_refused(counts: list[int], size: int, message: str) -> None:
    one = np.ones(1, np.int64)
    held = BucketParts(0 * one, size * one, 2 * one, np.array([counts]))
    with pytest.raises(ValueError, match=message):
        Mixed(held, np.ones((1, 2), np.int64), one, Draws.from_seed(1))
