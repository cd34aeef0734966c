"""`partitioned(apart=…)`: values that must not share a sub-table do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import RhoPrivacy
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.partitioned import PartitionedPerturbation
from sfumato.profile import Histogram, Profile

VALUES = tuple("abcdefghij")


def test_no_part_holds_two_of_them_whatever_the_counts() -> None:
    rng, planned = np.random.default_rng(4), 0
    for _ in range(40):
        counts = rng.integers(1, 60, len(VALUES))
        profile = Profile(int(counts.sum()), {"s": Histogram("s", VALUES, counts)})
        apart = rng.choice(len(VALUES), int(rng.integers(2, 4)), replace=False)
        named = ";".join(VALUES[code] for code in apart)
        way = PartitionedPerturbation(inside=("uniform", "fine-grain")[planned % 2], apart=named)
        reader = ("anybody", "shares")[planned % 3 == 0]
        try:
            plan = way.plan(profile, RhoPrivacy("1/4", "1/2", reader), Draws.from_seed(1))
        except InfeasibleGuarantee:
            continue
        planned += 1
        plan.check()
        for part in plan.columns["s"].operator.parts:
            assert len(set(apart.tolist()) & set(part.codes)) <= 1
    assert planned > 20


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[sf.Table, Path]:
    import pyarrow as pa

    rng = np.random.default_rng(2)
    ill = np.array(VALUES)[rng.choice(10, 600, p=np.arange(14, 4, -1) / 95)]
    people = pa.table({"age": rng.integers(20, 60, 600), "ill": ill})
    table = sf.read(people, quasi=["age"], sensitive="ill")
    to = tmp_path_factory.mktemp("apart") / "r"
    sf.publish(table, "rho-privacy(0.2, 0.5)", to=to, mechanism="partitioned(apart='a;j')")
    return table, to


def test_a_release_is_audited(published: tuple[sf.Table, Path]) -> None:
    table, to = published
    verdict = sf.audit(table, to)
    assert verdict.holds
    assert [f.value for f in verdict.findings if f.check.name == "part-apart"] == [0]


def test_a_release_that_says_so_and_does_not_fails(published: tuple[sf.Table, Path]) -> None:
    table, to = published
    manifest = to / "manifest.json"
    told = json.loads(manifest.read_text())
    (column,) = told["plan"]["operators"].values()
    together = next(part["codes"] for part in column["parts"] if len(part["codes"]) > 1)[:2]
    first, second = (VALUES[code] for code in together)
    told["mechanism"] = f"partitioned(apart='{first};{second}')"
    manifest.write_text(json.dumps(told))
    verdict = sf.audit(table, to)
    assert not verdict.holds
    assert [f.holds for f in verdict.findings if f.check.name == "part-apart"] == [False]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("partitioned(apart='a')", UsageError, "two values or more"),
        ("partitioned(apart='a;a')", UsageError, "each once"),
        ("partitioned(apart='a;nothing')", DataError, "hold apart"),
        ("partitioned(apart='a;b;c;d;e;f;g;h')", InfeasibleGuarantee, "different sub-tables"),
    ],
)
def test_what_cannot_be_is_said(text: str, error: type[Exception], said: str) -> None:
    counts = np.full(10, 10)
    profile = Profile(100, {"s": Histogram("s", VALUES, counts)})
    with pytest.raises(error, match=said):
        parse_mechanism(text).plan(profile, RhoPrivacy("1/4", "1/2"), Draws.from_seed(1))
