"""The mechanism: every group passes the exact test, on random tables and on real ones."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from papers.public_files import read_census
from sfumato.audits import audit
from sfumato.columns import Values
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.publishing import publish
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import ReconstructionPrivacy, parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.reconstruction.drawing import draw_block
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.mechanisms.reconstruction.testing import worst_tail
from sfumato.profile import Cells, Histogram, Profile

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
CENSUS = ["age", "gender", "education", "marital", "race", "workclass", "country"]


def need(*names: str) -> list[Path]:
    paths = [DATA / name for name in names]
    for path in paths:
        if not path.is_file():
            pytest.skip(f"{path.name} is not there")
    return paths


def random_profile(generator: np.random.Generator) -> Profile:
    m = int(generator.choice([2, 5, 14, 30]))
    domains = tuple(tuple(range(int(n))) for n in generator.integers(2, 6, size=3))
    rows = int(np.exp(generator.uniform(2, 8)))
    quasi = np.stack(
        [generator.choice(len(d), rows, p=generator.dirichlet(np.ones(len(d)))) for d in domains]
    )
    shares = generator.dirichlet(np.full(m, generator.uniform(0.1, 2)), size=5)
    reached = np.cumsum(shares, axis=1)[quasi[0]] < generator.random(rows)[:, None]
    sensitive = np.minimum(reached.sum(axis=1), m - 1)
    key = np.ravel_multi_index(tuple(quasi), tuple(len(d) for d in domains))
    code, counts = np.unique(key * m + sensitive, return_counts=True)
    cells = Cells(("a", "b", "c"), domains, code // m, code % m, counts)
    histogram = Histogram("s", tuple(range(m)), np.bincount(sensitive, minlength=m))
    return Profile(rows, {"s": histogram}, cells)


@pytest.mark.slow
def test_every_group_of_300_random_tables_passes_the_exact_test() -> None:
    generator = np.random.default_rng(1)
    retentions, left_out = ("0.2", "0.5", "0.7"), 0
    for number in range(300):
        profile = random_profile(generator)
        promise = ReconstructionPrivacy("0.3", "0.3", retentions[number % 3])
        linkage = ("none", "components")[number // 3 % 2]
        way = parse_mechanism(f"sps(merge={linkage})")
        try:
            plan = way.plan(profile, promise, Draws.from_seed(number))
        except InfeasibleGuarantee:
            left_out += 1
            continue
        assert isinstance(plan, SampledPlan)
        plan.check()
        worst, private = worst_tail(plan.groups, plan.samples, plan.setting)
        assert private.all()
        assert worst[plan.samples > 0].min() >= 0.3
        published = np.zeros(len(plan.groups), np.int64)
        for run in plan.groups.blocks():
            drawn = draw_block(plan.groups, plan.samples, run, plan.operator, Draws.from_seed(1))
            np.add.at(published, drawn.groups, drawn.counts)
        assert (published == np.where(plan.samples > 0, plan.groups.sizes, 0)).all()
        assert int(published.sum()) + plan.withheld == profile.rows
    assert left_out < 30


def small_table(rows: int = 4000, seed: int = 3) -> pa.Table:
    generator = np.random.default_rng(seed)
    sex = generator.choice(["F", "M"], rows)
    age = generator.integers(20, 30, rows)
    job = generator.choice(["cook", "nurse", None], rows)
    disease = np.where(
        generator.random(rows) < 0.4,
        np.where(sex == "F", "flu", "cold"),
        generator.choice(["flu", "cold", "HIV", "asthma", "gout"], rows),
    )
    return pa.table({"sex": sex, "age": age, "job": pa.array(job), "disease": disease})


def declared(table: pa.Table) -> sf.Table:
    return sf.read(table, quasi=["sex", "age", "job"], sensitive="disease")


def test_merged_columns_are_published_as_labels(tmp_path: Path) -> None:
    result = publish(declared(small_table()), "reconstruction-privacy(0.3, 0.3)", to=tmp_path / "r")
    merges = result.manifest.plan.merges
    assert set(merges) == {"age", "job"}  # sex matters, the others do not
    column = next(c for c in result.manifest.columns if c.name == "age")
    assert (column.kind, column.type) == ("categorical", "string")
    found = pq.read_table(tmp_path / "r" / "records")
    assert set(found["age"].to_pylist()) == {merged.label for merged in merges["age"]}
    assert "cook..(missing)" in {merged.label for merged in merges["job"]}


def test_a_group_that_cannot_keep_a_record_is_left_out_and_counted(tmp_path: Path) -> None:
    # p = 0.9: a group of one value cannot be overestimated by 30 %, whatever the sample (errata R4)
    rows = [("F", "flu")] * 40 + [("M", d) for d in ("flu", "cold", "HIV", "asthma", "gout")] * 20
    raw = pa.table({"sex": [r[0] for r in rows], "disease": [r[1] for r in rows]})
    table = sf.read(raw, quasi="sex", sensitive="disease")
    result = publish(
        table,
        "reconstruction-privacy(0.3, 0.3, retention=0.9)",
        to=tmp_path / "r",
        mechanism="sps(merge=none)",
    )
    assert (result.manifest.rows, result.manifest.suppressed) == (100, 40)
    assert result.manifest.plan.sampling.groups_suppressed == 1
    assert any("1 groups, 40 people, are suppressed" in text for text in result.manifest.caveats)
    assert result.manifest.columns[0].domain == Values(("M",))
    assert audit(raw, tmp_path / "r").holds


def test_what_cannot_be_kept_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        publish(declared(small_table()), "reconstruction-privacy(0.3, 0.6)", to=tmp_path / "r")
    assert caught.value.nearest is not None
    assert caught.value.nearest.startswith("reconstruction-privacy(0.3, 0.")
    assert caught.value.witness.startswith("sex = ")
    publish(declared(small_table()), caught.value.nearest, to=tmp_path / "r")


def test_keys_that_make_no_sense(tmp_path: Path) -> None:
    promise = "reconstruction-privacy(0.3, 0.3)"
    keyed = small_table().append_column("id", pa.array(range(4000)))
    people = sf.read(keyed, quasi=["sex", "age", "job"], sensitive="disease", key="id")
    (tmp_path / "key").write_text("ab0123456789cdef" * 4)
    with pytest.raises(UsageError, match="draw for whole groups"):
        publish(people, promise, to=tmp_path / "r", key_file=tmp_path / "key")


def test_census_passes_the_exact_audit(tmp_path: Path) -> None:
    (path,) = need("occ100k.parquet")
    table = sf.read(path, quasi=CENSUS, sensitive="occupation")
    publish(table, "reconstruction-privacy(0.3, 0.3)", to=tmp_path / "r")
    verdict = audit(path, tmp_path / "r")
    assert verdict.holds, str(verdict)


def census_plan(mechanism: str) -> SampledPlan:
    (path,) = need("occ100k.parquet")
    table = sf.read(read_census(path), quasi=CENSUS, sensitive="occupation")
    promise, way = parse_guarantee("reconstruction-privacy(0.3, 0.3)"), parse_mechanism(mechanism)
    profile = profile_for(table, promise, way)
    plan = choose_plan(profile, promise, way, Draws.from_seed(1))[1]
    assert isinstance(plan, SampledPlan)
    return plan


@pytest.mark.slow
def test_copies_do_not_give_the_largest_share_away() -> None:
    """Every perturbed record is copied about |g|/n times, which could tell n, and a level (R2)."""
    plan = census_plan("sps")
    groups, samples, sizes = plan.groups, plan.samples, plan.groups.sizes
    parts = [draw_block(groups, samples, run, plan.operator, Draws.from_seed(7))
             for run in groups.blocks()]  # fmt: skip
    owner, counts = (np.concatenate([getattr(p, f) for p in parts]) for f in ("groups", "counts"))
    guess = np.full(len(groups), np.nan)
    for level in sorted(plan.levels, key=lambda level: -level.sample):
        # T copies come from o records where T is o·N/n rounded up or down
        record = np.rint(counts * level.sample / sizes[owner])
        fits = np.abs(counts * level.sample - record * sizes[owner]) < level.sample
        explained = np.bincount(owner, record, minlength=len(groups)) == level.sample
        explained[owner[~fits | (record < 1)]] = False
        guess[explained & (sizes > level.sample)] = level.to
    truth = groups.largest / sizes
    sampled = (samples > 0) & (samples < sizes)
    assert sampled.sum() > 1000
    assert (np.abs(guess - truth) <= truth / 10).sum() <= 0.1 * sampled.sum()


def test_the_nearest_chance_takes_few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest hundredth that some group allows, as trying them all from above finds it."""
    asked: list[Fraction] = []
    allows = SampledPlan.allows

    def counted(plan: SampledPlan, chance: Fraction) -> bool:
        asked.append(chance)
        return allows(plan, chance)

    generator = np.random.default_rng(3)
    profile, promise = random_profile(generator), ReconstructionPrivacy("0.3", "0.97", "0.9")
    monkeypatch.setattr(SampledPlan, "allows", counted)
    with pytest.raises(InfeasibleGuarantee) as refused:
        parse_mechanism("sps(merge=none)").plan(profile, promise, Draws.from_seed(1))
    assert 1 <= len(asked) <= 7
    nearest = refused.value.nearest
    assert nearest is not None
    reached = parse_guarantee(nearest)
    assert isinstance(reached, ReconstructionPrivacy)
    parse_mechanism("sps(merge=none)").plan(profile, reached, Draws.from_seed(1))
    above = replace(reached, chance=reached.chance + Fraction(1, 100))
    with pytest.raises(InfeasibleGuarantee):
        parse_mechanism("sps(merge=none)").plan(profile, above, Draws.from_seed(1))
