"""SPLU-Gen: whole groups, the law of the published counts, withheld records, several columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.draws import Draws, IntArray, Positions
from sfumato.engines.words import Facts
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees.small_sum import SmallSum
from sfumato.mechanisms import Batch
from sfumato.mechanisms.splu import DecoyPlan, DecoyValues
from sfumato.profile import Histogram, Profile


def profile_of(**columns: IntArray) -> Profile:
    histograms = {
        name: Histogram(name, tuple(range(int(codes.max()) + 1)), np.bincount(codes))
        for name, codes in columns.items()
    }
    return Profile(len(next(iter(columns.values()))), histograms)


def ranks_of(codes: IntArray) -> IntArray:
    ranks, seen = np.empty(len(codes), np.int64), np.zeros(int(codes.max()) + 1, np.int64)
    for index, code in enumerate(codes):
        ranks[index] = seen[code]
        seen[code] += 1
    return ranks


def batch_of(columns: dict[str, IntArray], start: int = 0, stop: int | None = None) -> Batch:
    ranks = {name: ranks_of(codes)[start:stop] for name, codes in columns.items()}
    codes = {name: codes[start:stop] for name, codes in columns.items()}
    count = len(next(iter(codes.values())))
    return Batch(codes, ranks, dict.fromkeys(columns, Positions(start, count)))


def decoys(plan: DecoyPlan, number: int, codes: IntArray, ranks: IntArray) -> IntArray:
    """The values each record may publish, one column per choice."""
    return np.stack(
        [
            plan.columns[number].draw(codes, ranks, np.full(len(codes), choice))[0]
            for choice in range(plan.columns[number].size)
        ],
        axis=1,
    )


@st.composite
def eligible_tables(draw: st.DrawFn) -> tuple[IntArray, int]:
    """Random codes whose commonest value has at most ⌊N/c⌋ records, often exactly that."""
    size = draw(st.integers(2, 6))
    counts = draw(st.lists(st.integers(1, 40), min_size=size, max_size=14))
    while max(counts) > sum(counts) // size:
        largest = counts.index(max(counts))
        others = sum(counts) - counts[largest]
        # the most that is eligible: o ≤ ⌊(o + rest)/c⌋
        counts[largest] = max(1, min(counts[largest] - 1, others // (size - 1)))
    return np.repeat(np.arange(len(counts)), counts), size


@settings(max_examples=120, deadline=None)
@given(eligible_tables(), st.integers(0, 1 << 30))
def test_every_record_draws_from_different_values_its_own_among_them(
    table: tuple[IntArray, int], seed: int
) -> None:
    codes, size = table
    plan = DecoyValues().plan(profile_of(s=codes), SmallSum(size), Draws.from_seed(seed))
    plan.check()
    ranks = ranks_of(codes)
    _, own = plan.columns[0].draw(codes, ranks, np.zeros(len(codes), np.int64))
    kept = np.ones(len(codes), np.bool_) if own is None else own
    assert int((~kept).sum()) == plan.withheld == len(codes) % size
    choices = decoys(plan, 0, codes, ranks)[kept]
    assert all(len(set(row)) == size for row in choices.tolist())
    assert bool((choices == codes[kept, None]).any(axis=1).all())
    # whole groups: every value is a possible choice of exactly c·o records
    assert np.array_equal(
        np.bincount(choices.ravel(), minlength=plan.columns[0].counts.size),
        size * plan.columns[0].grouped,
    )


def test_published_counts_are_binomial() -> None:
    """400 publications, chi-square over five cells per value; an honest one fails with 1e-6."""
    from scipy import stats

    counts = np.array([40, 33, 25, 20, 12, 7, 3])
    size = 3
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(7), counts))[:138]
    counts = np.bincount(codes)
    assert len(codes) % size == 0
    profile, batch = profile_of(s=codes), batch_of({"s": codes})
    seen = np.empty((400, 7), np.int64)
    for seed in range(400):
        draws = Draws.from_seed(seed)
        plan = DecoyValues().plan(profile, SmallSum(size), draws.child("plan"))
        published = plan.apply(batch, draws).codes["s"]
        seen[seed] = np.bincount(published, minlength=7)
    statistic, freedom = 0.0, 0
    for value, count in enumerate(counts):
        law = stats.binom(size * count, 1 / size)
        edges = np.unique(law.ppf([0.2, 0.4, 0.6, 0.8]))
        chances = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
        cells = np.bincount(np.searchsorted(edges, seen[:, value]), minlength=len(chances))
        statistic += float(((cells - 400 * chances) ** 2 / (400 * chances)).sum())
        freedom += len(chances) - 1
    # counts of different values are dependent: compare with a generous single bound
    assert stats.chi2.sf(statistic, freedom) > 1e-6
    assert seen.mean(axis=0) == pytest.approx(counts, abs=6 * np.sqrt(40 * 2 / 3 / 400))


@pytest.mark.slow
def test_withheld_records_are_uniform() -> None:
    """2 of 20 records withheld, 1,500 plans: every record's share of 0.1 within 5 deviations."""
    codes = np.repeat(np.arange(4), [6, 6, 5, 3])
    profile, ranks = profile_of(s=codes), ranks_of(codes)
    withheld = np.zeros(20)
    for seed in range(1500):
        plan = DecoyValues().plan(profile, SmallSum(3), Draws.from_seed(seed))
        _, own = plan.columns[0].draw(codes, ranks, np.zeros(20, np.int64))
        assert own is not None
        withheld += ~own
    assert np.abs(withheld / 1500 - 0.1).max() < 5 * np.sqrt(0.09 / 1500)


def test_a_second_column_has_groups_of_its_own_and_loses_the_same_records() -> None:
    rng = np.random.default_rng(3)
    columns = {"s": rng.integers(0, 8, 503), "t": rng.integers(0, 12, 503)}
    draws = Draws.from_seed(6)
    plan = DecoyValues().plan(profile_of(**columns), SmallSum(5), draws.child("plan"))
    assert isinstance(plan, DecoyPlan)
    published = plan.apply(batch_of(columns), draws)
    assert published.keep is not None
    assert int((~published.keep).sum()) == plan.withheld == 3
    for number, codes in enumerate(columns.values()):
        kept = published.keep if number == 0 else np.ones(503, np.bool_)
        choices = decoys(plan, number, codes, ranks_of(codes))[kept]
        assert all(len(set(row)) == 5 for row in choices.tolist())
        assert bool((choices == codes[kept, None]).any(axis=1).all())


def test_spare_records_of_values_nobody_else_has_still_get_decoys() -> None:
    """Seven records, seven values, groups of 5: two spare ones stand in for others."""
    columns = {"s": np.arange(7), "t": np.arange(7)[::-1].copy()}
    for seed in range(20):
        plan = DecoyValues().plan(profile_of(**columns), SmallSum(5), Draws.from_seed(seed))
        choices = decoys(plan, 1, columns["t"], np.zeros(7, np.int64))
        assert all(len(set(row)) == 5 for row in choices.tolist())
        assert bool((choices == columns["t"][:, None]).any(axis=1).all())


def test_independent_columns_are_drawn_independently() -> None:
    codes = np.random.default_rng(8).integers(0, 10, 20_000)
    draws = Draws.from_seed(9)
    plan = DecoyValues().plan(profile_of(s=codes, t=codes), SmallSum(2), draws.child("plan"))
    published = plan.apply(batch_of({"s": codes, "t": codes}), draws).codes
    both = ((published["s"] == codes) & (published["t"] == codes)).mean()
    assert both == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / 20_000))


def test_every_column_must_be_eligible() -> None:
    columns = {"s": np.arange(20) % 5, "t": np.minimum(np.arange(20) % 5, 2)}
    with pytest.raises(InfeasibleGuarantee, match="column 't'"):
        DecoyValues().plan(profile_of(**columns), SmallSum(4), Draws.from_seed(1))


def test_a_value_near_the_limit_is_for_the_steward_alone() -> None:
    """That it stands in nearly every group follows from hidden counts."""
    codes = np.repeat(np.arange(4), [24, 18, 18, 16])
    plan = DecoyValues().plan(profile_of(s=codes), SmallSum(3), Draws.from_seed(1))
    notes = plan.notes()
    assert any("0 stand in nearly every group" in note for note in notes)
    words = Facts.of_plan(DecoyValues(), SmallSum(3), plan, plan.histograms)
    assert not any("nearly every group" in caveat for caveat in words.caveats())


def test_chances_of_sums_are_stated_for_the_first_column_only() -> None:
    """Who is left out follows from the first column, so in another the law is not binomial."""
    codes = np.repeat(np.arange(4), 20)
    profile = profile_of(s=codes, t=codes[::-1].copy())
    plan = DecoyValues().plan(profile, SmallSum(3), Draws.from_seed(1))
    first, second = Facts.of_plan(DecoyValues(), SmallSum(3), plan, plan.histograms).statement()
    assert "shown wrong by 0.3" in first
    assert "drawn from 3 different values" in second
    assert "No chances are promised" in second
