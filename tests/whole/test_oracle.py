"""No release tells the reader whom its statement names more than it says: see `oracle`.

A sample here; all of it by `python -m tests.whole.oracle`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.columns import in_json
from sfumato.draws import Draws, Positions
from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.guarantees import RhoPrivacy, jointly, parse_guarantee
from sfumato.mechanisms import MECHANISMS
from sfumato.mechanisms.buckets import tree as growing
from sfumato.mechanisms.buckets.fakes import certainty
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.partitioned import cut_table
from sfumato.profile import Profile
from tests.whole.oracle import buckets, drawn, matched, tree
from tests.whole.oracle.__main__ import families, of_buckets

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")


@pytest.mark.parametrize(
    ("name", "tables"),
    [("people alone", 75), ("made and refused", 12), ("publish's choice", 50), ("buckets", 40)],
)
def test_nobody_in_buckets_is_above_a_ceiling(name: str, tables: int) -> None:
    family = families(tables)[name](name)
    assert family.tables
    assert family.worst == 1, family.broken[:1]  # never above, and ceilings are used up
    assert name != "made and refused" or family.both == 12


def test_trees_follow_the_rule() -> None:
    """Every column of every kind, cell by cell: the program's tree is the rule's."""
    family = families(8)["trees"]("trees")
    assert not family.broken
    assert family.tables == 16


def test_a_refusal_that_tells_more_than_its_ceilings_make_up_for_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused with 2⁻ˢ instead of (10/11)ˢ: the odds of a value may double."""

    def halved(away: int, path: str, draws: Draws) -> bool:
        drawn = draws.bernoulli(f"refuse {path}", Positions(0, away), Fraction(1, 2))
        return bool(drawn.all())

    monkeypatch.setattr(growing, "refused", halved)
    with pytest.raises(AssertionError):  # the rule is another
        of_buckets("", map(buckets.cut, range(10)))
    monkeypatch.setattr(tree, "REFUSED", Fraction(1, 2))
    assert of_buckets("", map(buckets.cut, range(10))).broken


@pytest.mark.parametrize("case", [buckets.cut(6), buckets.cut(7), buckets.small(3, ("optimal",))])
def test_what_is_weighed_is_what_is_published(case: buckets.Case, tmp_path: Path) -> None:
    """The same plan, statement and buckets under the same key, told from the files."""
    planner = buckets.Planner(case)
    ((_, planned),) = planner.plans(case.held)
    made = sf.publish(planner.table, case.promise, to=tmp_path / "r", mechanism=case.way,
                      seed=case.seed, joint=case.joint, left_out=1)  # fmt: skip
    public, planned_public = in_json(made.manifest.plan), json.loads(planned.said[1])
    assert str(made.manifest.mechanism) == planned.said[0]
    assert public == public | planned_public
    assert {*planned.said[2:-1]} <= {*made.manifest.statement, *made.manifest.caveats}
    people = list(zip(*case.quasi.values(), case.held, strict=True))
    ours, theirs = defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)
    for person, bucket in zip(people, planner.buckets(planned, case.held), strict=True):
        ours[bucket] += [person[:-1], person[-1]]
    for row in pq.read_table(tmp_path / "r" / "records").to_pylist():
        theirs[row["bucket"]].append(tuple(row[name] for name in case.quasi))
    for row in pq.read_table(tmp_path / "r" / "sensitive.parquet").to_pylist():
        theirs[row["bucket"]] += [tuple(row[name] for name in case.columns)] * row["count"]
    contents = (sorted(sorted(map(str, each)) for each in some.values()) for some in (ours, theirs))
    assert next(contents) == next(contents)


@pytest.mark.parametrize("seed", [3, 10])
def test_weighing_worlds_is_the_same_as_going_through_all_draws(seed: int) -> None:
    """Every world of the histogram, every permutation of slots and every refusal."""
    case = buckets.small(seed, ("optimal", "optimal(objective=two-size)"))
    planner = buckets.Planner(case)
    for planned, where in buckets.releases(planner):
        release = *planned.public, tuple(where)
        expected = buckets.enumerated(case)[release]
        fits = buckets.fitting(case.held, where)
        weighed = buckets.likelihoods(planner, planned, where, fits)
        assert {world: chance for world, chance in weighed.items() if chance} == expected


def test_one_person_too_many_in_a_bucket_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Limits.table
    monkeypatch.setattr(Limits, "table", lambda self, sizes: kept(self, sizes) + 1)
    assert of_buckets("", (buckets.small(n, ("optimal",)) for n in range(20))).broken


def test_fakes_hide_no_value_that_is_listed_as_often_as_it_is_held() -> None:
    """Who weighs the values that are left by the odds that they are real believes one by .99 and
    not by 1/3; the release says that it may be so."""
    held = [(value,) for value, count in enumerate([660, 400, 360, 320, 200, 60])
            for _ in range(count)]  # fmt: skip
    ages = {"age": [n % 50 for n in range(len(held))]}
    way = "optimal(fakes=2)"
    planner = buckets.Planner(buckets.Case(ages, tuple(held), ("l-diversity(3)",), way, 1))
    ((_, planned),) = planner.plans(planner.case.held)
    real, listed = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    for bucket, value, _ in planned.contents:
        real[bucket].add(value)
    for bucket, value, _ in buckets.entries_of(planned.plan.listed()):
        listed[bucket].add(value)
    shown = Counter(value for values in listed.values() for value in values)
    odds = {v: held.count((v,)) / (n - held.count((v,))) for v, n in shown.items()}
    surest = 0.0
    for bucket, values in real.items():
        for value in values:
            left = [odds[other] for other in listed[bucket] - values | {value}]
            surest = max(surest, odds[value] / sum(left))
    assert certainty(4, 2, 3) < 0.98 < surest
    assert "knowing all but one leaves a certainty of at least 1/3" in "".join(planned.said)


@pytest.mark.parametrize("text", drawn.LIMITS)
def test_no_operator_raises_odds_beyond_its_limit(text: str) -> None:
    worst, looked = Fraction(0), 0
    for way in drawn.OPERATORS:
        for counts in drawn.tables(4, 6):
            try:
                worst = max(worst, drawn.worst_gain(counts, text, way))
            except SfumatoError:
                continue
            looked += 1
    assert looked > 20
    assert Fraction(99, 100) < worst <= 1


def published(counts: drawn.Counts, text: str, way: str | None) -> tuple[str, ...] | None:
    """What a release says beside its draws, None where none is made; () where it is not for who
    knows everybody else, and says so."""
    try:
        plan, said = drawn.planned(counts, text, way)
    except InfeasibleGuarantee:
        return None
    if plan.fitted:
        assert "does not hold against whoever knows the values of everybody else" in "".join(said)
    return () if plan.fitted else said


@pytest.mark.parametrize("text", drawn.LIMITS)
@pytest.mark.parametrize("way", drawn.OPERATORS)
def test_whoever_knows_everybody_else_learns_nothing_from_the_plan(text, way) -> None:
    for counts in drawn.tables(4, 6):
        said = {published(other, text, way) for other in [counts, *drawn.neighbours(counts)]}
        assert len(said - {None, ()}) <= 1, counts


def test_that_there_is_a_release_belongs_to_what_was_known_before() -> None:
    """Of a, a, b and one more: b makes every value more common than rho1, and is refused. So that a
    table was published tells something, which the statement counts as known before the record."""
    text = "rho-privacy(0.3, 0.6)"
    said = published((3, 1), text, None)
    assert published((2, 2), text, None) is None
    assert said is not None
    assert "that this table was published included" in "".join(said)


@pytest.mark.parametrize("columns", [2, 3])
def test_several_columns_together_raise_no_odds_beyond_a_joint_limit(columns: int) -> None:
    """All pairs of what somebody has, all that can be shown."""
    views = {f"s{n}": drawn.histogram((90 - 5 * n, 10 + 5 * n)) for n in range(columns)}
    promise = RhoPrivacy("0.3", "0.8")
    plan = MECHANISMS["uniform"]().plan(
        Profile(100, views), jointly(promise, views), Draws.from_seed(1)
    )
    matrices = [drawn.exact(operator) for operator in plan.operators.values()]
    gain = prod(max(p for row in m for p in row) / min(p for row in m for p in row)
                for m in matrices)  # fmt: skip
    assert Fraction(95, 100) < gain / promise.gamma <= 1


def test_no_sub_table_is_above_its_ceiling() -> None:
    worst = Fraction(0)
    for before, after in drawn.SHARES:
        promise = RhoPrivacy(before, after, reader="shares")
        for counts in drawn.tables(4, 7):
            histogram = drawn.histogram(counts)
            try:
                promise.require_feasible(histogram)
                cut = cut_table(histogram, promise)
            except SfumatoError:
                continue
            ceilings = [Fraction(1) if share > before else after for share in histogram.shares]
            worst = max(worst, drawn.worst_posterior(cut, ceilings))
    assert Fraction(3, 4) < worst <= 1


@pytest.mark.parametrize(
    ("promise", "counts"),
    [("l-diversity(2)", (2, 2)), ("beta-likeness(1)", (1, 1, 1)), ("beta-likeness(2)", (2, 1, 1))],
)
def test_heterogeneous_tells_who_knows_the_program_no_more(promise, counts) -> None:
    assert 0 < matched.worst_posterior(promise, counts, 1) <= 1


@pytest.mark.parametrize("name", ["matches", "ranges"])
def test_nobody_matches_a_value_more_often_than_promised(name: str) -> None:
    family = families(60)[name](name)
    assert family.tables > 40
    assert family.worst == 1, family.broken[:1]


def test_eleven_values_of_a_hundred_under_ten_diversity() -> None:
    """The table on which some were once told a value with chance 0.4."""
    assert matched.worst_match("heterogeneous", "l-diversity(10)", (100,) * 11, 1) == 1


@pytest.mark.parametrize("groups", [2, 3])
def test_small_sums_have_the_law_that_is_stated(groups: int) -> None:
    looked = 0
    for counts in drawn.tables(4, 8):
        try:
            laws = matched.small_sums(counts, groups, looked)
        except SfumatoError:
            continue
        if sum(counts) % groups == 0:
            assert all(len(laws[x]) == groups * count + 1 for x, count in enumerate(counts))
            looked += 1
    assert looked
    matched.stated_sums(groups, Fraction(3, 10), 3, Fraction(1, 20))


def test_estimates_of_few_people_err_as_often_as_stated() -> None:
    rng, looked, smaller = np.random.default_rng(1), 0, 0
    for _ in range(12):
        many = rng.integers(0, 60, (3, 3))
        cells = [(q, x, int(n)) for (q, x), n in np.ndenumerate(many) if n]
        try:
            plan = matched.sampled(cells, "reconstruction-privacy(0.3, 0.2)", "components")
        except SfumatoError:
            continue
        assert not matched.unkept(plan)
        looked += 1
        smaller += bool((plan.samples < plan.groups.sizes).any())
    assert looked > 4
    assert smaller


def test_every_mechanism_is_looked_at() -> None:
    named = {str(way).split("(")[0] for way in (*buckets.BUCKETS, *drawn.OPERATORS)}
    others = {"local", "partitioned", "heterogeneous", "ring", "burel", "splu", "sps"}
    assert set(MECHANISMS) == named - {"None"} | others
    assert all(parse_guarantee(text) for text in (*buckets.CEILINGS, *drawn.LIMITS))


@pytest.mark.slow
@pytest.mark.parametrize("name", families(0))
def test_all_of_it(name: str) -> None:
    family = families(200)[name](name)
    assert family.tables
    assert not family.broken, family.broken[:3]
