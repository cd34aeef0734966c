"""A history of releases: fresh draws add up, draws under one key file do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from papers.history import notice_changes, simulate_history
from sfumato.datasets import GENERATORS, write_dataset
from sfumato.engines.publishing import publish
from sfumato.errors import UsageError
from sfumato.table import Table

pytestmark = pytest.mark.slow

PROMISE = "rho-privacy(0.08, 1/3)"


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The bar itself, 100,000 people and 24 releases, is in benchmarks/history.py."""
    path = tmp_path_factory.mktemp("census") / "people.parquet"
    write_dataset("census", 6_000, path, 3)
    roles = GENERATORS["census"]
    drop = [name for name in roles.quasi if name not in ("age", "gender")]
    return sf.read(path, quasi="age,gender", sensitive=roles.sensitive, drop=drop)


def test_fresh_draws_add_up_and_one_key_file_does_not(census: Table) -> None:
    """95 % intervals after 1 and after 12 releases lie far apart: the rise is 15 deviations."""
    fresh = simulate_history(census, PROMISE, releases=12, key_file=False)
    keyed = simulate_history(census, PROMISE, releases=12, key_file=True)
    assert fresh.accuracy[0].high < fresh.accuracy[3].low
    assert fresh.accuracy[3].high < fresh.accuracy[11].low
    assert len(set(keyed.accuracy)) == 1
    # both adversaries are the same after one release, up to their draws: 5 deviations (6e-7)
    people, first = keyed.people, keyed.accuracy[0].value
    spread = np.sqrt(2 * first * (1 - first) / people)
    assert abs(first - fresh.accuracy[0].value) < 5 * spread
    assert keyed.accuracy[0].value > keyed.prior
    assert "after 12  releases" in str(fresh)
    assert fresh.to_json()["accuracy"][11]["value"] == fresh.accuracy[11].value


def test_fine_grain_repeats_as_well(census: Table) -> None:
    keyed = simulate_history(
        census, "fine-rho-privacy(theta=4)", releases=3, key_file=True,
        mechanism="fine-grain(objective=counts)",
    )  # fmt: skip
    assert len(set(keyed.accuracy)) == 1


def test_only_changes_are_noticed(census: Table) -> None:
    seen = notice_changes(census, PROMISE, share=0.1)
    assert seen.people == 6_000
    assert seen.changed == 600
    assert seen.seen_unchanged == 0
    assert 0.9 < seen.seen / seen.changed < 1  # a fresh draw may show the same by chance


def test_the_simulation_refuses_what_it_cannot_follow(census: Table) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        simulate_history(census, PROMISE, releases=0, key_file=True)
    two = sf.read(pa.table({"a": ["x", "y"], "b": ["x", "y"]}), quasi="", sensitive="a,b")
    with pytest.raises(UsageError, match="one sensitive column"):
        simulate_history(two, PROMISE, key_file=True)


@pytest.mark.parametrize("other", ["operator", "domain"])
def test_another_operator_does_not_betray_who_was_kept(tmp_path: Path, other: str) -> None:
    """Were the words the same, whoever is shown with another value would be shown truly now.

    Three shares of 20,000 people against those of independent draws: 5 deviations each, a false
    alarm of 2e-6 in all. With the same words, 91 % are shown alike instead of 16 %.
    """
    rows = 20_000
    truth = np.array([f"v{i % 10}" for i in np.random.default_rng(3).permutation(rows)])
    data = pa.table({"id": np.arange(rows), "s": truth})
    (tmp_path / "steward.key").write_text("ef0123456789abcd" * 4)
    shown, kept = [], []
    longer = [f"v{i}" for i in range(10)] + (["w"] if other == "domain" else [])
    for name, promise, domain in (
        ("one", "rho-privacy(0.15, 0.4)", [f"v{i}" for i in range(10)]),
        ("two", f"rho-privacy(0.15, {0.5 if other == 'operator' else 0.4})", longer),
    ):  # fmt: skip
        table = sf.read(data, quasi="", sensitive="s", key="id", domain={"s": domain})
        publish(
            table, promise, to=tmp_path / name, mechanism="uniform", order="keep",
            key_file=tmp_path / "steward.key",
        )  # fmt: skip
        records = pq.read_table(tmp_path / name / "records.parquet")
        shown.append(records.column("s").to_numpy(zero_copy_only=False))
        numerator, denominator = (
            sf.open(tmp_path / name).manifest.plan.operators["s"].retention.split("/")
        )
        p, m = int(numerator) / int(denominator), len(domain)
        kept.append((p + (1 - p) / m, (1 - p) / m))
    (a, b), (c, d) = kept
    both = a * c + 9 * b * d  # independent draws agree so often
    differ = shown[0] != shown[1]
    assert abs((~differ).mean() - both) < 5 * np.sqrt(both * (1 - both) / rows)
    expected = c * (1 - a) / (1 - both)
    right = (shown[1] == truth)[differ].mean()
    assert abs(right - expected) < 5 * np.sqrt(expected * (1 - expected) / differ.sum())
    # and among those shown alike, the value is true as often as two independent draws let it be
    expected = a * c / both
    right = (shown[1] == truth)[~differ].mean()
    assert abs(right - expected) < 5 * np.sqrt(expected * (1 - expected) / (~differ).sum())
