"""Several promises for one release: which are kept together, exactly, and which are refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import DEFAULT_PROMISE, OddsGuarantee, parse_guarantee
from sfumato.profile import Histogram

CEILINGS = ("l-diversity(3)", "beta-likeness(1.5)", "f-privacy(theta=1.2, floor=0.1)")
ODDS = ("rho-privacy(1/4, 2/5)", "fine-rho-privacy(theta=2)")


@given(st.lists(st.integers(1, 60), min_size=3, max_size=8), st.permutations(CEILINGS))
def test_each_value_has_its_smallest_ceiling(counts: list[int], promises: list[str]) -> None:
    histogram = Histogram("s", tuple(range(len(counts))), np.array(counts))
    both = parse_guarantee(" and ".join(promises[:2]))
    apart = [parse_guarantee(text).ceilings(histogram) for text in promises[:2]]
    assert both.ceilings(histogram) == [min(pair) for pair in zip(*apart, strict=True)]
    assert both.left_out(histogram) == [
        code for code, ceiling in enumerate(both.ceilings(histogram)) if ceiling == 1
    ]


@given(st.lists(st.integers(1, 60), min_size=3, max_size=8))
def test_each_value_has_its_smallest_limit_on_odds(counts: list[int]) -> None:
    histogram = Histogram("s", tuple(range(len(counts))), np.array(counts))
    both = parse_guarantee(" and ".join(ODDS))
    assert isinstance(both, OddsGuarantee)
    apart = [parse_guarantee(text).odds_gains(histogram) for text in ODDS]
    for limit, pair in zip(both.odds_limits(histogram), zip(*apart, strict=True), strict=True):
        assert limit == min((one for one in pair if one is not None), default=None)
    assert both.common_limit(histogram.column, histogram.values) <= min(
        (one for one in both.odds_limits(histogram) if one is not None), default=Fraction(10**9)
    )


def test_what_follows_and_is_read_as_a_promise_unless_it_is_quoted() -> None:
    named = parse_guarantee("l-diversity(5, open='(mild) and other;b') and beta-likeness(2)")
    assert str(named) == "l-diversity(5, open='(mild) and other;b') and beta-likeness(2)"
    with pytest.raises(UsageError, match="k-anonymity"):
        parse_guarantee("l-diversity(3) and k-anonymity(5)")
    with pytest.raises(UsageError, match="of enhanced-beta-likeness must be a number above 0"):
        parse_guarantee("l-diversity(5) and enhanced-beta-likeness(0)")


@pytest.mark.parametrize(
    ("promises", "nearest"),
    [
        (("l-diversity(5)", "reconstruction-privacy(0.3, 0.3)"), "l-diversity(5)"),
        (("rho-privacy(0.1, 0.3)", "small-sum(groups=3)"), DEFAULT_PROMISE),
        (("beta-likeness(2)", "small-sum(groups=3)"), "beta-likeness(2)"),
        (("l-diversity(5)", "rho-privacy(0.1, 0.3)"), "l-diversity(5)"),
        (("small-sum(groups=3)", "small-sum(groups=10)"), "small-sum(groups=10)"),
    ],
)
def test_what_cannot_be_kept_together_is_refused_with_what_can(
    promises: tuple[str, str], nearest: str
) -> None:
    for text in (" and ".join(promises), " and ".join(promises[::-1])):
        with pytest.raises(UsageError, match="cannot be kept by one release") as refused:
            parse_guarantee(text)
        named = str(refused.value).rpartition("works: ")[2].strip("'.")
        assert nearest in named
        parse_guarantee(named)


def test_the_witness_is_that_of_the_promise_that_fails() -> None:
    histogram = Histogram("s", ("a", "b", "c"), np.array([5, 3, 2]))
    parse_guarantee("l-diversity(2) and beta-likeness(2)").require_feasible(histogram)
    with pytest.raises(InfeasibleGuarantee, match=r"^'l-diversity\(3\)' cannot be kept") as hit:
        parse_guarantee("l-diversity(3) and beta-likeness(2)").require_feasible(histogram)
    assert hit.value.witness == "'a'"


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng, shares = np.random.default_rng(1), np.arange(1, 21) ** -0.5
    value = rng.choice(20, 3000, p=shares / shares.sum())
    age = np.where(rng.random(3000) < 0.5, 20 + 3 * value, rng.integers(20, 80, 3000))
    group, city = (rng.integers(0, many, 3000) for many in (4, 30))
    return pa.table({"age": age, "group": group, "city": city, "value": [f"v{v}" for v in value]})


@pytest.mark.parametrize(
    ("promise", "kind"),
    [
        ("l-diversity(4) and beta-likeness(3)", "bucketed"),
        ("rho-privacy(0.2, 0.5) and fine-rho-privacy(theta=4)", "perturbed"),
    ],
)
def test_a_release_keeps_both_and_says_both(
    people: pa.Table, promise: str, kind: str, tmp_path: Path
) -> None:
    roles: dict[str, Any] = {"quasi": ["age", "group"], "sensitive": "value", "drop": ["city"]}
    sf.publish(people, promise, to=tmp_path / "release", **roles)
    manifest = sf.open(tmp_path / "release").manifest
    assert (manifest.guarantee, manifest.kind) == (promise, kind)
    for text in promise.split(" and "):
        for sentence in parse_guarantee(text).does_not_protect:
            assert sentence in manifest.does_not_protect
    report = sf.audit(people, tmp_path / "release")
    assert report.holds, report


def test_the_flag_can_be_repeated(people: pa.Table, cli: Any, tmp_path: Path) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    flags = ["--quasi", "age,group", "--sensitive", "value", "--drop", "city"]
    publish = ["publish", tmp_path / "people.parquet", *flags, "--out", tmp_path / "release"]
    apart = ["--guarantee", "l-diversity(5)", "--guarantee", "reconstruction-privacy(0.3, 0.3)"]
    refused = cli(*publish, *apart)
    assert refused.code == 2
    assert "cannot be kept by one release." in refused.err
    assert not (tmp_path / "release").exists()
    together = ["--guarantee", "l-diversity(4)", "--guarantee", "beta-likeness(3)"]
    assert cli(*publish, *together).code == 0
    manifest = sf.open(tmp_path / "release").manifest
    assert manifest.guarantee == "l-diversity(4) and beta-likeness(3)"
