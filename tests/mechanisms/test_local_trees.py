"""Trees of cuts: they follow what goes with the value, whatever anything is called."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets import BucketPlan
from sfumato.mechanisms.buckets.tree import Room
from sfumato.profile import Profile

PROMISES = ("l-diversity(4)", "beta-likeness(2)")
VALUES = 12


def people(rows: int, seed: int = 5) -> pa.Table:
    """Age and town go with the value; what the weather was like goes with nothing."""
    rng = np.random.default_rng(seed)
    age, sky, town = rng.integers(18, 80, rows), rng.integers(0, 20, rows), rng.integers(0, 5, rows)
    peak = (age - 18) / 62 * VALUES + town / 2
    chance = 0.3 + np.exp(-(((np.arange(VALUES) - peak[:, None]) / 3) ** 2))
    chance /= chance.sum(axis=1, keepdims=True)
    held = np.minimum((chance.cumsum(axis=1) < rng.random(rows)[:, None]).sum(axis=1), VALUES - 1)
    return pa.table({"age": age, "sky": sky, "town": town, "rich": age % 2, "ill": held})


def declared(table: pa.Table, quasi: tuple[str, ...] = ("age", "sky", "town", "rich")) -> sf.Table:
    names = {"town": [f"t{v}" for v in table["town"].to_pylist()]}
    names["ill"] = [f"d{v:02}" for v in table["ill"].to_pylist()]
    for name, values in names.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return sf.read(table.select([*quasi, "ill"]), quasi=list(quasi), sensitive="ill")


@pytest.fixture(scope="module")
def linked() -> sf.Table:
    return declared(people(12_000))


@pytest.fixture(scope="module")
def counted(linked: sf.Table) -> Profile:
    return profile_for(linked, parse_guarantee(PROMISES[0]), parse_mechanism("local"))


def planned(profile: Profile, promise: str, way: str = "local") -> BucketPlan:
    plan = parse_mechanism(way).plan(profile, parse_guarantee(promise), Draws.from_seed(1))
    assert isinstance(plan, BucketPlan)
    return plan


@pytest.mark.parametrize("promise", PROMISES)
def test_cuts_follow_what_goes_with_the_value(counted: Profile, promise: str) -> None:
    plan = planned(counted, promise)
    assert plan.cuts.blocks > 1
    assert plan.cuts.columns[0] in ("age", "town")
    plan.check()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(PROMISES), st.permutations(range(4)))
def test_plans_do_not_depend_on_how_values_are_written(
    seed: int, promise: str, order: list[int]
) -> None:
    """The same people, their values called otherwise, in another order, columns in another order:
    the same blocks, and the same sizes in each."""
    rng, table = np.random.default_rng(seed), people(3000, seed)
    quasi = ("age", "sky", "town", "rich")
    ways = []
    for other in (False, True):
        names = [rng.permutation(each) if other else np.arange(each) for each in (5, VALUES, 2)]
        text = {
            "town": np.array([f"t{v}" for v in names[0]])[table["town"].to_numpy()],
            "ill": np.array([f"d{v:02}" for v in names[1]])[table["ill"].to_numpy()],
            "rich": np.array(["low", "high"])[names[2]][table["rich"].to_numpy()],
        }
        written = pa.table({n: text.get(n, table[n].to_numpy()) for n in table.column_names})
        columns = [quasi[place] for place in order] if other else list(quasi)
        asked = sf.read(written.select([*columns, "ill"]), quasi=columns, sensitive="ill")
        guarantee, way = parse_guarantee(promise), parse_mechanism("local(min=100)")
        plan = way.plan(profile_for(asked, guarantee, way), guarantee, Draws.from_seed(3))
        block = plan.cuts.numbers(written)
        people_in = sorted(tuple(np.flatnonzero(block == n)) for n in np.unique(block))
        sizes = sorted(zip(plan.filling.parts.sizes, plan.filling.parts.buckets, strict=True))
        ways.append((people_in, sizes))
    assert ways[0] == ways[1]


def test_publish_takes_the_plan_whose_counts_are_least_off(linked: sf.Table) -> None:
    guarantee, draws = parse_guarantee("l-diversity(4)"), Draws.from_seed(2)
    profile = profile_for(linked, guarantee)
    plans = [parse_mechanism(way).plan(profile, guarantee, draws) for way in ("optimal", "local")]
    foreseen = plans[1].predicted_error() / plans[0].predicted_error()
    chosen, _ = choose_plan(profile, guarantee, None, draws)
    assert chosen.name == ("local" if foreseen < 1 else "optimal")


def test_a_slack_that_is_named_is_kept(counted: Profile) -> None:
    named, free = (planned(counted, "l-diversity(3)", w) for w in ("local(slack=0.5)", "local"))
    room = Room(named.holdings, named.limits, Fraction(1, 2), 1)

    def left(plan: BucketPlan) -> bool:
        held = plan.filling.parts.by_block
        return bool(room.left(held, held.sum(axis=1)).all())

    assert named.cuts.blocks > 1
    assert left(named)
    assert not left(free)
