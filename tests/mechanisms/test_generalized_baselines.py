"""The baselines: rings of different values, and BuReL's classes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.heterogeneous.matchers import (
    CurveBurel,
    penalty,
)
from sfumato.draws import Draws
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import BetaLikeness, LDiversity, ReconstructionPrivacy
from sfumato.mechanisms.grouped import Burel, ClassLimits, Ring, classes, grid_ring
from sfumato.mechanisms.heterogeneous.mechanism import HeterogeneousGeneralization
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, SetAxis
from sfumato.mechanisms.protocol import Mechanism
from sfumato.mechanisms.sps import SamplingPerturbingScaling
from sfumato.profile import Histogram, Profile


def quiet(stage: str, done: int, total: int) -> None: ...


def make_table(rows: int, seed: int = 0) -> tuple[list[Axis], np.ndarray, Profile]:
    rng = np.random.default_rng(seed)
    axes: list[Axis] = [
        NumericAxis("age", rng.integers(0, 50, rows), np.arange(50), 49),
        SetAxis("sex", rng.integers(0, 2, rows), 2, 1),
    ]
    codes = rng.choice(12, rows, p=np.arange(12, 0, -1) / 78)
    counts = np.bincount(codes, minlength=12)
    return axes, codes, Profile(rows, {"s": Histogram("s", tuple(range(12)), counts)})


def spaced(codes: list[int], number: int) -> bool:
    size = len(codes)
    return all(
        len({codes[(start + k) % size] for k in range(number)}) == number for start in range(size)
    )


@given(st.lists(st.integers(1, 9), min_size=3, max_size=12), st.integers(2, 5), st.randoms())
@settings(max_examples=150, deadline=None)
def test_rings_keep_equal_values_apart(counts: list[int], number: int, random: object) -> None:
    codes = [code for code, count in enumerate(counts) for _ in range(count)]
    random.shuffle(codes)  # type: ignore[attr-defined]
    if max(counts) > len(codes) // number:
        return
    ring = grid_ring(codes, number)
    assert sorted(ring) == list(range(len(codes)))
    assert spaced([codes[place] for place in ring], number)


def test_classes_keep_their_ceilings_and_hold_everybody() -> None:
    axes, codes, _ = make_table(700)
    parts = classes(axes, codes, [Fraction(1, 5)] * 12, np.arange(700))
    assert sorted(np.concatenate(parts).tolist()) == list(range(700))
    assert all(int(np.bincount(codes[part]).max()) * 5 <= len(part) for part in parts)
    assert len(parts) > 5


def test_ring_keeps_diversity_on_both_sides() -> None:
    axes, codes, profile = make_table(600)
    made = (
        Ring()
        .plan(profile, LDiversity(5), Draws.from_seed(1))
        .generalize(axes, codes, Draws.from_seed(1), quiet)
    )
    assert made.matches is not None
    (matches,) = made.matches
    assert all(len(set(row)) == 5 for row in codes[matches].tolist())
    order = np.argsort(matches.ravel(), kind="stable")
    rows = codes[made.source[order // 5]].reshape(-1, 5)
    assert all(len(set(row)) == 5 for row in rows.tolist())
    assert sorted(made.source.tolist()) == list(range(600))


def test_ring_refuses_what_is_not_eligible() -> None:
    _, _, profile = make_table(200)
    with pytest.raises(InfeasibleGuarantee, match="Nearest that can be kept: 'l-diversity"):
        Ring().plan(profile, LDiversity(50), Draws.from_seed(1))


@pytest.mark.parametrize("way", [Burel(), CurveBurel()])
def test_burel_classes_keep_beta(way: Burel) -> None:
    axes, codes, profile = make_table(2000)
    shares = profile.histograms["s"].shares
    for beta in (Fraction(1, 2), Fraction(1), Fraction(314159, 100000)):
        plan = way.plan(profile, BetaLikeness(beta), Draws.from_seed(1))
        plan.check()
        made = plan.generalize(axes, codes, Draws.from_seed(1), quiet)
        assert made.group is not None
        assert sorted(made.source.tolist()) == list(range(2000))
        described = {name: public.value for name, public in made.described().items()}
        assert described["matches"] == np.bincount(made.group).min()
        for group in range(described["groups"]):
            counts = np.bincount(codes[made.source[made.group == group]], minlength=12)
            for count, share in zip(counts.tolist(), shares, strict=True):
                assert Fraction(count, int(counts.sum())) <= (1 + beta) * share


def test_burel_shows_less_than_the_curve_where_columns_can_be_cut() -> None:
    axes, codes, profile = make_table(2000)
    found = []
    for way in (Burel(), CurveBurel()):
        plan = way.plan(profile, BetaLikeness(3), Draws.from_seed(1))
        found.append(penalty(axes, plan.generalize(axes, codes, Draws.from_seed(1), quiet)))
    halves, curve = found
    assert halves < curve


def test_limits_are_exact_however_large_the_numbers() -> None:
    for large in (1, 10**12):
        third = Fraction(10**6 * large, 3 * 10**6 * large + 1)  # a little below 1/3
        limits = ClassLimits([third, Fraction(1)])
        assert limits.kept(np.array([1, 3]))
        assert not limits.kept(np.array([1, 2]))
        assert not limits.kept(np.array([0, 0]))


@pytest.mark.parametrize(
    "way", [Ring(), Burel(), HeterogeneousGeneralization(), SamplingPerturbingScaling()]
)
def test_several_sensitive_columns_are_refused(way: Mechanism) -> None:
    counts = {name: Histogram(name, ("x", "y"), np.array([2, 2])) for name in "ab"}
    promise = LDiversity(2) if way.name != "sps" else ReconstructionPrivacy("0.3", "0.3")
    with pytest.raises(UsageError, match="one sensitive column; the table has 2: a, b"):
        way.plan(Profile(4, counts), promise, Draws.from_seed(1))
