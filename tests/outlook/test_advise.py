"""Advice: solved for the parameter, ceilings kept, and true when it is followed."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import profile_for
from sfumato.engines.counting import no_progress, take_profile
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.outlook.advise import Advice, first_within
from sfumato.outlook.advise.families import average_ceiling, families, stated_ceilings
from sfumato.outlook.advise.pricing import Pricing
from sfumato.outlook.prediction import error_by_count
from sfumato.profile import Histogram

DISEASES = tuple("abcdefghij")


def made(rows: int = 10_000) -> pa.Table:
    """Ten diseases, from 19 % to 1.5 %, that depend on the region."""
    rng = np.random.default_rng(1)
    weights = np.array([1 / (k + 4) for k in range(10)])
    region = rng.integers(0, 4, rows)
    chances = np.stack([np.roll(weights, 2 * k) * weights**0.5 for k in range(4)])
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = (rng.random(rows)[:, None] > np.cumsum(chances, axis=1)[region]).sum(axis=1)
    return pa.table(
        {
            "age": rng.integers(20, 60, rows),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "region": np.array(["n", "s", "e", "w"])[region],
            "disease": np.array(DISEASES)[np.minimum(drawn, 9)],
        }
    )


@pytest.fixture(scope="module")
def table() -> sf.Table:
    return sf.read(made(), quasi="age,sex,region", sensitive="disease")


@pytest.fixture(scope="module")
def advice(table: sf.Table) -> Advice:
    return sf.advise(table, target_error=0.1, min_count=200)


def histogram_of(table: sf.Table) -> Histogram:

    return take_profile(table).histograms["disease"]


@pytest.mark.slow
def test_no_stronger_promise_of_the_family_would_do(advice: Advice, table: sf.Table) -> None:
    """A stronger neighbour misses the target."""
    pricing = Pricing.of(table, 200, no_progress)
    known = {f.name: f for f in families(pricing.histograms)}
    for option in advice.options:
        if option.family not in ("rho-privacy", "fine-rho-privacy", "l-diversity", "small-sum"):
            continue
        family, place = known[option.family], option.places["disease"]
        if option.reached and place:
            stronger = family.promise({"disease": place - 1})
            assert pricing.best(stronger, family.mechanisms)[0] > 0.1


def test_the_recommended_promise_leaves_the_least_belief(advice: Advice, table: sf.Table) -> None:
    chosen = advice.recommended
    assert chosen is not None
    assert chosen.guarantee is not None
    reached = [option for option in advice.options if option.reached]
    all_promised = [option for option in reached if not any(option.without.values())]
    assert chosen.ceiling <= 1.02 * min(option.ceiling for option in all_promised)
    assert chosen.ceiling == average_ceiling(chosen.guarantee, histogram_of(table))
    text = str(advice)
    assert f"--guarantee {shlex.quote(str(chosen.guarantee))}" in text
    assert "leaves the smallest posterior" in text
    assert repr(chosen) == f"'{chosen.guarantee}' by '{chosen.mechanism}': median error " + (
        f"{chosen.error:.3g}"
    )
    assert advice.to_json()["recommended"]["guarantee"] == str(chosen.guarantee)


@pytest.mark.slow
def test_ceilings_are_kept_by_every_ladder(table: sf.Table) -> None:
    """A rare value may be believed with at most 0.12: the cards of the page ask for that."""
    histogram = histogram_of(table)
    rare = histogram.values[int(histogram.counts.argmin())]
    stated = stated_ceilings([histogram], {rare: 0.12})
    listed = families([histogram], stated)
    for family in listed:
        if family.refused:
            assert family.name not in ("fine-rho-privacy", "f-privacy")
        for promise in family.ladders.get("disease", ()):
            assert promise.ceilings(histogram)[histogram.values.index(rare)] <= Fraction(3, 25)
    assert {"fine-rho-privacy", "f-privacy"} <= {f.name for f in listed if not f.refused}
    assert any(family.refused == "keeps no such ceiling" for family in listed)


@pytest.mark.slow
def test_an_error_out_of_reach_is_said(table: sf.Table, only: Callable[..., None]) -> None:
    only("l-diversity", "beta-likeness")
    advice = sf.advise(table, target_error=0.001, min_count=20)
    assert advice.recommended is None
    assert "No promise reaches an error of 0.001" in str(advice)
    assert "Nearest: " in str(advice)
    assert advice.to_json()["recommended"] is None


def test_a_ceiling_below_the_share_cannot_be_kept(table: sf.Table) -> None:
    histogram = histogram_of(table)
    common = histogram.values[int(histogram.counts.argmax())]
    with pytest.raises(InfeasibleGuarantee, match="without any release"):
        stated_ceilings([histogram], {common: 0.01})
    with pytest.raises(UsageError, match="which column 'disease' does not have"):
        stated_ceilings([histogram], {"plague": 0.1})
    with pytest.raises(UsageError, match="must lie between 0 and 1"):
        stated_ceilings([histogram], {common: 2})


def test_what_cannot_be_asked_for(table: sf.Table) -> None:
    with pytest.raises(UsageError, match="target error must lie"):
        sf.advise(table, target_error=10)
    with pytest.raises(UsageError, match="smaller min_count="):
        sf.advise(table, min_count=10**8)
    with pytest.raises(UsageError, match="at least 1"):
        sf.advise(table, min_count=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
def test_a_promise_costs_what_it_says(table: sf.Table, tmp_path: Path) -> None:
    cost = sf.advise(table, guarantee="l-diversity(4)", min_count=200)
    ways = {str(option.mechanism): option.worst for option in cost.options}
    assert {"optimal", "heterogeneous"} <= set(ways)
    assert math.isnan(ways["heterogeneous"][-1])  # known only once made
    errors = ways["optimal"]
    assert errors == sorted(errors, reverse=True)  # large counts are told better
    assert cost.sizes == (10, 100, 200)
    assert cost.recommended is not None
    assert cost.recommended.ceiling == 0.25
    assert "error at 200" in str(cost)
    assert len(cost.to_json()["options"][0]["errors"]["disease"]) == 3
    with pytest.raises(InfeasibleGuarantee):
        sf.advise(table, guarantee="l-diversity(9)", min_count=200)
    with pytest.raises(UsageError, match="does not keep"):
        sf.advise(table, guarantee="l-diversity(4)", mechanism="uniform")


@pytest.mark.parametrize(
    ("errors", "place"),
    [
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.05], 4),
        ([0.5, 0.4, 0.3, 0.2, 0.15, 0.12], 5),
        ([0.5, 0.4, 0.3, 0.09, math.inf, math.inf], 3),  # the weakest cannot be asked at all
        ([0.09, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.2], 0),
        ([math.inf] * 6, 0),
        ([0.05], 0),
    ],
)
def test_a_search_does_not_give_up_where_something_reaches(errors: list[float], place: int) -> None:
    assert first_within(errors.__getitem__, len(errors), 0.1) == place


def several() -> sf.Table:
    """A disease with ten values, one of two for half of the people, and one with rare values."""
    rng = np.random.default_rng(7)
    table = made(6000)
    codes = np.minimum(rng.geometric(0.06, 6000), 90).astype(str)
    smokes = np.array(["no", "yes"])[(rng.random(6000) < 0.3).astype(int)]
    table = table.append_column("smokes", pa.array(smokes)).append_column("code", pa.array(codes))
    return sf.read(table, quasi="age,sex,region", sensitive="disease,smokes,code")


def test_several_columns_have_a_promise_each(tmp_path: Path, only: Callable[..., None]) -> None:
    only("l-diversity", "f-privacy")
    table = several()
    advice = sf.advise(table, target_error=0.25, min_count=200)
    chosen = advice.recommended
    assert chosen is not None
    assert chosen.guarantee is not None
    stated = chosen.guarantee.stated()
    assert isinstance(stated, dict)
    assert list(stated) == ["disease", "smokes", "code"]
    assert set(chosen.errors) == {"disease", "smokes", "code"}
    assert all(error <= 0.25 for (error,) in chosen.errors.values())
    text = str(advice)
    sf.publish(table, chosen.guarantee, to=tmp_path / "r", mechanism=chosen.mechanism)
    assert sf.audit(table, tmp_path / "r").holds
    flags = shlex.split(text.partition("Publish it with:\n")[2].splitlines()[0])
    assert flags == [
        part for name, one in stated.items() for part in ("--guarantee", f"{name}: {one}")
    ]
    (diversity,) = [option for option in advice.options if option.family == "l-diversity"]
    assert diversity.guarantee is not None
    kept = diversity.guarantee.stated()
    assert isinstance(kept, dict)
    assert kept["smokes"].startswith("f-privacy(theta=2")  # 70 % have "no"


def test_several_columns_are_priced_by_the_plan_that_is_published() -> None:
    """What was foretold from sizes of buckets alone was up to five times too low."""
    table, promise = several(), parse_guarantee("enhanced-beta-likeness(2)")
    promise = promise.for_columns(table.sensitive)
    cost = sf.advise(table, guarantee=promise, mechanism="optimal", min_count=200)
    mechanism = parse_mechanism("optimal")
    profile = profile_for(table, promise, mechanism)
    plan = mechanism.plan(profile, promise, Draws.system())
    for column, errors in cost.options[0].errors.items():
        (predicted,) = error_by_count(plan, profile, column, [200]).values()
        assert errors[-1] == pytest.approx(predicted, rel=0.1)
