"""Domains wider than what occurs, bins, several sensitive columns, columns as other kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.columns import Range, Values
from sfumato.release import Release


def only_the_receipt_tells(cli: Any, path: Path, folder: Path) -> None:
    """The table alone does not say whether values that nobody has were stated on purpose."""
    alone = cli("audit", path, folder / "release", "--json")
    assert alone.code == 5, alone.err
    open_checks = [f["check"] for f in alone.json["findings"] if f["holds"] is not True]
    assert open_checks == ["domains"]
    known = cli("audit", path, folder / "release", "--receipt", folder / "receipt")
    assert known.code == 0, known.out


def test_a_stated_sensitive_domain_is_drawn_from(tmp_path: Path, cli: Any) -> None:
    """Values that nobody has are published as well, so that their absence does not show."""
    path = tmp_path / "people.parquet"
    data = pa.table({"x": [i % 7 for i in range(600)], "s": [f"v{i % 4}" for i in range(600)]})
    pq.write_table(data, path)
    outcome = cli(
        "publish", path, "--quasi", "x", "--sensitive", "s", "--domain", "s=v9,v0,v1,v2,v3,v8",
        "--guarantee", "rho-privacy(0.3, 0.6)", "--mechanism", "uniform",
        "--out", tmp_path / "release", "--receipt", tmp_path / "receipt",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    release = Release(tmp_path / "release")
    assert release.domain("s").to_pylist() == ["v9", "v0", "v1", "v2", "v3", "v8"]
    shown = set(pq.read_table(release.records[0]).column("s").to_pylist())
    assert {"v8", "v9"} <= shown
    only_the_receipt_tells(cli, path, tmp_path)


@pytest.mark.parametrize(
    ("stated", "domain"),
    [("0..9", Range(0, 9, True)), ("-1,0,1,2,3,4,5,6", Values((-1, 0, 1, 2, 3, 4, 5, 6, None)))],
)
def test_a_stated_quasi_domain_stands_in_the_manifest(
    tmp_path: Path, stated: str, domain: Any
) -> None:
    numbers = pa.array([None if i == 3 else i % 7 for i in range(60)])
    data = pa.table({"x": numbers, "s": [f"v{i % 5}" for i in range(60)]})
    table = sf.read(data, quasi="x", sensitive="s", domain={"x": stated})
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=tmp_path / "release")
    assert Release(tmp_path / "release").column("x").domain == domain


def test_bins(tmp_path: Path, cli: Any) -> None:
    path = tmp_path / "costs.parquet"
    costs = np.linspace(0, 1000, 400)
    pq.write_table(pa.table({"x": [i % 3 for i in range(400)], "cost": costs}), path)
    outcome = cli(
        "publish", path, "--quasi", "x", "--sensitive", "cost",
        "--bins", "cost=-inf,250,500,999999.5,1000000.5", "--guarantee", "rho-privacy(0.3, 0.6)",
        "--out", tmp_path / "release", "--mechanism", "uniform", "--receipt", tmp_path / "receipt",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    release = Release(tmp_path / "release")
    assert release.domain("cost").to_pylist() == [
        "(-inf, 250)",
        "[250, 500)",
        "[500, 999999.5)",
        "[999999.5, 1000000.5]",
    ]
    assert release.column("cost").type == "string"
    assert release.column("cost").bins == (float("-inf"), 250, 500, 999999.5, 1000000.5)
    only_the_receipt_tells(cli, path, tmp_path)
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert manifest["columns"][1]["bins"][0] == "-inf"


def test_missing_numbers_and_bins(tmp_path: Path) -> None:
    costs = pa.array([None, float("nan"), 5.0, 15.0, 25.0, 35.0] * 20)
    data = pa.table({"cost": costs})
    edges = [0, 10, 20, 30, 40]
    table = sf.read(data, quasi=[], sensitive="cost", bins={"cost": edges}, missing="value")
    sf.publish(table, "rho-privacy(0.34, 0.6)", to=tmp_path / "release", mechanism="uniform")
    assert Release(tmp_path / "release").domain("cost").to_pylist()[-1] is None
    assert sf.audit(data, tmp_path / "release").holds


def test_several_sensitive_columns_are_drawn_independently(tmp_path: Path) -> None:
    """Two copies of one column: kept together with chance p², not p.

    Agreement of the two published copies is binomial; 5 standard deviations give a false alarm
    of 6e-7. Were the draws shared, they would agree always.
    """
    rows = 40_000
    values = np.array([f"v{i}" for i in range(10)])[np.random.default_rng(1).integers(0, 10, rows)]
    data = pa.table({"x": [1] * rows, "s": values, "t": values})
    table = sf.read(data, quasi="x", sensitive=["s", "t"])
    sf.publish(
        table, "rho-privacy(0.15, 0.4)", to=tmp_path / "release", seed=4, mechanism="uniform"
    )
    release = Release(tmp_path / "release")
    records = pq.read_table(release.records[0])
    agree = np.mean(records.column("s").to_numpy() == records.column("t").to_numpy())
    operator = release.plan.operators["s"]
    p = float(operator.retention)
    both = (p + (1 - p) / 10) ** 2 + 9 * ((1 - p) / 10) ** 2
    assert abs(agree - both) < 5 * np.sqrt(both * (1 - both) / rows)
    failed = [f.check.name for f in sf.audit(data, release).findings if not f.holds]
    assert failed == ["randomness"]


def test_more_values_than_a_dictionary_holds(tmp_path: Path) -> None:
    """A quasi column with too many texts to list them in the manifest."""
    rows = 12_000
    data = pa.table({"x": [f"person {i}" for i in range(rows)], "s": ["a", "b", "c", "d"] * 3_000})
    sf.publish(sf.read(data, quasi="x", sensitive="s"), "rho-privacy(0.3, 0.6)", to=tmp_path / "r")
    release = Release(tmp_path / "r")
    assert release.column("x").domain is None
    shown = pq.read_table(release.records[0]).column("x").to_pylist()
    assert sorted(shown) == sorted(data.column("x").to_pylist())


def test_values_that_look_alike_are_one(tmp_path: Path) -> None:
    """Composed or not, with a blank or without: in a bucket they would count as diverse."""
    ill = ["caf\u00e9", "cafe\u0301", "HIV", "HIV ", "\u00a0flu", "flu", "cold", None]
    table = pa.table({"age": range(400), "ill": ill * 50})
    domain = ["HIV", "caf\u00e9", "cold", "flu"]
    for given in (table, table.set_column(1, "ill", table.column("ill").dictionary_encode())):
        read = sf.read(given, quasi="age", sensitive="ill", missing="drop")
        assert read.rows is not None
        assert read.rows.domains["ill"].to_pylist() == domain
    given = {"ill": [" HIV", "cafe\u0301", "cold", "flu"]}
    stated = sf.read(table, quasi="age", sensitive="ill", missing="drop", domain=given)
    release = tmp_path / "release"
    sf.publish(stated, "f-privacy(theta=2, limits='cafe\u0301:0.4')", to=release)
    assert sf.open(release).sql("SELECT COUNT(*) FROM release WHERE ill = 'caf\u00e9'").value == 100
    assert sf.audit(stated, release).holds
