"""Publishing on Spark: the same releases as here, whatever happens to a task."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.spark import engine, worker
from sfumato.engines.spark.sealing import Sealed
from sfumato.release import Release

ROWS = 6_000
WAYS = {
    "uniform": "rho-privacy(0.2, 0.5)",
    "fine-grain": "fine-rho-privacy(theta=3)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "optimal": "f-privacy(theta=3)",
    "optimal(objective=multi-size)": "l-diversity(3)",
    "optimal(objective=two-size)": "l-diversity(3)",
    "local(min=600, columns=age;town)": "l-diversity(3)",
}
ROLES = {"quasi": "person,age,town", "sensitive": "ill", "drop": "name"}
KEYED = {"quasi": "person,age,town", "sensitive": "ill", "key": "name"}


def people(rows: int = ROWS) -> pa.Table:
    """People with a number, so that a release can be told apart row by row."""
    rng = np.random.default_rng(1)
    towns = np.array(["Bergen", "Oslo", "Ås", "Tromsø"])
    return pa.table(
        {
            "person": pa.array(np.arange(rows)),
            "age": pa.array(rng.integers(18, 90, rows).astype(np.int16)),
            "town": pa.array(towns[rng.integers(0, 4, rows)], mask=rng.random(rows) < 0.01),
            "ill": pa.array(
                np.array(list("abcdefgh"))[np.minimum(rng.geometric(0.25, rows), 8) - 1]
            ),
            "name": pa.array([f"name {number}" for number in range(rows)]),
        }
    )


@pytest.fixture(scope="session")
def people_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(people(), path, row_group_size=500)
    return path


@pytest.fixture
def frame(spark: Any, people_path: Path) -> Any:
    """The people in several partitions."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(people_path.stat().st_size // 5))
    opened = spark.read.parquet(str(people_path))
    yield opened
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


def records(release: Path) -> pa.Table:
    return pq.read_table(release / "records")


def by_person(release: Path) -> dict[int, dict[str, Any]]:
    rows = records(release).to_pylist()
    found = {row["person"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def hashes(release: Path) -> dict[str, str]:
    described = json.loads((release / "manifest.json").read_text("utf-8"))
    return {name: entry["sha256"] for name, entry in described["files"].items()}


# -- the same as the local engine -----------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_every_person_is_published_as_by_the_local_engine(
    frame: Any, people_path: Path, tmp_path: Path, way: str
) -> None:
    assert frame.rdd.getNumPartitions() >= 4
    here = sf.read(people_path, **ROLES)
    sf.publish(here, WAYS[way], to=tmp_path / "here", mechanism=way, seed=7)
    done = sf.publish(frame, WAYS[way], to=tmp_path / "there", mechanism=way, seed=7, **ROLES)
    local = Release(tmp_path / "here").manifest
    assert done.manifest.columns == local.columns
    assert done.manifest.plan == local.plan
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")


def test_files_of_unlike_sizes_are_one_table_on_every_engine(spark: Any, tmp_path: Path) -> None:
    """Spark would take the largest file first: records keep the places that they have here."""
    whole, ends = people(), [0, 700, 4_100, ROWS]
    (tmp_path / "files").mkdir()
    for number, (start, end) in enumerate(pairwise(ends)):
        pq.write_table(whole.slice(start, end - start), tmp_path / f"files/{number}.parquet")
    for engine_name in ("local", "spark"):
        sf.publish(
            str(tmp_path / "files" / "*.parquet"), WAYS["optimal"], to=tmp_path / engine_name,
            mechanism="optimal", engine=engine_name, seed=4, **ROLES,
        )  # fmt: skip
    assert hashes(tmp_path / "spark") == hashes(tmp_path / "local")
    texts = [(tmp_path / name / "manifest.json").read_bytes() for name in ("local", "spark")]
    assert texts[0] == texts[1]


def test_cells_give_what_the_local_engine_makes_of_them(
    frame: Any, people_path: Path, tmp_path: Path
) -> None:
    roles = {"quasi": "town", "sensitive": "ill", "drop": "person,age,name"}
    promise = "reconstruction-privacy(0.3, 0.3)"
    sf.publish(people_path, promise, to=tmp_path / "here", seed=3, **roles)
    done = sf.publish(frame, promise, to=tmp_path / "there", seed=3, **roles)
    assert done.manifest.mechanism == "sps"
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")


def test_a_key_file_publishes_a_person_alike_on_every_engine(
    frame: Any, people_path: Path, tmp_path: Path
) -> None:
    """A ledger that has room for one draw of everybody lets them all pass."""
    key, roles = tmp_path / "steward.key", {**KEYED, "domain": {"ill": "a,b,c,d,e,f,g,h"}}
    key.write_text("5a0123456789bcde" * 4)
    given = {"mechanism": "uniform", "key_file": key, "ledger": tmp_path / "ledger", **roles}
    sf.publish(people_path, WAYS["uniform"], to=tmp_path / "a", **given)
    moved = frame.repartition(3, "age")
    for place in ("b", "c"):
        sf.publish(moved, WAYS["uniform"], to=tmp_path / place, **given)
        assert by_person(tmp_path / place) == by_person(tmp_path / "a")


def test_types_missing_values_bins_and_several_columns(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = 900
    table = pa.table(
        {
            "a.b": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.1),
            "born": pa.array(rng.integers(0, 500, rows).astype(np.int32)).cast(pa.date32()),
            "score": pa.array(np.where(rng.random(rows) < 0.1, np.nan, rng.random(rows))),
            "seen": pa.array(rng.integers(0, 9, rows) * 86_400_000_000).cast(
                pa.timestamp("us", "UTC")
            ),
            "cost": pa.array(rng.random(rows) * 100, mask=rng.random(rows) < 0.05),
            "ill": pa.array(np.array(list("xyz"))[rng.integers(0, 3, rows)]),
        }
    )
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=200)
    frame = spark.read.parquet(str(tmp_path / "table.parquet"))
    for missing in ("value", "drop"):
        roles: dict[str, Any] = {
            "quasi": ["a.b", "born", "score", "seen"],
            "sensitive": ["cost", "ill"],
            "bins": {"cost": [0, 30, 60, 100]},
            "domain": {"a.b": "0..20", "ill": "w,x,y,z"},
            "missing": missing,
        }
        promise = "rho-privacy(0.4, 0.8)"
        for place, origin in ((f"here-{missing}", tmp_path / "table.parquet"), (missing, frame)):
            sf.publish(origin, promise, to=tmp_path / place, mechanism="uniform", seed=1, **roles)
        here = Release(tmp_path / f"here-{missing}").manifest
        there = Release(tmp_path / missing).manifest
        assert there.columns == here.columns
        assert there.caveats == here.caveats
        one, other = (records(tmp_path / place) for place in (f"here-{missing}", missing))
        assert one.schema == other.schema
        assert list(map(repr, one.to_pylist())) == list(map(repr, other.to_pylist()))


def test_a_release_from_spark_keeps_its_promise(frame: Any, tmp_path: Path) -> None:
    """By the checks, and made again from its receipt, part by part."""
    table = sf.read(frame, **ROLES)
    release, receipt = tmp_path / "release", tmp_path / "receipt"
    sf.publish(table, WAYS["splu"], to=release, mechanism="splu", receipt=receipt)
    assert sf.audit(table, release).holds
    verdict = sf.audit(frame, release, receipt=receipt)
    assert verdict.holds, verdict


# -- whatever happens to a task -------------------------------------------------------------------


def disturbed(
    make: Callable[[Any], Any], marker: Path, harm: Callable[[], None]
) -> Callable[[Any], Any]:
    """The task's function, harmed once on partition 1, after it has given something."""

    def publisher(work: Any) -> Any:
        inner = make(work)

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            number = TaskContext.get().partitionId()
            for given in inner(batches):
                yield given
                if number == 1 and not marker.exists():
                    marker.touch()
                    harm()

        return run

    return publisher


def kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail_task() -> None:
    raise RuntimeError("injected")


@pytest.mark.parametrize(("harm", "way"), [(kill_worker, "splu"), (fail_task, "optimal")])
def test_a_task_that_runs_again_gives_the_same(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Any, way: str
) -> None:
    sf.publish(frame, WAYS[way], to=tmp_path / "calm", mechanism=way, seed=5, **ROLES)
    marker = tmp_path / "harmed"
    monkeypatch.setattr(worker, "publisher", disturbed(worker.publisher, marker, harm))
    sf.publish(frame, WAYS[way], to=tmp_path / "harmed-once", mechanism=way, seed=5, **ROLES)
    assert marker.exists()
    assert hashes(tmp_path / "harmed-once") == hashes(tmp_path / "calm")
    assert sorted(by_person(tmp_path / "calm")) == list(range(ROWS))  # nobody lost, nobody twice


def test_a_job_that_fails_leaves_nothing(
    frame: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    leftovers: Callable[[Path], list[str]],
) -> None:
    def publisher(work: Any) -> Callable[[Any], Iterator[Any]]:
        def run(batches: Any) -> Iterator[Any]:
            raise RuntimeError("this machine has no luck")
            yield

        return run

    monkeypatch.setattr(worker, "publisher", publisher)
    with pytest.raises(sf.DataError, match="this machine has no luck") as failed:
        sf.publish(frame, WAYS["uniform"], to=tmp_path / "deep" / "release", seed=5, **ROLES)
    assert "\n" not in str(failed.value)
    assert leftovers(tmp_path) == []


# -- tables that do not hold still ----------------------------------------------------------------


def test_other_partitions_in_the_second_pass_are_noticed(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered = engine.numbered
    monkeypatch.setattr(
        engine, "numbered", lambda frame, columns: numbered(frame.repartition(3, "q1"), columns)
    )
    with pytest.raises(sf.DataError, match="changed while it was being published"):
        sf.publish(frame, WAYS["splu"], to=tmp_path / "release", **ROLES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_values_that_were_not_there_a_moment_ago_are_noticed(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value without a code must not become a missing one."""
    from pyspark.sql import functions

    monkeypatch.setattr(engine, "kept_on_disk", contextlib.nullcontext)
    fresh = functions.udf(lambda age: os.urandom(4).hex())
    drawn = frame.withColumn("town", fresh("age"))
    with pytest.raises(sf.DataError, match="changed while it was being published"):
        sf.publish(drawn, WAYS["uniform"], to=tmp_path / "release", mechanism="uniform", **ROLES)
    assert list(tmp_path.iterdir()) == []


def test_a_frame_that_is_no_scan_is_held_still(frame: Any, spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    drawn = frame.withColumn("age", (functions.rand() * 80).cast("int"))
    joined = drawn.join(frame.groupBy("town").count(), "town").drop("count")
    sf.publish(joined, WAYS["splu"], to=tmp_path / "release", mechanism="splu", **ROLES)
    assert Release(tmp_path / "release").rows > 5_000
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


# -- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["uniform", "splu"])
def test_no_file_of_spark_holds_the_key(
    frame: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    kept: list[bytes] = []

    class Unclosed(Sealed[Any]):
        def __init__(self, value: Any, session: Any = None) -> None:
            super().__init__(value, session)
            kept.extend([self._key, self._key.hex().encode()])

        def close(self) -> None:
            """Leave what it wrote where it is, to be looked at."""

    monkeypatch.setattr(engine, "Sealed", Unclosed)
    monkeypatch.setattr("sfumato.engines.spark.sealing._INSIDE", 100)  # so that Spark writes a file
    sf.publish(frame, WAYS[way], to=tmp_path / "release", mechanism=way, seed=23, **ROLES)
    secret = hashlib.sha256(b"sfumato seed 23").digest()
    folder = Path(spark.conf.get("spark.local.dir"))
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert any("broadcast" in str(path) or "pyspark" in str(path) for path in written)
    for path in written:
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # Spark tidies up at times of its own
            continue
        assert not any(hidden in content for hidden in (secret, secret.hex().encode(), *kept))


def test_a_large_plan_leaves_the_function_small(spark: Any) -> None:
    from pyspark.cloudpickle import dumps

    sealed = Sealed(os.urandom(1 << 20), spark)
    try:
        assert len(dumps(worker.publisher(sealed))) < 1 << 16
        assert repr(sealed) == "<Sealed>"
    finally:
        spark.sparkContext._pickled_broadcast_vars.clear()  # no job follows
        sealed.close()


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"mechanism": "heterogeneous"}, "all records at once.*local.*optimal buckets"),
        ({"mechanism": "burel"}, "all records at once"),
        ({"person": "name", "drop": ()}, "one row of each person"),
        ({"engine": "dask"}, "'engine' must be one of local, spark"),
    ],
)
def test_what_spark_cannot_do_is_refused(
    frame: Any, tmp_path: Path, wish: dict[str, Any], said: str
) -> None:
    given = {"mechanism": "optimal"} | wish
    with pytest.raises(sf.UsageError, match=f"(?s){said}"):
        sf.publish(frame, "beta-likeness(2)", to=tmp_path / "release", **{**ROLES, **given})
    assert list(tmp_path.iterdir()) == []


def test_wrong_tables_are_told_as_by_the_local_engine(frame: Any, tmp_path: Path) -> None:
    promise, to = WAYS["uniform"], tmp_path / "release"
    with pytest.raises(sf.DataError, match="has no rows"):
        sf.publish(frame.limit(0), promise, to=to, **ROLES)
    twice = frame.union(frame.limit(5))
    with pytest.raises(sf.DataError, match=r"'name' .* repeats in 5 rows"):
        sf.publish(twice, promise, to=to, **KEYED)
    with pytest.raises(sf.DataError, match="outside the stated domain"):
        sf.publish(frame, promise, to=to, domain={"ill": "a,b"}, **ROLES)
    with pytest.raises(sf.DataError, match="values outside its stated domain"):
        sf.publish(frame, promise, to=to, domain={"age": "20..30"}, **ROLES)
    assert list(tmp_path.iterdir()) == []
