"""Spark as clusters have it: a standalone master, two workers, one of them lost; Spark Connect.

All as processes on this machine, ended by their ids. It takes a minute, so `make test-all` runs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines import spelling
from sfumato.storage import Stored
from tests.s3 import s3_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark cluster")]

DRIVER = Path(__file__).with_name("spark_driver.py")
ROLES = {"quasi": "person,age,town", "sensitive": "ill", "drop": "name"}
ROWS = 40_000
# short runs: what the better compiler finds out about a program comes too late
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, eq=False)
class Cluster:
    """A standalone master and its workers, which can be ended one by one."""

    master: str
    workers: list[subprocess.Popen[bytes]]


def spark_home() -> Path:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none")
    return Path(pyspark.__file__).parent


def environment(home: Path) -> dict[str, str]:
    return os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_LAUNCHER_OPTS": QUICK,
        "PYSPARK_PYTHON": sys.executable,
    }


def started(home: Path, log: Path, sign: str, *given: str) -> subprocess.Popen[bytes]:
    """A daemon of Spark, once its log has the sign that it is there."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *given],
            stdout=out, stderr=out, env=environment(home),
        )  # fmt: skip
    for _ in range(600):
        if re.search(sign, log.read_text()):
            return process
        if process.poll() is not None:
            break
        time.sleep(0.1)
    end(process)
    raise RuntimeError(log.read_text()[-2000:])


def end(process: subprocess.Popen[bytes]) -> None:
    """The process and what it started, by their ids."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        for each in (*parent.children(recursive=True), parent):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait(30)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    home = spark_home()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, running = f"spark://127.0.0.1:{port}", []
    try:
        running.append(
            started(
                home, tmp_path / "master.log", "New state: ALIVE",
                "org.apache.spark.deploy.master.Master",
                "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0",
            )
        )  # fmt: skip
        for number in range(2):
            worker = started(
                home, tmp_path / f"worker{number}.log", "Successfully registered with master",
                "org.apache.spark.deploy.worker.Worker", address,
                "--cores", "1", "--memory", "768m", "--webui-port", "0",
                "--work-dir", str(tmp_path / f"work{number}"),
            )  # fmt: skip
            running.append(worker)
        yield Cluster(address, running[1:])
    finally:
        for process in reversed(running):
            end(process)


@pytest.fixture(scope="module")
def people_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(2)
    made = pa.table(
        {
            "person": np.arange(ROWS),
            "age": rng.integers(18, 90, ROWS).astype(np.int16),
            "town": np.array(["Bergen", "Oslo", "Ås", "Tromsø"])[rng.integers(0, 4, ROWS)],
            "ill": np.array(list("abcdefgh"))[np.minimum(rng.geometric(0.25, ROWS), 8) - 1],
            "name": [f"name {number}" for number in range(ROWS)],
        }
    )
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(made, path, row_group_size=ROWS // 16)  # one file: partitions are in its order
    return path


def published(
    master: str, people: Path, to: Path | str, mechanism: str, promise: str, *worker: str
) -> dict[str, Any]:
    """What a driver in a process of its own says."""
    home = spark_home()
    done = subprocess.run(
        [sys.executable, str(DRIVER), master, str(people), str(to), mechanism, promise, *worker],
        capture_output=True, text=True, env=environment(home), timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def by_person(release: Path) -> dict[int, dict[str, Any]]:
    rows = pq.read_table(release / "records").to_pylist()
    found = {row["person"]: row for row in rows}
    assert len(found) == len(rows) == ROWS  # nobody lost, nobody twice
    return found


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store that the driver and the executors reach; parts of a release have 4,000 rows."""
    monkeypatch.setattr(spelling, "ROW_GROUP", 1000)
    with s3_server("clinic") as address:
        yield address


@pytest.mark.parametrize("promise", ["l-diversity(3)", "rho-privacy(0.2, 0.5)"])
def test_a_worker_that_is_lost_while_parts_are_put_changes_no_byte(
    bucket: str, cluster: Cluster, people_path: Path, tmp_path: Path, promise: str
) -> None:
    """Two machines, every task run twice where it can be, and one machine killed meanwhile."""
    mechanism = "optimal" if promise.startswith("l-") else "uniform"
    here, store = tmp_path / "here", Stored.at(f"{bucket}/there")
    sf.publish(sf.read(people_path, **ROLES), promise, to=here, mechanism=mechanism, seed=5)
    lost = cluster.workers[0]
    told = published(cluster.master, people_path, store.address, mechanism, promise, str(lost.pid))
    assert told["killed_during"], "the machine was to be lost while parts were put"
    lost.wait(30)
    files = [path for path in here.rglob("*") if path.is_file()]
    assert store.names() == sorted(path.relative_to(here).as_posix() for path in files)
    for name in store.names():
        store.fetch(name, tmp_path / "part")
        assert (tmp_path / "part").read_bytes() == (here / name).read_bytes(), name
    # of the raw table nothing waits on the machine that lives on
    assert [path for path in (tmp_path / "work1").rglob("*") if path.suffix == ".data"] == []


def test_spark_connect_publishes_as_the_local_engine(
    people_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    promise = "rho-privacy(0.2, 0.5)"
    here = sf.read(people_path, **ROLES)
    sf.publish(here, promise, to=tmp_path / "here", mechanism="uniform", seed=5)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    told = published("connect", people_path, tmp_path / "there", "uniform", promise)
    # Spark Connect shows no plans, so the raw table waits on disk: while it is read, no longer
    assert told["blocks_kept"] > 0
    assert told["blocks_left"] == 0
    assert by_person(tmp_path / "there") == by_person(tmp_path / "here")
