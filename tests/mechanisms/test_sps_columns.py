"""Sampling, perturbing, scaling with several sensitive columns.

The law of what is published by brute force, the promise, and releases end to end.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import profile_for
from sfumato.errors import BundleError, DataError, QueryError, UsageError
from sfumato.guarantees import JointReconstruction, ReconstructionPrivacy
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.looks import column_sets, seen_codes
from sfumato.mechanisms.reconstruction.simple import draw_simply, reach_simply, simple_moments
from sfumato.mechanisms.reconstruction.tails import Setting, tails
from sfumato.mechanisms.sps import SampledColumnsPlan, SamplingPerturbingScaling
from sfumato.operators import Uniform
from sfumato.profile import Cells, Histogram, Profile

SIZES = (2, 3)  # values of two columns
HALF = Fraction(1, 2)
PROMISE = "reconstruction-privacy(0.3, 0.3)"
ROLES = {"quasi": "age,sex", "sensitive": "job,school"}
Law = dict[int, Fraction]


def law_of(group: tuple[int, ...], n: int, of: np.ndarray) -> list[Law]:
    """By value of a look the law of T: all samples, all that may be shown, all extra copies."""
    every, size = int(np.prod(SIZES)), len(group)
    copies, more = divmod(size, n)
    found: list[Law] = [defaultdict(Fraction) for _ in range(int(of.max()) + 1)]
    samples = list(itertools.combinations(range(size), n))
    extras = list(itertools.combinations(range(n), more))
    redrawn = (1 - HALF) / every
    for sample, shown, extra in itertools.product(
        samples, itertools.product(range(every), repeat=n), extras
    ):
        chance = Fraction(1, len(samples) * len(extras))
        for record, value in zip(sample, shown, strict=True):
            chance *= redrawn + (HALF if group[record] == value else 0)
        times = [copies + (place in extra) for place in range(n)]
        for value, law in enumerate(found):
            mine = (t for t, v in zip(times, shown, strict=True) if of[v] == value)
            law[sum(mine)] += chance
    return found


@pytest.mark.parametrize("n", [1, 2, 4])
def test_one_law_holds_for_every_column_and_every_combination(n: int) -> None:
    """Four people, whole or sampled to one or two, and five sampled to two: by enumeration."""
    for group in ((0, 0, 1, 5), (0, 0, 1, 5, 5)):
        if n == 4 and len(group) == 5:
            continue  # 6⁴ · 5 · 4 cases tell nothing more
        for chosen in column_sets(SIZES):
            of, many = seen_codes(SIZES, chosen)
            setting = Setting(Fraction(3, 10), Fraction(3, 10), HALF, many)
            for value, law in enumerate(law_of(group, n, of)):
                count = sum(of[member] == value for member in group)
                least = np.arange(len(group) + 2)
                one = np.ones_like(least)
                reached = reach_simply(setting, one * len(group), one * n, one * count, least)
                true = [float(sum(c for t, c in law.items() if t >= most)) for most in least]
                np.testing.assert_allclose(reached, true, atol=1e-12)
                mean = sum(t * c for t, c in law.items())
                assert mean == HALF * count + (1 - HALF) * len(group) / many  # unbiased
                square = sum(t * t * c for t, c in law.items())
                groups = one_group(group, of, many)
                found = simple_moments(groups, np.array([n]), setting)
                assert found[0][value] == pytest.approx(float(mean))
                assert found[1][value] == pytest.approx(float(square - mean**2))


def one_group(group: tuple[int, ...], of: np.ndarray, many: int, times: int = 1) -> PersonalGroups:
    """Groups of these people, by what a look sees of their combinations."""
    values, counts = np.unique(of[list(group)], return_counts=True)
    starts = np.arange(times + 1) * len(values)
    return PersonalGroups(
        (), np.arange(times), starts, np.tile(values, times), np.tile(counts, times)
    )


def test_groups_are_drawn_by_that_law() -> None:
    """20,000 groups of five, sampled to two; each frequency within 5.5 standard errors of its
    chance: a false alarm in fewer than one of 10⁵ runs."""
    every, times = int(np.prod(SIZES)), 20_000
    groups = one_group((0, 0, 1, 5, 5), np.arange(every), every, times)
    samples, operator = np.full(times, 2), Uniform(every, HALF)
    shown = np.zeros((times, every), np.int64)
    for run in groups.blocks():
        drawn = draw_simply(groups, samples, run, operator, Draws.from_seed(3))
        shown[drawn.groups, drawn.values] = drawn.counts
    assert (shown.sum(axis=1) == 5).all()
    for chosen in column_sets(SIZES):
        of, many = seen_codes(SIZES, chosen)
        seen = np.stack([shown[:, of == value].sum(axis=1) for value in range(many)], axis=1)
        for value, law in enumerate(law_of((0, 0, 1, 5, 5), 2, of)):
            for number, chance in law.items():
                found = float((seen[:, value] == number).mean())
                spread = np.sqrt(float(chance * (1 - chance)) / times)
                assert abs(found - float(chance)) < 5.5 * spread + 1e-12


def test_large_groups_have_the_law_that_levels_take_for_granted() -> None:
    """Of a large group O is binomial: the tails of 65,536 times as many people agree with it."""
    from scipy import stats

    setting = Setting(Fraction(3, 10), Fraction(3, 10), HALF, 6)
    n, size = 9, 9 << 16
    found = tails(setting, *(np.array([x]) for x in (size, n, size // 3)), reach_simply)
    chance = 0.5 / 3 + 0.5 / 6
    assert found.above[0] == pytest.approx(stats.binom.sf(2.7, n, chance), abs=1e-4)
    assert found.below[0] == pytest.approx(stats.binom.cdf(1.7, n, chance), abs=1e-4)


def random_profile(number: int) -> Profile:
    rng = np.random.default_rng(number)
    sizes = tuple(rng.integers(2, 6, int(rng.integers(2, 4))).tolist())
    key = np.sort(rng.integers(0, 12, int(rng.integers(60, 400))))
    first = rng.integers(0, sizes[0], len(key))
    others = [np.where(rng.random(len(key)) < 0.5, first % m, rng.integers(0, m, len(key)))
              for m in sizes[1:]]  # fmt: skip
    flat = np.ravel_multi_index((first, *others), sizes)
    every = int(np.prod(sizes))
    place, counts = np.unique(key * every + flat, return_counts=True)
    cells = Cells(("q",), (tuple(range(12)),), place // every, place % every, counts)
    histograms = {
        name: Histogram(name, tuple(range(m)), np.bincount(codes, minlength=m))
        for name, m, codes in zip("abc", sizes, (first, *others), strict=False)
    }
    return Profile(len(key), histograms, cells=cells)


@pytest.mark.parametrize("joint", [False, True])
def test_every_column_and_combination_is_misjudged_often_enough(joint: bool) -> None:
    """20 random tables: the exact tails of everything that is promised, group by group."""
    kind = JointReconstruction if joint else ReconstructionPrivacy
    published = short = 0
    for number in range(20):
        promise = kind(Fraction(3, 10), Fraction(1, 4))
        plan = SamplingPerturbingScaling(merge="none").plan(
            random_profile(number), promise, Draws.from_seed(1)
        )
        assert isinstance(plan, SampledColumnsPlan)
        plan.check()
        assert [look.promised for look in plan.looks] == [
            joint or len(look.names) == 1 for look in plan.looks
        ]
        for look in plan.looks:
            _, private = look.worst(plan.samples)
            assert private.all() or not look.promised
            short += not private.all()
        published += int((plan.samples > 0).sum())
    assert published > 100
    assert (short > 0) != joint  # a promise about columns says nothing of combinations


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(5)
    rows = 1500
    job = rng.choice(6, rows, p=[0.22, 0.2, 0.2, 0.15, 0.13, 0.1])
    school = np.where(rng.random(rows) < 0.5, job % 5, rng.choice(5, rows))
    return pa.table({
        "age": rng.integers(20, 60, rows), "sex": rng.choice(["F", "M"], rows),
        "job": [f"j{code}" for code in job], "school": [f"s{code}" for code in school],
    })  # fmt: skip


@pytest.fixture(scope="module")
def release(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("sps") / "release"
    sf.publish(people, PROMISE, to=to, mechanism="sps(merge=none)", **ROLES)
    return to


def test_a_release_keeps_the_promise_of_every_column(people: pa.Table, release: Path) -> None:
    told = sf.open(release).manifest
    assert told.plan.sampling.together is True
    assert list(told.plan.sampling.levels) == ["job", "school", "job and school"]
    assert [said.split("'")[1] for said in told.statement] == ["job", "school"]
    assert any("holds for whoever sees all of them" in said for said in told.caveats)
    verdict = sf.audit(people, release)
    assert verdict.holds, verdict
    tailed = {f.column: f.result.value for f in verdict.findings if f.check.name == "exact-tails"}
    assert tailed == {"job": "ok", "school": "ok", "job and school": "told"}


def test_a_joint_promise_is_judged_for_combinations(people: pa.Table, tmp_path: Path) -> None:
    sf.publish(people, PROMISE, to=tmp_path / "r", mechanism="sps(merge=none)", joint=True, **ROLES)
    said = sf.open(tmp_path / "r").manifest.statement
    assert said[-1] == "The promise holds for what the columns job, school tell together."
    verdict = sf.audit(people, tmp_path / "r")
    assert verdict.holds, verdict
    tailed = {f.column: f.result.value for f in verdict.findings if f.check.name == "exact-tails"}
    assert tailed == dict.fromkeys(["job", "school", "job and school"], "ok")


def test_audits_find_groups_that_were_not_perturbed(
    people: pa.Table, tmp_path: Path, mutate: Any
) -> None:
    """In groups of some two people, that stay whole: 1,500 draws are enough to see it."""
    age = pa.array(np.random.default_rng(6).integers(0, 400, len(people)))
    table = people.set_column(0, "age", age)
    sf.publish(table, "reconstruction-privacy(0.3, 0.2)", to=tmp_path / "r",
               mechanism="sps(merge=none)", **ROLES)  # fmt: skip
    assert sf.audit(table, tmp_path / "r").holds

    def true_values(records: pa.Table) -> pa.Table:
        shown = records.to_pandas().sort_values(["age", "sex"], ignore_index=True)
        kept = shown[["age", "sex"]].drop_duplicates()
        true = table.to_pandas().merge(kept).sort_values(["age", "sex"], ignore_index=True)
        shown[["job", "school"]] = true[["job", "school"]]
        return pa.Table.from_pandas(shown, records.schema, preserve_index=False)

    bad = mutate(tmp_path / "r", tmp_path / "bad", records=true_values)
    failed = {f.check.name for f in sf.audit(table, bad).findings if f.holds is False}
    assert "agreement" in failed


def test_audits_find_records_that_are_no_copies(
    people: pa.Table, release: Path, tmp_path: Path, mutate: Any
) -> None:
    def moved(table: pa.Table) -> pa.Table:
        """One school of every group in another's place: no copy of any record."""
        found = table.to_pandas().sort_values(["age", "sex", "job", "school"], ignore_index=True)
        first = found.groupby(["age", "sex"]).head(1).index
        found.loc[first, "school"] = np.where(found.loc[first, "school"] == "s1", "s2", "s1")
        return pa.Table.from_pandas(found, table.schema, preserve_index=False)

    bad = mutate(release, tmp_path / "bad", records=moved)
    failed = {f.check.name for f in sf.audit(people, bad).findings if f.holds is False}
    assert "copies" in failed


def test_questions_about_one_column_and_about_both(people: pa.Table, tmp_path: Path) -> None:
    """Ten releases, five questions each: of 50 intervals of 95 % fewer than 41 would hold in
    one of some 10,000 runs. All combinations add up to the people of a condition, exactly."""
    frame, held = people.to_pandas(), []
    where = ("job = 'j1'", "school = 's2'", "job = 'j0' AND school = 's0'",
             "sex = 'F' AND job IN ('j0', 'j2')",
             "age < 40 AND (job = 'j3' OR school = 's3')")  # fmt: skip
    for seed in range(10):
        to = tmp_path / f"r{seed}"
        sf.publish(people, "reconstruction-privacy(0.2, 0.1)", to=to, seed=seed,
                   mechanism="sps(merge=none)", **ROLES)  # fmt: skip
        opened = sf.open(to)
        for each in where:
            row = opened.sql(f"SELECT COUNT(*) AS n FROM release WHERE {each}").rows()[0]
            asked = each.replace(" = ", " == ").replace("AND", "and").replace("OR", "or")
            true = len(frame.query(asked.replace(" IN (", " in (")))
            held.append(row["n_low"] <= true <= row["n_high"])
    assert sum(held) >= 41
    grouped = opened.sql(
        "SELECT job, school, COUNT(*) AS n FROM release WHERE age < 40 GROUP BY job, school"
    ).rows()
    assert len(grouped) == 30
    whole = opened.sql("SELECT COUNT(*) AS n FROM release WHERE age < 40").rows()[0]["n"]
    assert sum(row["n"] for row in grouped) == pytest.approx(whole)


def test_the_command_line_publishes_asks_audits_and_attacks(
    people: pa.Table, tmp_path: Path, cli: Any
) -> None:
    table, release = str(tmp_path / "people.parquet"), str(tmp_path / "r")
    pq.write_table(people, table)
    roles = ("--quasi", "age,sex", "--sensitive", "job,school")
    assert cli("publish", table, *roles, "--guarantee", PROMISE, "--out", release).code == 0
    described = cli("describe", table, *roles, "--guarantee", PROMISE)
    assert described.code == 0
    assert "Exposed: school" in described.out
    asked = "SELECT job, school, COUNT(*) FROM release GROUP BY job, school"
    assert "j5" in cli("query", release, asked).out
    assert cli("audit", table, release).code == 0
    attacked = cli("attack", table, release, "--targets", "50", "--no-fresh")
    assert attacked.code == 0
    assert "school" in attacked.out


def test_what_is_refused_says_why(people: pa.Table, release: Path, tmp_path: Path) -> None:
    def publish(**more: Any) -> None:
        sf.publish(**{"table": people, "guarantee": PROMISE, "to": tmp_path / "r", **ROLES, **more})

    with pytest.raises(UsageError, match="a bound that is known for one sensitive column"):
        publish(mechanism="sps(bound=chernoff)")
    wide = people.append_column("code", pa.array(np.arange(1500) % 800))
    wide = wide.append_column("zip", pa.array(np.arange(1500) % 90))
    with pytest.raises(DataError, match="72,000 combinations of values; 'sps' perturbs at most"):
        publish(table=wide, sensitive="code,zip", drop="job,school")
    twice = people.append_column("who", pa.array(np.arange(1500) // 2))
    with pytest.raises(UsageError, match="one row each"):
        publish(table=twice, person="who", rows_per_person=2)
    assert not (tmp_path / "r").exists()
    promise, way = ReconstructionPrivacy("0.3", "0.3"), SamplingPerturbingScaling()
    profile = profile_for(sf.read(people, **ROLES), promise, way)
    with pytest.raises(UsageError, match="on one machine only"):
        way.plan(Profile(profile.rows, profile.histograms), promise, Draws.from_seed(1))
    both = "SELECT COUNT(*) FROM release WHERE job = 'j1' AND school = 's1'"
    with pytest.raises(QueryError, match="perturbed together, and the estimator 'em'"):
        sf.open(release).sql(both, estimator="em")
    alone = "SELECT job, COUNT(*) FROM release GROUP BY job"
    assert len(sf.open(release).sql(alone, estimator="em").rows()) == 6


def test_a_release_must_say_that_its_columns_were_drawn_together(
    release: Path, tmp_path: Path, mutate: Any
) -> None:
    for number, change in enumerate((
        lambda plan: plan["sampling"].pop("together"),
        lambda plan: plan["operators"]["job"].update(retention="1/4"),
    )):  # fmt: skip

        def changed(manifest: dict[str, Any], change: Any = change) -> None:
            change(manifest["plan"])

        bad = mutate(release, tmp_path / f"bad{number}", manifest=changed)
        with pytest.raises(BundleError, match="drawn together"):
            sf.open(bad)
    assert json.loads((release / "manifest.json").read_text())["plan"]["sampling"]["together"]
