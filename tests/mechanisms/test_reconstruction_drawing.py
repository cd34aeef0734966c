"""Sampling, perturbing, scaling: exact sizes, no bias, the same for any cutting into blocks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.draws import Draws
from sfumato.errors import DataError
from sfumato.mechanisms.reconstruction import groups as grouping
from sfumato.mechanisms.reconstruction.drawing import Drawn, draw_block, round_shares
from sfumato.mechanisms.reconstruction.groups import PersonalGroups, personal_groups
from sfumato.mechanisms.reconstruction.merging import Merge, merge_values, pair_ratios
from sfumato.mechanisms.reconstruction.sampled import SampledPlan, part_scales, parts_of
from sfumato.mechanisms.reconstruction.tails import Setting
from sfumato.operators import Uniform
from sfumato.profile import Cells, Histogram

HALF = Uniform(6, Fraction(1, 2))
SETTING = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 6)


def random_groups(seed: int, number: int = 300) -> tuple[PersonalGroups, np.ndarray]:
    generator = np.random.default_rng(seed)
    table = generator.poisson(generator.gamma(0.4, 12, size=(number, 6)))
    table[table.sum(axis=1) == 0, 0] = 1
    owner, values = np.nonzero(table)
    starts = np.searchsorted(owner, np.arange(number + 1))
    found = PersonalGroups((), np.arange(number), starts, values, table[owner, values])
    samples = generator.integers(0, found.sizes + 1)
    return found, samples


def draw_all(groups: PersonalGroups, samples: np.ndarray, draws: Draws) -> Drawn:
    parts = [draw_block(groups, samples, run, HALF, draws) for run in groups.blocks()]
    return Drawn(
        *(
            np.concatenate([getattr(part, field) for part in parts])
            for field in ("groups", "values", "counts")
        )
    )


def test_every_group_keeps_its_size_or_is_left_out() -> None:
    for seed in range(20):
        groups, samples = random_groups(seed)
        drawn = draw_all(groups, samples, Draws.from_seed(seed))
        found = np.bincount(drawn.groups, drawn.counts, minlength=len(groups))
        assert (found == np.where(samples > 0, groups.sizes, 0)).all()
        assert drawn.counts.min() >= 0


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, samples = random_groups(4)
    whole = draw_all(groups, samples, Draws.from_seed(9))
    monkeypatch.setattr(grouping, "_BLOCK", 50)
    cut = draw_all(groups, samples, Draws.from_seed(9))
    assert len(list(groups.blocks())) > 50
    for field in ("groups", "values", "counts"):
        assert (getattr(whole, field) == getattr(cut, field)).all()


def test_rounding_is_unbiased_and_controlled() -> None:
    counts = np.array([7, 5, 3, 1, 1])
    times = 20_000
    owner = np.repeat(np.arange(times), 5)
    totals, wanted = np.full(times, 17), np.full(times, 6)
    for first_cell in (0, None):
        taken = round_shares(
            owner,
            np.tile(counts, times),
            totals,
            wanted,
            Draws.from_seed(1),
            first_cell,
            slice(0, times),
        ).reshape(times, 5)
        assert (taken.sum(axis=1) == 6).all()
        exact = counts * 6 / 17
        assert (np.abs(taken - exact) < 1).all()
        # 5 means within 4.5 standard errors: a false alarm in 1 of 30,000 seeds
        assert (np.abs(taken.mean(axis=0) - exact) < 4.5 * 0.5 / np.sqrt(times)).all()
    # in random order no pair is taken together for want of a third: the two rare values meet
    with_order = round_shares(
        owner, np.tile(counts, times), totals, wanted, Draws.from_seed(2), 0, slice(0, times)
    ).reshape(times, 5)
    assert ((with_order[:, 3] == 1) & (with_order[:, 4] == 1)).any()


def test_published_counts_have_the_predicted_moments() -> None:
    # mean and variance of 6 values over 400 draws: means within 4.5 standard errors, variances
    # within 30 % (4.2 standard errors of a variance of 400 draws); false alarms below 1 in 2,000
    groups, samples = random_groups(8, number=60)
    counts = Histogram("s", tuple(range(6)), np.bincount(groups.values, groups.counts).astype(int))
    plan = SampledPlan(counts, HALF, SETTING, groups, samples)
    mean, variance = plan.moments(samples)
    found = np.zeros((400, 6))
    for seed in range(len(found)):
        drawn = draw_all(groups, samples, Draws.from_seed(seed))
        found[seed] = np.bincount(drawn.values, drawn.counts, minlength=6)
    assert (np.abs(found.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / len(found))).all()
    assert np.abs(found.var(axis=0) / variance - 1).max() < 0.3
    assert (variance > plan.moments(np.where(samples > 0, groups.sizes, 0))[1]).all()


def test_scales_cover_every_group() -> None:
    groups, samples = random_groups(2)
    kept = samples > 0
    scales = np.array(part_scales(groups.sizes, samples))
    parts = parts_of(groups.sizes[kept], samples[kept], scales.tolist())
    ratio = groups.sizes[kept] / samples[kept]
    assert (scales[parts] >= ratio).all()
    assert (scales[parts] <= ratio * 1.1 + 1e-5).all()
    assert ((parts == 0) == (samples[kept] == groups.sizes[kept])).all()


FIVE = Fraction(1, 20)


@pytest.mark.parametrize("m", [2, 5, 50])
def test_the_test_has_its_size(m: int) -> None:
    # 4,000 pairs from one distribution: 5 % ± 4.5 standard errors (1 false alarm in 150,000); the
    # paper's m degrees of freedom would give 1.5, 2.4 and 3.5 % (errata R6)
    generator = np.random.default_rng(m)
    shares = generator.dirichlet(np.full(m, 5.0))
    rejected = [
        pair_ratios(generator.multinomial(3000, shares, size=2), FIVE)[0, 1] > 1
        for _ in range(4000)
    ]
    error = 4.5 * np.sqrt(0.05 * 0.95 / 4000)
    assert abs(np.mean(rejected) - 0.05) < error


def chain() -> np.ndarray:
    """Neighbours do not differ, ends do."""
    shares = np.linspace(0.3, 0.7, 9)
    return np.rint(np.stack([shares, 1 - shares], axis=1) * 400).astype(np.int64)


def test_components_are_transitive_and_log_what_they_override() -> None:
    domain = tuple(range(9))
    merged = merge_values("age", domain, chain(), FIVE)
    assert merged.count == 1
    apart = pair_ratios(chain(), FIVE) > 1
    assert 0 < int(np.triu(apart, 1).sum()) < 36


def test_too_many_values_are_refused() -> None:
    wide = np.ones((12_001, 2), np.int64)
    with pytest.raises(DataError, match="merge=components compares at most 12,000"):
        merge_values("zip", tuple(range(12_001)), wide, FIVE)


def test_wide_domains_equal_the_definition() -> None:
    generator = np.random.default_rng(9)
    table = generator.poisson(generator.gamma(0.3, 4, size=(300, 20)))
    found = pair_ratios(table, FIVE)
    from scipy import stats

    for _ in range(300):
        i, j = generator.choice(300, 2, replace=False)
        both = table[[i, j]][:, table[[i, j]].sum(axis=0) > 0]
        if both.shape[1] < 2 or (both.sum(axis=1) == 0).any():
            assert found[i, j] == 0
            continue
        statistic = stats.chi2_contingency(both, correction=False).statistic
        critical = stats.chi2.isf(0.05, both.shape[1] - 1)
        assert found[i, j] == pytest.approx(statistic / critical, rel=1e-5, abs=1e-6)


def test_labels_are_short_and_different() -> None:
    classes = np.array([0, 1] * 60)
    labels = Merge("zip", tuple(f"{n:05}" for n in range(120)), classes).labels()
    assert len(set(labels)) == 2
    assert all(len(label) <= 62 for label in labels)
    missing = Merge("a", ("x", None), np.array([0, 1]))
    assert missing.labels() == ("x", "(missing)")


def test_groups_are_the_cells_after_merging() -> None:
    generator = np.random.default_rng(3)
    rows = generator.integers(0, (4, 3, 2, 5), size=(3000, 4))
    rows[rows[:, 2] == 1, 3] //= 2  # the third column matters, the others do not
    key = (rows[:, 0] * 3 + rows[:, 1]) * 2 + rows[:, 2]
    code, counts = np.unique(key * 5 + rows[:, 3], return_counts=True)
    cells = Cells(
        ("a", "b", "c"), (tuple("wxyz"), (1, 2, 3), (True, False)), code // 5, code % 5, counts
    )
    plain = personal_groups(cells, 5, None)
    assert len(plain) == len(np.unique(key))
    assert int(plain.sizes.sum()) == 3000
    merged = personal_groups(cells, 5, Fraction(1, 1000))
    assert [m.count for m in merged.merges] == [1, 1, 2]
    assert merged.sizes.tolist() == np.bincount(rows[:, 2]).tolist()
    wanted = [np.bincount(rows[rows[:, 2] == c, 3], minlength=5).max() for c in (0, 1)]
    assert merged.largest.tolist() == wanted
    assert merged.codes(np.array([1]))["c"].tolist() == [1]
