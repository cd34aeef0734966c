"""What a tree of cuts is worth: sums add up, cuts that help are kept, predictions hold."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets import LocalBuckets, LocalPlan, ways
from sfumato.mechanisms.buckets.branches import Branch, Branches
from sfumato.mechanisms.buckets.foresight import CutTable, best_cut, best_of
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.tree import Room, grow, grow_all
from sfumato.mechanisms.buckets.usual import UsualConditions
from sfumato.mechanisms.buckets.worth import Worth, over_whole, pruned
from sfumato.outlook.prediction import workload_errors
from sfumato.profile import Histogram, Profile
from sfumato.workloads import Workload, generate_workload, people_of, true_counts

PROMISES = ("l-diversity(4)", "beta-likeness(2)")
VALUES = 12


def people(rows: int, linked: bool) -> sf.Table:
    """Age goes with the value or not; what the weather was like goes with nothing."""
    rng = np.random.default_rng(5)
    age, sky = rng.integers(18, 80, rows), rng.integers(0, 20, rows)
    chance = rng.dirichlet(np.full(VALUES, 8.0), rows if not linked else 1)
    if linked:
        peak = (age - 18) / 62 * VALUES
        chance = chance * (0.3 + np.exp(-(((np.arange(VALUES) - peak[:, None]) / 3) ** 2)))
        chance /= chance.sum(axis=1, keepdims=True)
    held = (chance.cumsum(axis=1) < rng.random(rows)[:, None]).sum(axis=1)
    columns = {"age": age, "sky": sky, "ill": np.minimum(held, VALUES - 1)}
    table = pa.table({**columns, "ill": pa.array([f"d{v:02}" for v in columns["ill"]])})
    return sf.read(table, quasi=["age", "sky"], sensitive="ill")


@pytest.fixture(scope="module")
def linked() -> sf.Table:
    return people(12_000, linked=True)


@pytest.fixture(scope="module")
def counted(linked: sf.Table) -> Profile:
    return profile_for(linked, parse_guarantee(PROMISES[0]), parse_mechanism("local"))


def branches_of(profile: Profile, promise: str) -> Branches:
    (histogram,) = profile.histograms.values()
    limits = Limits(tuple(parse_guarantee(promise).ceilings(histogram)))
    return Branches(histogram, limits, lambda part, _: part.rows, 8)


def room_of(branches: Branches, slack: str = "1") -> Room:
    return Room(Limits(branches.limits.ceilings), Fraction(slack), 200)


@pytest.mark.parametrize("promise", PROMISES)
def test_trees_grown_together_are_those_grown_alone(counted: Profile, promise: str) -> None:
    branches = branches_of(counted, promise)
    room, cares = room_of(branches), (0.0, 0.3, 3.0)
    assert counted.binned is not None
    together = grow_all(counted.binned, VALUES, room, cares)
    alone = [grow_all(counted.binned, VALUES, room, (care,))[0] for care in cares]
    assert [root.tree() for root in together] == [root.tree() for root in alone]
    assert len({root.tree() for root in together}) > 1
    for root in together:
        assert room.left(np.stack([node.counts for node in root.blocks()])).all()


@pytest.mark.parametrize("promise", PROMISES)
def test_care_leaves_room(counted: Profile, promise: str) -> None:
    """The first cut takes less of it; nothing is known of those below, which have less to take."""
    room = room_of(branches_of(counted, promise))
    assert counted.binned is not None
    taken = []
    for root in grow_all(counted.binned, VALUES, room, (0.0, 3.0)):
        assert root.sides is not None
        taken.append(room.taken(np.stack([side.counts for side in root.sides])).sum())
    assert taken[1] < taken[0]


@pytest.mark.parametrize("promise", PROMISES)
def test_pruning_leaves_the_error_that_it_says(counted: Profile, promise: str) -> None:
    branches = branches_of(counted, promise)
    assert counted.binned is not None
    root = grow(counted.binned, VALUES, room_of(branches, "0.85"))
    grown = CutTable(root, UsualConditions.of(counted.binned))
    worth = Worth(branches, grown.inside().sum(axis=0))
    before, _ = worth.of_blocks(grown.counts(), grown.inside())
    left, error = pruned(root, grown.inside(), worth)
    cut = CutTable(left, grown.usual)
    assert worth.of_blocks(cut.counts(), cut.inside())[0] == pytest.approx(error, rel=1e-9)
    assert error <= before
    whole = CutTable(root.uncut(), grown.usual)
    assert worth.of_blocks(whole.counts(), whole.inside())[0] == pytest.approx(1.0)


def test_a_single_ceiling_tells_as_its_ladder_does(counted: Profile) -> None:
    branches = branches_of(counted, "l-diversity(4)")
    counts = branches.histogram.counts
    worth = Worth(branches, np.zeros((1, VALUES)))
    branch = branches.of(counts)
    assert worth.told(counts)[branch.codes] == pytest.approx(branch.told, rel=1e-2)


def test_cuts_follow_what_goes_with_the_value(counted: Profile) -> None:
    branches = branches_of(counted, "l-diversity(4)")
    assert counted.binned is not None
    usual = UsualConditions.of(counted.binned)
    grown = grow_all(counted.binned, VALUES, room_of(branches), (0.0, 3.0))
    best = best_cut(grown[best_of(grown, usual, branches)], usual, branches)
    first = best.root.cut
    assert first is not None
    assert first.column == "age"
    assert best.saved < 0.8


def test_publish_compares_by_what_counts_will_be_off(linked: sf.Table) -> None:
    """The predicted gain is that of a workload of other questions, to a quarter."""
    guarantee, draws = parse_guarantee("l-diversity(4)"), Draws.from_seed(2)
    profile = profile_for(linked, guarantee)
    everybody = people_of(linked)
    made = [
        generate_workload(everybody, kind, count=80, seed=3) for kind in ("conjunctions", "ranges")
    ]
    asked = Workload(tuple(each for some in made for each in some.questions), "both")
    truth = true_counts(asked, everybody).astype(np.float64)
    plans = [parse_mechanism(way).plan(profile, guarantee, draws) for way in ("optimal", "local")]
    whole, local = (workload_errors(plan, profile, everybody, asked) for plan in plans)
    found = over_whole(local, whole, truth)
    foreseen = plans[1].predicted_error() / plans[0].predicted_error()
    assert foreseen == pytest.approx(found, rel=0.25)
    chosen, _ = choose_plan(profile, guarantee, None, draws)
    assert chosen.name == ("local" if foreseen < 1 else "optimal")


def test_a_plan_travels(counted: Profile) -> None:
    plan = parse_mechanism("local").plan(counted, parse_guarantee(PROMISES[0]), Draws.from_seed(1))
    assert isinstance(plan, LocalPlan)
    again = pickle.loads(pickle.dumps(plan))
    assert again.predicted_error() == plan.predicted_error()


def test_a_slack_that_is_named_is_kept(counted: Profile) -> None:
    guarantee, branches = parse_guarantee("l-diversity(3)"), branches_of(counted, "l-diversity(3)")
    room = room_of(branches, "0.7")
    named, free = (
        parse_mechanism(way).plan(counted, guarantee, Draws.from_seed(1))
        for way in ("local(slack=0.7)", "local")
    )
    assert isinstance(named, LocalPlan)
    assert isinstance(free, LocalPlan)
    assert room.left(named.block_counts).all()
    assert not room.left(free.block_counts).all()


def test_a_block_of_many_values_is_filled_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no ladder can be filled, two sizes can; the search for the least loss takes a second
    a block, and a tree has hundreds."""

    def searched(*given: object) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(ways, "optimal_setting", searched)
    counts = np.random.default_rng(4).integers(5, 40, 150)
    histogram = Histogram("s", tuple(range(150)), counts)
    guarantee = parse_guarantee("beta-likeness(3)")
    limits = Limits(tuple(guarantee.ceilings(histogram)))
    branch = Branch(np.arange(150), histogram, limits, {}, np.empty(0))
    choice = LocalBuckets()._choice(branch, guarantee)
    assert sum(part.records for part in choice.setting) == histogram.rows
    assert len(choice.setting) <= 2
    few = Histogram("s", (0, 1, 2), np.array([40, 40, 40]))
    held = Limits(tuple(guarantee.ceilings(few)))
    with pytest.raises(AssertionError):
        LocalBuckets()._choice(Branch(np.arange(3), few, held, {}, np.empty(0)), guarantee)
