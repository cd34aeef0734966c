"""The promise of ranges and sets, recounted by hand for everybody and every value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws
from sfumato.guarantees import BetaLikeness, Guarantee, LDiversity
from sfumato.mechanisms.generalized import Generalized
from sfumato.mechanisms.grouped import Ring
from sfumato.mechanisms.heterogeneous.mechanism import HeterogeneousGeneralization
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, SetAxis
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import Histogram, Profile


def made(way: Mechanism, guarantee: Guarantee, codes: np.ndarray, seed: int) -> Generalized:
    rng = np.random.default_rng(seed)
    rows = len(codes)
    axes: list[Axis] = [
        NumericAxis("age", rng.integers(0, 60, rows), np.arange(60), 59),
        SetAxis("sex", rng.integers(0, 2, rows), 2, 1),
    ]
    counts = np.bincount(codes)
    histogram = Histogram("s", tuple(range(len(counts))), counts)
    plan = way.plan(Profile(rows, {"s": histogram}), guarantee, Draws.from_seed(seed))
    plan.check()
    assert plan.withheld == 0
    found = plan.generalize(axes, codes, Draws.from_seed(seed), lambda *_: None)  # type: ignore[attr-defined]
    assert isinstance(found, Generalized)
    return found


def largest(release: Generalized, codes: Sequence[int]) -> dict[int, Fraction]:
    """Per value: its largest share among the published matches of any one person."""
    assert release.matches is not None
    rows = [row for run in release.matches for row in run.tolist()]
    shown: dict[int, list[int]] = defaultdict(list)
    for row, source in zip(rows, release.source.tolist(), strict=True):
        assert source in row
        for record in row:
            shown[record].append(codes[source])
    assert sorted(release.source.tolist()) == list(range(len(codes)))  # nobody is left out
    assert sorted(shown) == list(range(len(codes)))
    worst: dict[int, Fraction] = defaultdict(Fraction)
    for values in shown.values():
        for value, times in Counter(values).items():
            worst[value] = max(worst[value], Fraction(times, len(values)))
    return worst


def random_codes(rng: np.random.Generator, most: int = 40) -> np.ndarray:
    counts = rng.integers(1, most, rng.integers(2, 12))
    return np.repeat(np.arange(len(counts)), counts)


def test_eleven_values_of_a_hundred_under_ten_diversity() -> None:
    """The table on which some were once told a value with chance 0.4."""
    codes = np.repeat(np.arange(11), 100)
    release = made(HeterogeneousGeneralization(), LDiversity(10), codes, 1)
    assert max(largest(release, codes.tolist()).values()) == Fraction(1, 10)


def test_diversity_on_random_tables() -> None:
    """Eligible histograms of any shape, at the largest l that they allow or below."""
    rng = np.random.default_rng(20)
    seen = 0
    while seen < 60:
        codes = random_codes(rng)
        most = len(codes) // int(np.bincount(codes).max())
        if most < 2:
            continue
        number = int(rng.integers(2, most + 1)) if seen % 2 else most
        release = made(HeterogeneousGeneralization(), LDiversity(number), codes, seen)
        assert max(largest(release, codes.tolist()).values()) <= Fraction(1, number)
        ring = made(Ring(), LDiversity(number), codes, seen)
        assert max(largest(ring, codes.tolist()).values()) <= Fraction(1, number)
        seen += 1


def test_likeness_on_random_tables() -> None:
    rng = np.random.default_rng(21)
    for seed in range(40):
        codes = random_codes(rng, 12)
        beta = Fraction(int(rng.integers(1, 40)), 10)
        release = made(HeterogeneousGeneralization(), BetaLikeness(beta), codes, seed)
        counts = np.bincount(codes)
        for value, share in largest(release, codes.tolist()).items():
            assert share <= (1 + beta) * Fraction(int(counts[value]), len(codes))
