"""Trees of cuts follow from quasi-identifiers; what is refused from an exact test and draws."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.blocks import BlockTree, Cut
from sfumato.draws import Draws
from sfumato.engines.binning import bins_of, count_binned
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.counting import take_profile
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets import BucketPlan, LocalBuckets
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.tree import exchanges, fewest_people, inside_blocks, refused
from sfumato.profile import Histogram, Holdings
from sfumato.table.staging import stage

PROMISES = ("l-diversity(4)", "f-privacy(theta=2, floor=0.05)")
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


def unrefused(table: sf.Table, promise: str = PROMISES[0], way: str = "local") -> BlockTree:
    """The tree if nothing is refused."""
    mechanism, profile = parse_mechanism(way), take_profile(table)
    assert isinstance(mechanism, LocalBuckets)
    holdings = Holdings.one(*profile.histograms.values())
    limits = Limits(tuple(parse_guarantee(promise).ceilings(holdings.views[0])))
    return mechanism.unrefused(count_binned(table, holdings).cells, holdings, limits)[0].tree()


def planned(table: sf.Table, promise: str, way: str = "local", seed: int = 1) -> BucketPlan:
    guarantee, mechanism = parse_guarantee(promise), parse_mechanism(way)
    profile = profile_for(table, guarantee, mechanism)
    plan = mechanism.plan(profile, guarantee, Draws.from_seed(seed))
    assert isinstance(plan, BucketPlan)
    return plan


# -- the test ----------------------------------------------------------------------------------


def test_ceilings_inside_blocks_leave_odds_for_a_refusal() -> None:
    limits = Limits((Fraction(1, 5), Fraction(1, 2), Fraction(1)))
    assert inside_blocks(limits).ceilings == (Fraction(5, 27), Fraction(10, 21), Fraction(1))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=9), st.integers(1, 8), st.integers(2, 5))
def test_exchanges_are_the_fewest_after_which_a_ceiling_breaks(
    held: list[int], split: int, part: int
) -> None:
    """Against a search through all tables that s exchanges between the sides can reach."""
    split = min(split, len(held) - 1)
    limits = Limits((Fraction(1, part), Fraction(1, 2), Fraction(2, 3)))
    sides = [np.bincount(side, minlength=3) for side in (held[:split], held[split:])]
    sizes = np.array([split, len(held) - split])
    allowed = limits.table(sizes)
    whole = sides[0] + sides[1]
    steps = []
    for first in np.ndindex(*(whole + 1)):
        one = np.array(first)
        if one.sum() != split:
            continue
        if (one > allowed[0]).any() or (whole - one > allowed[1]).any():
            steps.append(int(np.maximum(one - sides[0], 0).sum()))
    found = exchanges(np.stack(sides), sizes, limits)
    if any(step == 0 for step in steps):
        assert found is not None
        assert found <= 0
    else:
        assert found == min(steps, default=None)


def test_a_cut_is_refused_as_often_as_it_must() -> None:
    """(10/11)^s exactly in law: 4,000 keys, five standard errors."""
    for away in (1, 3, 8):
        many = sum(refused(away, "01", Draws.from_seed(n)) for n in range(4000))
        chance = (10 / 11) ** away
        assert abs(many - 4000 * chance) < 5 * (4000 * chance * (1 - chance)) ** 0.5
    assert refused(2, "0", Draws.from_seed(3)) == refused(2, "0", Draws.from_seed(3))


def test_the_fewest_people_follow_from_the_whole_table() -> None:
    counts = np.array([600_000, 300_000, 100_000])
    holdings = Holdings.one(Histogram("s", tuple("abc"), counts))
    fifth, half = Fraction(1, 50), Fraction(1, 2)
    assert fewest_people(holdings, Limits((fifth, fifth, Fraction(1, 1000)))) == 1450
    assert fewest_people(holdings, Limits((half,) * 3)) == 1000
    small = Holdings.one(Histogram("s", tuple("abc"), counts // 10_000))
    assert fewest_people(small, Limits((half,) * 3)) == 100


# -- plans -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linked() -> sf.Table:
    return declared(people(12_000))


@pytest.mark.parametrize("promise", PROMISES)
def test_published_trees_are_prunings_and_refused_blocks_keep_less(
    linked: sf.Table, promise: str
) -> None:
    whole = {node for node in unrefused(linked, promise).cuts if node is not None}
    refused_blocks = 0
    for seed in range(4):
        plan = planned(linked, promise, seed=seed)
        plan.check()
        assert {cut for cut in plan.cuts.cuts if cut is not None} <= whole
        tight = inside_blocks(plan.limits).ceilings
        marks = plan.filling.parts.by_block
        for inside, limits in zip(marks, plan.block_limits, strict=True):
            assert (inside <= Limits(tight).table([int(inside.sum())])[0]).all()
            refused_blocks += limits.ceilings == tight
    assert refused_blocks > 0


def test_a_refused_root_is_one_block_under_its_own_ceilings() -> None:
    """Every cut is exchanges away from breaking: of some keys the root itself is refused."""
    rows = 60
    table = pa.table({"age": np.arange(rows) % 2, "ill": np.arange(rows) // 2 % 5})
    asked = sf.read(table, quasi="age", sensitive="ill")
    plans = [planned(asked, "l-diversity(3)", "local(min=5)", seed) for seed in range(12)]
    whole = [plan for plan in plans if plan.tree is None]
    assert 0 < len(whole) < len(plans)
    for plan in whole:
        plan.check()
        assert plan.block_limits[0].ceilings == inside_blocks(plan.limits).ceilings
        assert (
            min(part.size for part in plan.setting) >= 4
        )  # f'' = 10/32: pairs of three would do f'


def test_where_a_value_fills_its_ceiling_nothing_is_cut() -> None:
    """A share of 1/2 − 1/80 is within f' = 1/2 and above f'' = 10/21: nothing is tested."""
    rows = 4000
    held = np.where(np.arange(rows) % 80 < 39, 0, np.arange(rows) % 7 + 1)
    table = pa.table({"age": np.arange(rows) % 61, "ill": held})
    asked = sf.read(table, quasi="age", sensitive="ill")
    plan, whole = planned(asked, "l-diversity(2)"), planned(asked, "l-diversity(2)", "optimal")
    assert (plan.tree, plan.public()) == (None, whole.public())


def test_publish_takes_blocks_where_values_leave_room_and_blocks_are_many(
    linked: sf.Table,
) -> None:
    def chosen(table: sf.Table, promise: str) -> str:
        guarantee = parse_guarantee(promise)
        return choose_plan(profile_for(table, guarantee), guarantee, None, Draws.from_seed(2))[
            0
        ].name

    assert chosen(linked, "l-diversity(4)") == "local"
    few = declared(people(700))
    assert unrefused(few).blocks < 8
    assert chosen(few, "l-diversity(4)") == "optimal"
    table = people(12_000)
    common = np.where(np.arange(12_000) % 20 < 15, 0, table["ill"].to_numpy())
    skewed = declared(table.set_column(4, "ill", pa.array(common)))
    assert chosen(skewed, "f-privacy(theta=1.2, floor=0.05)") == "optimal"


def test_dates_and_intervals_are_cut_in_their_order_and_missing_ones_lie_below() -> None:
    rng, rows = np.random.default_rng(2), 3000
    born = [datetime.date(1930, 1, 1) + datetime.timedelta(days=int(d)) for d in range(rows)]
    table = pa.table(
        {
            "born": pa.array(rng.permutation(np.array(born)), mask=rng.random(rows) < 0.1),
            "pay": pa.array(rng.uniform(0, 100, rows), mask=rng.random(rows) < 0.1),
            "ok": pa.array(rng.random(rows) < 0.5),
            "ill": rng.integers(0, 9, rows),
        }
    )
    asked = sf.read(table, quasi="born,pay,ok", sensitive="ill",
                    recode={"pay": "bins(0, 5, 20, 60, 100)"})  # fmt: skip
    bins = {column.column: column for column in bins_of(stage(asked))}
    assert 20 < len(bins["born"].edges) < 32
    assert all(datetime.date.fromisoformat(str(edge)) for edge in bins["born"].edges)
    assert bins["pay"].edges == (0, 5, 20, 60)
    assert bins["ok"].values == (False, True)
    tree = BlockTree((Cut("pay", below=20), Cut("born", below="1934-02-03"), None, None, None))
    shown = pa.concat_tables(
        [pa.Table.from_batches([batch]) for batch in asked.batches(["born", "pay"])]
    )
    expected = [
        2 if pay is not None and pay >= 20 else int(date is not None and date >= born[1494])
        for date, pay in zip(table["born"].to_pylist(), table["pay"].to_pylist(), strict=True)
    ]
    assert born[1494] == datetime.date(1934, 2, 3)
    assert tree.numbers(shown).tolist() == expected
    binned = bins["pay"].of(shown.column("pay"))
    assert binned[0] == sum(edge <= (table["pay"][0].as_py() or -1) for edge in (0, 5, 20, 60))
