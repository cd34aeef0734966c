"""Executors put the parts of a release into a store, the driver the rest, its manifest last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines import spelling
from sfumato.storage import MANIFEST, Stored
from tests.s3 import NAMES, s3_server

ROWS = 5_300
ROLES: dict[str, Any] = {"quasi": ["age", "town", "a.b", "born", "seen", "cost"]}


@pytest.fixture(scope="module")
def people_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    towns = np.array(["Bergen", "Oslo", "Ås", "Tromsø"])
    table = pa.table(
        {
            "age": rng.integers(18, 30, ROWS).astype(np.int16),
            "town": pa.array(towns[rng.integers(0, 4, ROWS)], mask=rng.random(ROWS) < 0.05),
            "a.b": rng.integers(0, 9, ROWS) > 4,
            "born": pa.array(rng.integers(0, 50, ROWS).astype(np.int32)).cast(pa.date32()),
            "seen": pa.array(
                rng.integers(0, 9, ROWS) * 86_400_000_000, mask=rng.random(ROWS) < 0.1
            ).cast(pa.timestamp("us", "UTC")),
            "cost": np.where(rng.random(ROWS) < 0.1, np.nan, rng.integers(-3, 3, ROWS) / 2),
            "ill": np.array(list("abcdefgh"))[rng.integers(0, 8, ROWS)],
            "diet": np.array(["all", "some", "none"])[rng.integers(0, 3, ROWS)],
        }
    )
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(table, path, row_group_size=700)
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server("clinic") as address:
        yield address


@pytest.fixture
def store(
    spark: Any, server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stored]:
    """An empty place that executors reach, too; parts of a release have 1,000 rows."""
    monkeypatch.setattr(spelling, "ROW_GROUP", 250)
    for name in (*NAMES, "AWS_ENDPOINT_URL"):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    stored = Stored.at(f"{server}/{request.node.name.translate({ord(c): '-' for c in '[]():='})}")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "12000")
    yield stored
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.parametrize(
    ("promise", "mechanism", "sensitive"),
    [
        ("rho-privacy(0.34, 0.6)", "uniform", ["ill", "diet"]),
        ("rho-privacy(0.2, 0.5)", "partitioned", ["ill"]),
        ("l-diversity(3)", "optimal", ["ill"]),
        ("l-diversity(3)", "local(min=600, columns=age;town)", ["ill"]),
        ("f-privacy(theta=3)", "optimal(fakes=1)", ["ill"]),
    ],
)
def test_every_file_there_is_the_local_engines(
    spark: Any,
    store: Stored,
    people_path: Path,
    tmp_path: Path,
    promise: str,
    mechanism: str,
    sensitive: list[str],
) -> None:
    roles = {**ROLES, "sensitive": sensitive, "drop_rest": True}
    sf.publish(people_path, promise, to=tmp_path / "here", mechanism=mechanism, seed=3, **roles)
    frame = spark.read.parquet(str(people_path))
    assert frame.rdd.getNumPartitions() > 2
    sf.publish(frame, promise, to=store.address, mechanism=mechanism, seed=3, **roles)
    files = [path for path in (tmp_path / "here").rglob("*") if path.is_file()]
    names = sorted(path.relative_to(tmp_path / "here").as_posix() for path in files)
    assert store.names() == names
    assert len(names) >= 6
    for name in names:
        store.fetch(name, tmp_path / "there")
        assert (tmp_path / "there").read_bytes() == (tmp_path / "here" / name).read_bytes(), name


def test_executors_put_the_parts_and_the_driver_the_rest(
    spark: Any, store: Stored, people_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, whole = [], Stored.put

    def noted(self: Stored, name: str, source: Path) -> None:
        put.append(name)
        whole(self, name, source)

    monkeypatch.setattr(Stored, "put", noted)
    roles = {**ROLES, "sensitive": "ill", "drop_rest": True}
    sf.publish(spark.read.parquet(str(people_path)), "l-diversity(3)", to=store.address, **roles)
    assert put == [spelling.LISTS, MANIFEST]
    assert sf.open(store.address).rows == ROWS


@pytest.mark.parametrize("broken", ["executor", "driver"])
def test_a_run_that_fails_leaves_nothing(
    spark: Any,
    store: Stored,
    people_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    said = "no such bucket.*executors write there"
    if broken == "executor":
        nowhere = f"{os.environ['AWS_ENDPOINT_URL']}/nowhere"
        monkeypatch.setitem(spark.sparkContext.environment, "AWS_ENDPOINT_URL", nowhere)
    else:
        fetch, said = Stored.fetch, "the wire was cut"

        def breaks(self: Stored, name: str, target: Path) -> None:
            fetch(self, name, target)
            raise sf.DataError(said)

        monkeypatch.setattr(Stored, "fetch", breaks)
    roles = {**ROLES, "sensitive": "ill", "drop_rest": True}
    frame = spark.read.parquet(str(people_path))
    with pytest.raises(sf.DataError, match=said):
        sf.publish(frame, "l-diversity(3)", to=store.address, **roles)
    assert store.names() == []
