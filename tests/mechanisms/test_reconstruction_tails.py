"""The tails: golden numbers, rationals, and simulation."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from papers.reconstruction.figures import chernoff_size, exact_limit
from sfumato.draws import Draws
from sfumato.mechanisms.reconstruction.drawing import draw_block
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import level_of, levels
from sfumato.mechanisms.reconstruction.tails import Setting, tails
from sfumato.mechanisms.reconstruction.testing import choose_samples, private_cells
from sfumato.operators import Uniform


def setting(p: str = "1/2", m: int = 10, error: str = "0.3", chance: str = "0.3") -> Setting:
    return Setting(Fraction(error), Fraction(chance), Fraction(p), m)


def one(case: Setting, size: int, sample: int, count: int) -> tuple[float, float, float, float]:
    found = tails(case, *(np.array([n]) for n in (size, sample, count)))
    arrays = (found.above, found.below, found.at_least, found.at_most)
    return tuple(float(array[0]) for array in arrays)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("m", "share", "chernoff", "limit"),
    [(10, "1/2", 128, 10), (50, "1/2", 111, 2), (50, "1/10", 642, 50)],
)
def test_limits_of_erratum_r1(m: int, share: str, chernoff: int, limit: int) -> None:
    case = setting(m=m)
    assert math.floor(chernoff_size(Fraction(share), case)) == chernoff
    assert exact_limit(Fraction(share), case) == limit


@pytest.mark.parametrize(
    ("m", "p", "size", "count", "above", "below"),
    [
        (10, "1/2", 128, 64, 0.0101, 0.0108),
        (50, "1/2", 112, 56, 0.0137, 0.0114),
        (50, "1/2", 640, 64, 0.0161, 0.0153),
        (50, "7/10", 130, 39, 0.0011, 0.0024),
    ],
)
def test_tails_of_erratum_r1(
    m: int, p: str, size: int, count: int, above: float, below: float
) -> None:
    found = one(setting(p, m), size, size, count)
    assert found[:2] == pytest.approx((above, below), abs=5e-5)


def rational_tails(case: Setting, size: int, sample: int, count: int) -> list[Fraction]:
    """By enumeration of everything that is drawn, in rationals."""
    p, q, error = case.retention, case.background, case.error
    hits, rest = divmod(sample * count, size)
    total = [Fraction(0)] * 4
    for k, weight in ((hits, 1 - Fraction(rest, size)), (hits + 1, Fraction(rest, size))):
        if not weight:
            continue
        for i, j in product(range(k + 1), range(sample - k + 1)):
            chance = weight * math.comb(k, i) * (p + q) ** i * (1 - p - q) ** (k - i)
            chance *= math.comb(sample - k, j) * q**j * (1 - q) ** (sample - k - j)
            low, left = divmod((i + j) * size, sample)
            for copies, part in ((low, sample - left), (low + 1, left)):
                estimate = (Fraction(copies, size) - q) / p
                share = Fraction(count, size)
                mass = chance * Fraction(part, sample)
                total[0] += mass * (estimate > share * (1 + error))
                total[1] += mass * (estimate < share * (1 - error))
                total[2] += mass * (estimate >= share)
                total[3] += mass * (estimate <= share)
    return total


def test_tails_equal_enumeration_in_rationals() -> None:
    generator = np.random.default_rng(20)
    for _ in range(150):
        case = Setting(
            Fraction(int(generator.integers(1, 10)), 10),
            Fraction(3, 10),
            Fraction(int(generator.integers(1, 10)), 10),
            int(generator.integers(2, 12)),
        )
        size = int(generator.integers(1, 14))
        sample = int(generator.integers(1, size + 1))
        count = int(generator.integers(1, size + 1))
        wanted = [float(x) for x in rational_tails(case, size, sample, count)]
        assert one(case, size, sample, count) == pytest.approx(wanted, abs=1e-12)


def test_wide_numbers_take_the_exact_path() -> None:
    odd = Setting(Fraction(1, 3), Fraction(3, 10), Fraction(2**31 + 1, 2**32), 977)
    wanted = [float(x) for x in rational_tails(odd, 12, 7, 5)]
    assert one(odd, 12, 7, 5) == pytest.approx(wanted, abs=1e-12)


def test_a_threshold_that_is_hit_exactly_counts_as_no_error() -> None:
    # 10 records, 5 hits, m = 5, p = 1/2, error 1/5: 4 and 3 published are exactly (1 ± λ)f
    case = setting(m=5, error="1/5")
    pmf = [float(x) for x in _pmf(5, Fraction(3, 5), 5, Fraction(1, 10))]
    above, below, _, _ = one(case, 10, 10, 5)
    assert above == pytest.approx(sum(pmf[5:]), abs=1e-12)
    assert below == pytest.approx(sum(pmf[:3]), abs=1e-12)


def _pmf(k: int, a: Fraction, rest: int, q: Fraction) -> list[Fraction]:
    total = [Fraction(0)] * (k + rest + 1)
    for i, j in product(range(k + 1), range(rest + 1)):
        total[i + j] += (
            math.comb(k, i)
            * a**i
            * (1 - a) ** (k - i)
            * math.comb(rest, j)
            * q**j
            * (1 - q) ** (rest - j)
        )
    return total


def repeated(counts: list[int], times: int) -> PersonalGroups:
    cells = len(counts)
    return PersonalGroups(
        (),
        np.arange(times),
        np.arange(times + 1) * cells,
        np.tile(np.arange(cells), times),
        np.tile(np.array(counts, np.int64), times),
    )


def simulated(counts: list[int], sample: int, case: Setting, times: int, seed: int) -> np.ndarray:
    """Estimated share of each value, drawn by the mechanism itself; (time, value)."""
    groups = repeated(counts, times)
    operator = Uniform(case.values, case.retention)
    draws = Draws.from_seed(seed)
    published = np.zeros((times, case.values))
    for run in groups.blocks():
        drawn = draw_block(groups, np.full(times, sample), run, operator, draws)
        published[drawn.groups, drawn.values] = drawn.counts
    size = sum(counts)
    assert (published.sum(axis=1) == size).all()
    shares = (published / size - float(case.background)) / float(case.retention)
    return shares[:, : len(counts)]


def test_large_groups_agree_with_simulation() -> None:
    # 6 tails, each within 4.5 standard errors: a false alarm in 1 of 25,000 seeds
    case = setting(m=20, p="3/4")
    counts, times = [3000, 1200, 800], 20_000
    found = simulated(counts, 37, case, times, seed=5)
    for value, count in enumerate(counts):
        share = count / 5000
        above, below, _, _ = one(case, 5000, 37, count)
        for exact, hits in (
            (above, found[:, value] > share * 1.3 + 1e-12),
            (below, found[:, value] < share * 0.7 - 1e-12),
        ):
            error = math.sqrt(exact * (1 - exact) / times)
            assert abs(hits.mean() - exact) < 4.5 * error


def random_group(generator: np.random.Generator, m: int) -> list[int]:
    kinds = int(generator.integers(1, min(m, 9) + 1))
    size = int(np.exp(generator.uniform(0, 6))) + kinds
    shares = generator.dirichlet(np.full(kinds, 0.7))
    counts = np.maximum(generator.multinomial(size - kinds, shares) + 1, 1)
    return [int(count) for count in counts]


def test_groups_that_pass_have_simulated_tails_of_at_least_delta() -> None:
    # 400 random groups, both tails of the commonest value against δ − 3 standard errors. A tail of
    # exactly δ would fail once in 740; most are well above.
    generator = np.random.default_rng(6)
    times, checked = 500, 0
    cases = [setting(p, m) for p, m in (("1/2", 50), ("1/4", 14), ("5/8", 7), ("1/2", 2))]
    while checked < 400:
        case = cases[checked % len(cases)]
        counts = random_group(generator, case.values)
        groups = repeated(counts, 1)
        sample = int(choose_samples(groups, case, levels(case))[0])
        if sample == 0:
            continue
        checked += 1
        found = simulated(counts, sample, case, times, seed=checked)
        top = int(np.argmax(counts))
        share = counts[top] / sum(counts)
        error = 3 * math.sqrt(0.3 * 0.7 / times)
        assert (found[:, top] > 1.3 * share + 1e-12).mean() >= 0.3 - error
        assert (found[:, top] < 0.7 * share - 1e-12).mean() >= 0.3 - error


def test_either_way_follows_from_both_ways() -> None:
    case = setting(m=7)
    size = np.repeat(np.arange(1, 40), 40)
    count = np.tile(np.arange(1, 41), 39)
    size, count = size[count <= size], count[count <= size]
    found = tails(case, size, size, count)
    assert not (found.both_ways(0.3) & ~found.either_way(0.3)).any()
    assert found.both_ways(0.3).any()


def test_levels_leave_no_share_out_and_are_few() -> None:
    for m in (2, 14, 50):
        case = setting(m=m)
        chosen = levels(case)
        assert [a.above for a in chosen[:-1]] == [b.to for b in chosen[1:]]
        assert chosen[0].to == 1.0
        assert chosen[-1].above == 0.0
        assert len(chosen) <= 6
        shares = np.linspace(1 / m, 1, 400)
        size = 10**6
        count = np.rint(shares * size).astype(np.int64)
        sample = np.array([level.sample for level in chosen])[level_of(count / size, chosen)]
        sizes = np.full(len(count), size)
        passed = private_cells(case, sizes, sample, count, count)
        assert passed.mean() > 0.97  # the sawtooth's rest is what `choose_samples` lowers


def test_no_level_keeps_a_chance_above_one_half() -> None:
    assert all(level.sample == 0 for level in levels(setting(chance="0.6")))
