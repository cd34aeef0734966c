"""linked-diversity: planned by measuring, counted by the audit, refused with what can be kept."""

from __future__ import annotations

import shutil
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import profile_for
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import LinkedDiversity, parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets.linked import Believed, DealtPeople, allowed


def people(rows: int = 3000, seed: int = 1) -> pa.Table:
    """Eight values; two groups lean to five of them each."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    value = np.where(
        rng.random(rows) < 0.8, rng.integers(0, 5, rows) + 3 * group, rng.integers(0, 8, rows)
    )
    return pa.table({"group": group, "age": rng.integers(20, 60, rows), "s": value})


def declared(table: pa.Table) -> sf.Table:
    return sf.read(table, quasi="group,age", sensitive="s")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_the_audit_counts_what_planning_measured(seed: int, tmp_path: Path) -> None:
    table = people(seed=seed)
    made = sf.publish(declared(table), "linked-diversity(2, share=0.9)", to=tmp_path / "r")
    assert made.manifest.mechanism == "local-linked"
    assert "naive Bayes" in made.manifest.statement[0]
    verdict = sf.audit(table, tmp_path / "r")
    assert verdict.holds is True
    (counted,) = [f for f in verdict.findings if f.check.name == "linked-people"]
    assert counted.limit == 300


def test_a_release_that_tells_more_fails(tmp_path: Path) -> None:
    """Buckets of l-diversity(2) that claim to be linked-diverse, and a share that nobody kept."""
    table = people()
    sf.publish(declared(table), "linked-diversity(2, share=0.9)", to=tmp_path / "r")
    loose = tmp_path / "loose"
    sf.publish(declared(table), "l-diversity(2)", mechanism="two-size", to=loose)
    text = (loose / "manifest.json").read_text("utf-8")
    (loose / "manifest.json").write_text(
        text.replace('"l-diversity(2)"', '"linked-diversity(2, share=0.9)"'), "utf-8"
    )
    verdict = sf.audit(table, loose)
    assert verdict.holds is False
    assert any(f.check.name == "linked-people" and f.holds is False for f in verdict.findings)
    shutil.rmtree(loose)


def test_what_links_alone_tell_is_refused_with_what_can_be_kept(tmp_path: Path) -> None:
    table = people()
    with pytest.raises(InfeasibleGuarantee, match="with no release at all") as refused:
        sf.publish(declared(table), "linked-diversity(4, share=0.9)", to=tmp_path / "r")
    assert not (tmp_path / "r").exists()
    nearest = parse_guarantee(str(refused.value.nearest))
    assert isinstance(nearest, LinkedDiversity)
    assert 1 < nearest.l < 4
    sf.publish(declared(table), nearest, to=tmp_path / "r")
    assert sf.audit(table, tmp_path / "r").holds is True


def test_beliefs_are_the_enumerated_ones() -> None:
    """Six people in buckets of three: every way to deal each bucket, by hand."""
    table = pa.table({"a": [0, 1, 1, 0, 0, 1], "s": [0, 1, 2, 0, 1, 2]})
    guarantee = LinkedDiversity(Fraction(5, 4), Fraction(1, 10))
    way = parse_mechanism("local-linked")
    profile = profile_for(sf.read(table, quasi="a", sensitive="s"), guarantee, way)
    assert profile.cells is not None
    known = DealtPeople.of(profile.cells, 3)
    plan = way.plan(profile, guarantee, Draws.from_seed(1))
    found = known.dealt(plan, Draws.from_seed(2))
    chances = np.exp(known.rule.log_chances(known.codes))
    for bucket in np.unique(found.bucket):
        members = np.flatnonzero(found.bucket == bucket)
        weights = {
            deal: np.prod([chances[m, v] for m, v in zip(members, deal, strict=True)])
            for deal in set(permutations(known.truth[members].tolist()))
        }
        for place, member in enumerate(members):
            by_value = np.zeros(3)
            for deal, weight in weights.items():
                by_value[deal[place]] += weight
            assert found.largest[member] == pytest.approx(by_value.max() / by_value.sum())


def test_room_is_kept_for_another_draw() -> None:
    """99 of 1,000 above in buckets of their own leave no room at 100; at 140 they do."""
    largest = np.repeat([0.9, 0.1], [99, 901])
    believed = Believed(np.arange(1000), largest)
    assert allowed(Fraction(9, 10), 1000) == 100
    assert not believed.keeps(Fraction(2), Fraction(9, 10))
    assert believed.keeps(Fraction(2), Fraction(86, 100))
    together = Believed(np.arange(1000) // 10, largest)
    assert not together.keeps(Fraction(2), Fraction(86, 100))


@pytest.mark.parametrize("text", ["linked-diversity(1)", "linked-diversity(2, share=1.5)"])
def test_numbers_that_promise_nothing(text: str) -> None:
    with pytest.raises(UsageError):
        parse_guarantee(text)


def test_a_common_value_is_named(tmp_path: Path) -> None:
    table = pa.table({"a": [0, 1] * 50, "s": [0] * 80 + [1, 2] * 10})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InfeasibleGuarantee, match="80 %") as refused:
        sf.publish(table, "linked-diversity(3)", quasi="a", sensitive="s", to=tmp_path / "r")
    assert refused.value.nearest == "linked-diversity(1.25)"
