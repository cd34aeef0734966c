"""Local buckets: blocks follow from quasi values, every bucket keeps the table's ceilings."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.blocks import BlockTree, Cut
from sfumato.draws import Draws
from sfumato.engines import binning
from sfumato.engines.choosing import profile_for
from sfumato.engines.counting import take_profile
from sfumato.engines.stream import ranks_in_value
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets import BucketPlan, OptimalBuckets
from sfumato.mechanisms.buckets.foretold import width_in_block
from sfumato.mechanisms.buckets.settings import Choice, Limits
from sfumato.mechanisms.buckets.sizes import foreseen_settings
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.ways import mixed
from sfumato.profile import Holdings, Profile

CITIES = ("Ulm", "Rom", "Oslo", None)


def people(rows: int, seed: int, values: int = 8, link: float = 1.0) -> pa.Table:
    """Who is older or lives elsewhere has other values, more or less."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows)
    city = rng.integers(0, 4, rows)
    score = np.exp(link * rng.normal(size=(values, 2)) @ np.stack([age / 30 - 1.5, city - 1.5]))
    chance = (score / score.sum(axis=0)).T
    held = (chance.cumsum(axis=1) < rng.random(rows)[:, None]).sum(axis=1)
    return pa.table(
        {
            "age": pa.array(age, mask=rng.random(rows) < 0.02),
            "city": pa.array([CITIES[c] for c in city]),
            "ill": pa.array([f"d{v}" for v in np.minimum(held, values - 1)]),
        }
    )


def planned(table: pa.Table, promise: str, way: str, seed: int = 1) -> tuple[BucketPlan, Profile]:
    declared = sf.read(table, quasi=["age", "city"], sensitive="ill")
    guarantee, mechanism = parse_guarantee(promise), parse_mechanism(way)
    profile = profile_for(declared, guarantee, mechanism)
    plan = mechanism.plan(profile, guarantee, Draws.from_seed(seed))
    assert isinstance(plan, BucketPlan)
    return plan, profile


def dealt(plan: BucketPlan, table: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Block, code and bucket of every record."""
    values = list(plan.holdings.views[0].values)
    code = np.array([values.index(v) for v in table["ill"].to_pylist()])
    block = plan.cuts.numbers(table)
    (keys,) = plan.keys({"ill": code}, block).values()
    ranks = ranks_in_value(keys, np.zeros(plan.cuts.blocks * len(values), np.int64))
    return block, code, plan.bucket_of(keys, ranks)


# -- blocks ------------------------------------------------------------------------------------


def walk(cuts: list[Cut | None], person: dict[str, object]) -> int:
    """The block of one person by walking down, block numbers counted on the way: a naive twin."""

    def below(place: int) -> int:  # how many entries the branch at this place has
        return 1 if cuts[place] is None else 1 + below(place + 1) + below(second(place))

    def second(place: int) -> int:
        return place + 1 + below(place + 1)

    place = 0
    while (cut := cuts[place]) is not None:
        value = person[cut.column]
        if cut.below is not None:
            first = value is None or value != value or value < cut.below
        else:
            first = value in cut.values
        place = place + 1 if first else second(place)
    return sum(cut is None for cut in cuts[:place])


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> list[Cut | None]:
    if depth == 0 or draw(st.booleans()):
        return [None]
    if draw(st.booleans()):
        cut = Cut("age", below=draw(st.sampled_from([20, 33, 47.5, 60])))
    else:
        cut = Cut("city", values=tuple(draw(st.sets(st.sampled_from(CITIES), min_size=1))))
    return [cut, *draw(trees(depth=depth - 1)), *draw(trees(depth=depth - 1))]


@settings(max_examples=60, deadline=None)
@given(trees(), st.lists(st.tuples(st.none() | st.integers(15, 65), st.sampled_from(CITIES))))
def test_numbers_are_what_walking_down_the_tree_finds(
    cuts: list[Cut | None], persons: list[tuple[int | None, str | None]]
) -> None:
    tree = BlockTree(tuple(cuts))
    table = pa.table(
        {
            "age": pa.array([age for age, _ in persons], pa.float64()),
            "city": pa.array([city for _, city in persons], pa.string()),
        }
    )
    expected = [walk(cuts, {"age": age, "city": city}) for age, city in persons]
    assert tree.numbers(table).tolist() == expected
    coded = table.set_column(1, "city", table["city"].dictionary_encode())
    assert tree.numbers(coded).tolist() == expected
    assert BlockTree.from_json(tree.to_json([{}] * tree.blocks))[0] == tree


@pytest.mark.parametrize(
    "stated",
    [
        "tree",
        [],
        [{}, {}],
        [{"column": "age", "below": 3}, {}],
        [{"column": "age", "below": "3"}, {}, {}],
        [{"column": "age", "below": True}, {}, {}],
        [{"column": "age", "below": float("inf")}, {}, {}],
        [{"column": "age", "below": 3, "values": [1]}, {}, {}],
        [{"column": "age", "values": []}, {}, {}],
        [{"column": "age", "values": [[1]]}, {}, {}],
        [{"column": 3, "below": 3}, {}, {}],
        [{}, {"column": "age", "below": 3}, {}],
        [{"column": "a", "below": 3}, {}, {"column": "a", "values": [1]}, {}, {}],
    ],
)
def test_what_is_no_tree_is_refused(stated: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        BlockTree.from_json(stated)


# -- bins --------------------------------------------------------------------------------------


def test_bins_do_not_depend_on_the_order_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binning, "_FINE", 64)
    rng = np.random.default_rng(3)
    numbers = np.concatenate([rng.normal(0, 1e6, 3000), rng.normal(0, 1e-3, 3000), [-np.inf, 0.0]])
    found = set()
    for _ in range(4):
        rng.shuffle(numbers)
        one = binning.NumberTally()
        for low in range(0, len(numbers), 500):
            one.add(numbers[low : low + 500], np.ones(500, np.int64)[: len(numbers) - low])
        found.add(one.edges())
        assert len(one.keys) <= 64
        assert int(one.counts.sum()) == len(numbers)
    assert len(found) == 1
    edges = np.array(found.pop())
    assert bool((np.diff(edges) > 0).all())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=30))
def test_few_numbers_are_told_apart_exactly(numbers: list[float]) -> None:
    tally = binning.NumberTally()
    tally.add(np.array(numbers), np.ones(len(numbers), np.int64))
    finite = sorted({n + 0.0 for n in numbers})[1:]
    assert tally.edges() == tuple(n for n in finite if abs(n) < float("inf"))


def test_too_many_cells_leave_out_the_columns_that_go_least_with_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What goes with the value has nothing to do with it."""
    rng = np.random.default_rng(5)
    rows = 4000
    table = {f"q{n:02}": rng.integers(0, 5, rows) for n in range(12)}
    table["q07"] = np.where(rng.random(rows) < 0.8, table["q03"], 0)
    table["s"] = table["q05"]
    declared = sf.read(pa.table(table), quasi=[n for n in table if n != "s"], sensitive="s")
    monkeypatch.setattr(binning, "MOST_CELLS", 400)
    holdings = Holdings.one(*take_profile(declared).histograms.values())
    binned = binning.count_binned(declared, holdings)
    kept = [bins.column for bins in binned.cells.columns]
    assert {"q03", "q07"} <= {*kept}
    assert len(kept) < 12
    assert len(binned.cells.people) <= 400
    assert int(binned.counts.sum()) == int(binned.cells.people.sum()) == rows
    by_cell = np.bincount(binned.cell, binned.counts)
    assert np.array_equal(by_cell, binned.cells.people)
    codes = [np.asarray(table[name]) for name in kept]
    assert len(np.unique(np.stack(codes), axis=1).T) == len(binned.cells.people)
    # whatever people have
    table["s"] = np.arange(rows) % 2
    other = sf.read(pa.table(table), quasi=[n for n in table if n != "s"], sensitive="s")
    holdings = Holdings.one(*take_profile(other).histograms.values())
    assert np.array_equal(binning.count_binned(other, holdings).cells.people, binned.cells.people)


# -- ceilings ----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.integers(120, 400),
    st.integers(0, 10**6),
    st.integers(4, 9),
    st.sampled_from(["l-diversity(2)", "l-diversity(3)", "beta-likeness(2)", "f-privacy(theta=3)"]),
    st.sampled_from(["min=5", "min=40", "min=20, columns=age"]),
)
def test_ceilings_hold_in_every_bucket_and_nobody_is_left_out(
    rows: int, seed: int, values: int, promise: str, given_way: str
) -> None:
    table = people(rows, seed, values)
    try:
        plan, profile = planned(table, promise, f"local({given_way})", seed)
    except InfeasibleGuarantee:
        with pytest.raises(InfeasibleGuarantee):
            planned(table, promise, "optimal", seed)
        return
    plan.check()
    if plan.tree is None:
        return
    block, code, bucket = dealt(plan, table)
    many = len(plan.holdings.counts)
    held = np.zeros((plan.buckets, many), np.int64)
    np.add.at(held, (bucket, code), 1)
    listed = np.zeros_like(held)
    for where, value, count in plan.listed():
        listed[where, value] = count
    assert np.array_equal(held, listed)
    ceilings = parse_guarantee(promise).ceilings(profile.histograms["ill"])
    for counts in held:
        size = int(counts.sum())
        assert size > 0
        assert all(Fraction(int(n), size) <= c for n, c in zip(counts, ceilings, strict=True))
    # the number of a bucket tells its block
    parts = plan.filling.parts
    first = np.concatenate([[0], np.cumsum(np.bincount(parts.blocks, parts.buckets))])
    assert bool(((bucket >= first[block]) & (bucket < first[block + 1])).all())


def test_blocks_are_cut_and_no_smaller_than_asked() -> None:
    table = people(4000, 4, link=0.5)
    plan, profile = planned(table, "l-diversity(3)", "local(min=150)")
    assert plan.cuts.blocks > 3
    assert int(plan.filling.parts.by_block.sum(axis=1).min()) >= 150
    only, _ = planned(table, "l-diversity(3)", "local(min=150, columns=city)")
    assert only.cuts.columns == ("city",)
    whole = OptimalBuckets().plan(profile, parse_guarantee("l-diversity(3)"), Draws.from_seed(1))
    assert plan.predicted_error() < whole.predicted_error()


def test_few_people_are_not_cut() -> None:
    """180 people make no two blocks of 100: the plan is that of `optimal`."""
    plan, _ = planned(people(180, 4), "l-diversity(3)", "local")
    whole, _ = planned(people(180, 4), "l-diversity(3)", "optimal")
    assert plan.tree is None
    assert plan.public() == whole.public()


def test_columns_in_which_all_are_alike_are_not_cut() -> None:
    """They had ended in a traceback."""
    table = people(500, 3)
    for name in ("age", "city"):
        same = pa.array(["same"] * len(table))
        table = table.set_column(table.column_names.index(name), name, same)
    plan, _ = planned(table, "l-diversity(2)", "local")
    assert plan.tree is None


def test_columns_that_cannot_be_cut_are_named() -> None:
    with pytest.raises(
        UsageError, match=r"names town\. Quasi-identifiers that can be cut: age, city"
    ):
        planned(people(300, 1), "l-diversity(2)", "local(columns=town;age)")


def test_profiles_without_bins_say_so() -> None:
    plan, profile = planned(people(300, 4), "l-diversity(3)", "local")
    bare = dataclasses.replace(profile, binned=None)
    with pytest.raises(UsageError, match="count them first"):
        parse_mechanism("local").plan(bare, parse_guarantee("l-diversity(3)"), Draws.from_seed(1))
    assert plan.holdings.people == 300


# -- sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "rows", "part"), [(30, 600, 5), (50, 300, 8), (40, 1500, 4)])
def test_the_width_of_a_block_is_foreseen_as_mixing_makes_it(
    values: int, rows: int, part: int
) -> None:
    """Σ √v_x from the eigenvectors of Γ, of filled buckets, without the direction in which nobody
    can be wrong: that all values together are everybody."""
    counts = np.random.default_rng(1).multinomial(rows, np.full(values, 1 / values))
    limits = Limits((Fraction(1, part),) * values)
    pairs = []
    for setting in itertools.islice(
        foreseen_settings([(counts, limits)], rows, 8, width_in_block), 12
    ):
        shares = spread_evenly(setting, counts, limits)
        if shares is None or sum(part.buckets for part in setting) < 10:
            continue
        sizes, buckets = np.array(setting).T
        allowed = limits.table(sizes)
        mixing = mixed([Choice(setting, shares)], [limits], Draws.from_seed(1), (128, 32))
        held = np.zeros((buckets.sum(), values))
        for bucket, value, count in mixing.listed():
            held[bucket, value] = count
        known = (held / held.sum(axis=1, keepdims=True)).T @ held - np.outer(counts, counts) / rows
        precision, vectors = np.linalg.eigh(known)
        variance = np.minimum(1 / np.maximum(precision[1:], 1e-9), 4)
        real = np.sqrt(counts**2 * (vectors[:, 1:] ** 2 @ variance)).sum()
        asked = sizes[None], buckets[None], shares[None].astype(float), allowed[None], counts
        pairs.append((float(width_in_block(*asked)[0]), real))
    foreseen, real = np.array(pairs).T
    assert len(pairs) > 4
    assert (np.abs(np.log(foreseen / real)) < 0.5).all(), pairs
    assert real[0] < 1.05 * real.min()


def test_a_block_has_ten_buckets_or_one() -> None:
    counts, limits = np.array([40, 30, 30]), Limits((Fraction(9, 20),) * 3)
    tried = list(foreseen_settings([(counts, limits)], 100, 8, width_in_block))
    many = [sum(part.buckets for part in setting) for setting in tried]
    first_few = next(place for place, number in enumerate(many) if 1 < number < 10)
    assert 1 in many[:first_few]
    assert all(number == 1 or number >= 10 for number in many[:first_few])
