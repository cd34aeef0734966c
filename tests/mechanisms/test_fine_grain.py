"""Fine-grain planning: the traps of errata T12, and what is never worse."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.draws import Draws
from sfumato.engines.words import Facts
from sfumato.errors import InfeasibleGuarantee, UsageError, WeakPromiseWarning
from sfumato.guarantees import FineRhoPrivacy, RhoPrivacy
from sfumato.guarantees.odds import round_down
from sfumato.guarantees.value_table import ChanceLimits
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.fine_grain import FineGrainPerturbation
from sfumato.mechanisms.uniform import UniformPerturbation
from sfumato.profile import Histogram, Profile
from sfumato.public import fitted_of

DRAWS = Draws.from_seed(1)
T12 = (60, 25, 11, 2, 2)


def profile(*counts: int) -> Profile:
    histogram = Histogram("s", tuple("abcdefghijkl"[: len(counts)]), np.array(counts, np.int64))
    return Profile(histogram.rows, {"s": histogram})


def theta(value: int) -> FineRhoPrivacy:
    return FineRhoPrivacy(theta=Fraction(value))


def test_t12_tied_rare_values_get_p_min_and_a_warning_that_names_them() -> None:
    with pytest.warns(WeakPromiseWarning, match=r"leave nothing of 'd', 'e'; p_min keeps them"):
        plan = FineGrainPerturbation().plan(profile(*T12), theta(15), DRAWS)
    plan.check()
    operator = plan.operators["s"]
    assert np.isfinite(operator.weights()).all()
    assert np.isfinite(operator.condition())
    assert plan.floors["s"] == [3, 4]
    words = Facts.of_plan(FineGrainPerturbation(), theta(15), plan, plan.histograms)
    assert any("'d', 'e'" in sentence for sentence in words.caveats())
    assert np.isfinite(plan.predicted_error())


def test_t12_without_p_min_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"keeps nothing of 'd', 'e' .* Choose a p_min above 0"):
        FineGrainPerturbation(p_min=Fraction(0)).plan(profile(*T12), theta(15), DRAWS)


def test_limits_without_room_are_refused() -> None:
    tight = RhoPrivacy(Fraction(3, 10), Fraction(3, 10) + Fraction(1, 10**12))
    with pytest.raises(InfeasibleGuarantee, match="no value could be kept at all"):
        UniformPerturbation().plan(profile(5, 3, 2), tight, DRAWS)


def test_p_min_1_is_uniform_or_better_for_every_value() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = FineGrainPerturbation(p_min=Fraction(1)).plan(profile(*T12), theta(15), DRAWS)
    uniform = UniformPerturbation().plan(profile(*T12), theta(15), DRAWS)
    assert min(plan.operators["s"].retentions) >= float(uniform.operators["s"].retention) - 1e-9


histograms = st.lists(st.integers(1, 500), min_size=2, max_size=12)


@settings(max_examples=80, deadline=None)
@given(histograms, st.integers(2, 40), st.sampled_from(["records", "counts"]))
def test_every_plan_keeps_its_limits_exactly(counts, times, objective) -> None:
    promise, table = theta(times), profile(*counts)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakPromiseWarning)
            plan = FineGrainPerturbation(objective=objective).plan(table, promise, DRAWS)
    except InfeasibleGuarantee:
        return
    plan.check()
    assert np.isfinite(plan.operators["s"].weights()).all()
    histogram = table.histograms["s"]
    gains = plan.operators["s"].odds_gains()
    for gain, share, ceiling in zip(
        gains, histogram.shares, promise.ceilings(histogram), strict=True
    ):
        if ceiling < 1:
            assert gain is not None
            odds = gain * share / (1 - share)
            assert odds / (1 + odds) <= ceiling
    if objective == "counts":
        uniform = UniformPerturbation().plan(table, promise, DRAWS)
        assert plan.predicted_error() <= uniform.predicted_error() * (1 + 1e-6)


def test_rho_privacy_frees_values_that_it_does_not_cover() -> None:
    promise = RhoPrivacy(Fraction(1, 10), Fraction(1, 2))
    limits = promise.odds_limits(profile(50, 30, 12, 5, 3).histograms["s"])
    assert limits == [None, None, None, 9, 9]


@pytest.mark.parametrize("limits", ["a:0.1:0.4;b:0.2:0.5;*:0.3:0.6", "a:0.05:0.2;b:0.05:0.3;*"])
@pytest.mark.parametrize("mechanism", ["uniform", "fine-grain", "fine-grain(objective=counts)"])
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
def test_under_stated_limits_no_count_decides(limits: str, mechanism: str) -> None:
    """Whatever the table, the operator is the same: it can tell nothing about anybody."""
    promise, way = FineRhoPrivacy(limits=ChanceLimits.of(limits)), parse_mechanism(mechanism)
    tables = [profile(2, 7, 60, 31), profile(97, 1, 1, 1), profile(25, 25, 25, 25)]
    plans = [way.plan(table, promise, DRAWS) for table in tables]
    assert len({str(plan.public()) for plan in plans}) == 1
    assert not any(fitted_of(plan.public()) for plan in plans)


@settings(max_examples=200, deadline=None)
@given(st.fractions(Fraction(1, 10**9), 10**9).filter(lambda number: number > 0))
def test_rounding_down_keeps_six_digits(number: Fraction) -> None:
    rounded = round_down(number, 6)
    assert rounded <= number < rounded * Fraction(33, 32)
    digits = rounded
    while digits.denominator > 1:
        digits *= 2
    whole = digits.numerator
    while whole % 2 == 0:
        whole //= 2
    assert whole < 64


@pytest.mark.slow
@pytest.mark.parametrize("way", ["uniform", "fine-grain(objective=counts)"])
def test_a_plan_hardly_ever_tells_what_one_record_was(way: str) -> None:
    """Of 40 tables that differ from another in one record, nearly all have the same plan."""
    rng = np.random.default_rng(6)
    different = 0
    for _ in range(40):
        counts = rng.integers(200, 5000, 8)
        moved = counts.copy()
        moved[0] -= 1
        moved[int(rng.integers(1, 8))] += 1
        plans = [
            parse_mechanism(way).plan(profile(*each.tolist()), theta(6), DRAWS)
            for each in (counts, moved)
        ]
        different += plans[0].public() != plans[1].public()
    assert different <= 4


def test_planning_limits_are_on_the_safe_side() -> None:
    histogram = profile(40, 20, 9, 1).histograms["s"]
    for exact, rough in zip(
        theta(4).odds_limits(histogram), theta(4).planning_limits(histogram), strict=True
    ):
        assert (exact is None) == (rough is None)
        assert exact is None or rough is None or rough <= exact
