"""`--person` on Spark: the rows, the draws and the buckets are those of the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.datasets import hospital
from sfumato.engines.spark import engine
from sfumato.release import Release

ROWS = 2_000
ROLES = {
    "quasi": "row,age,sex,region,admission",
    "sensitive": "diagnosis",
    "person": "patient",
    "missing": "drop",
}
WAYS = {
    ("uniform", 2): "rho-privacy(0.1, 0.5)",
    ("partitioned", 1): "rho-privacy(0.2, 0.5)",
    ("optimal", 1): "beta-likeness(4)",
    ("local(min=100, columns=age)", 1): "l-diversity(2)",
}


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbered rows of patients with one to twenty stays, some without a diagnosis."""
    made = hospital(ROWS, seed=4, stays=20)
    missing = pa.array([row % 97 == 0 for row in range(ROWS)])
    place = made.schema.get_field_index("diagnosis")
    told = pa.compute.if_else(missing, None, made["diagnosis"].combine_chunks())
    made = made.set_column(place, "diagnosis", told).append_column("row", pa.array(range(ROWS)))
    path = tmp_path_factory.mktemp("stays") / "stays.parquet"
    pq.write_table(made, path, row_group_size=300)
    return path


@pytest.fixture
def frame(spark: Any, stays: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rows in several partitions, to be published in several piles."""
    monkeypatch.setattr(engine, "pile_count", lambda rows: 2)
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(stays.stat().st_size // 4))
    yield spark.read.parquet(str(stays))
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


def by_row(release: Path) -> dict[int, dict[str, Any]]:
    parts = sorted((release / "records").glob("*.parquet")) or [release / "records.parquet"]
    rows = pa.concat_tables([pq.read_table(part) for part in parts]).to_pylist()
    found = {row["row"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(
    ("way", "rows"),
    [
        pytest.param(way, rows, marks=[] if rows > 1 else [pytest.mark.slow], id=f"{way}-{rows}")
        for way, rows in WAYS
    ],
)
def test_every_row_is_published_as_by_the_local_engine(
    frame: Any, stays: Path, tmp_path: Path, way: str, rows: int
) -> None:
    assert frame.rdd.getNumPartitions() >= 4
    asked = {"mechanism": way, "seed": 7, "rows_per_person": rows, **ROLES}
    sf.publish(stays, WAYS[way, rows], to=tmp_path / "here", **asked)
    done = sf.publish(frame, WAYS[way, rows], to=tmp_path / "there", **asked)
    local = Release(tmp_path / "here").manifest
    assert done.manifest.person == local.person
    assert done.manifest.person is not None
    assert done.manifest.person.suppressed > 0
    assert done.manifest.plan == local.plan
    assert done.manifest.statement == local.statement
    assert (done.manifest.rows, done.manifest.suppressed) == (local.rows, local.suppressed)
    assert by_row(tmp_path / "there") == by_row(tmp_path / "here")
    sensitive = Path("sensitive.parquet")
    if "buckets" in local.plan:
        assert pq.read_table(tmp_path / "there" / sensitive).equals(
            pq.read_table(tmp_path / "here" / sensitive)
        )
    shown = b"".join(path.read_bytes() for path in (tmp_path / "there").rglob("*.parquet"))
    assert b"patient" not in shown


def test_a_release_from_counts_is_audited_with_its_receipt(
    frame: Any, stays: Path, tmp_path: Path
) -> None:
    roles = {"quasi": "age,sex", "sensitive": "diagnosis", "person": "patient", "missing": "drop"}
    roles["drop"] = "row,region,admission"
    there, receipt = tmp_path / "there", tmp_path / "receipt"
    done = sf.publish(frame, "reconstruction-privacy(0.3, 0.3)", to=there, receipt=receipt, **roles)
    assert done.manifest.mechanism == "sps"
    assert done.rows == ROWS
    verdict = sf.audit(stays, there, receipt=receipt)
    assert verdict.holds, verdict


@pytest.mark.slow
def test_under_a_key_file_the_same_rows_whatever_the_partitions(
    frame: Any, stays: Path, tmp_path: Path
) -> None:
    key = tmp_path / "steward.key"
    key.write_text("5a0123456789bcde" * 4)
    asked = {"mechanism": "uniform", "key_file": key, "key": "row", "rows_per_person": 2, **ROLES}
    asked["quasi"] = "age,sex,region,admission"
    promise = "rho-privacy(0.1, 0.5)"
    sf.publish(stays, promise, to=tmp_path / "here", **asked)
    sf.publish(frame.repartition(3, "age"), promise, to=tmp_path / "there", **asked)
    shown = []
    for place in ("here", "there"):
        records = pa.concat_tables(map(pq.read_table, Release(tmp_path / place).records))
        shown.append(sorted(map(repr, records.to_pylist())))
    assert shown[0] == shown[1]


def test_a_row_of_nobody_is_refused(frame: Any, spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    nobody = frame.withColumn(
        "patient", functions.when(functions.col("row") != 5, functions.col("patient"))
    )
    with pytest.raises(sf.DataError, match=r"'patient' .* is missing in 1 rows"):
        sf.publish(nobody, "l-diversity(3)", to=tmp_path / "release", **ROLES)
    assert list(tmp_path.iterdir()) == []
