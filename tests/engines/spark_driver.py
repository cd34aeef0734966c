"""A Spark driver in a process of its own: publishes a table, and may lose a machine meanwhile.

python spark_driver.py MASTER TABLE RELEASE MECHANISM GUARANTEE [WORKER]: WORKER is the process id
of a worker of a standalone cluster that is killed, with its executors, while tasks run; where
RELEASE is in a store, as soon as a part of it is there. Parts have 4,000 rows then. `connect` as
the master is a Spark Connect server on this machine. Prints one line of JSON, with how many blocks
of a table the folders in SPARK_LOCAL_DIRS had at the most, and how many when it was over.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any


def session_of(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("sfumato cluster tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if master == "connect":
        builder = builder.remote("local[2]")
    else:
        builder = builder.master(master)
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            # nearly every task is run twice: as soon as one in ten is done
            "spark.speculation": "true",
            "spark.speculation.interval": "20ms",
            "spark.speculation.multiplier": "1.01",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.minTaskRuntime": "0ms",
        }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def kill_during_a_stage(session: Any, worker: int, release: str, told: dict[str, Any]) -> None:
    """Wait for the second job, which publishes: the first one counts."""
    import psutil

    from sfumato.storage import Stored

    tracker = session.sparkContext.statusTracker()
    began = time.monotonic()
    seen: set[int] = set()
    while time.monotonic() - began < 120:
        seen |= set(tracker.getActiveJobsIds())
        running = [
            stage
            for stage in tracker.getActiveStageIds()
            if (known := tracker.getStageInfo(stage)) and known.numActiveTasks
        ]
        begun = not release.startswith("s3:") or Stored.at(release).names()
        if len(seen) > 1 and running and begun:
            machine = psutil.Process(worker)
            for process in (machine, *machine.children(recursive=True)):
                process.kill()
            told["killed_during"] = running
            return
        time.sleep(0.005)


def kept_blocks() -> int:
    """Blocks of a kept frame that lie on disk."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "")
    return sum(1 for _ in Path(folder).rglob("rdd_*")) if folder else 0


def watch_blocks(told: dict[str, Any], over: threading.Event) -> None:
    while not over.wait(0.02):
        told["blocks_kept"] = max(told.get("blocks_kept", 0), kept_blocks())


def main() -> None:
    import sfumato as sf
    from sfumato.engines import spelling

    master, table, release, mechanism, guarantee, *worker = sys.argv[1:]
    if release.startswith("s3:"):
        spelling.ROW_GROUP = 1000
    session = session_of(master)
    session.conf.set("spark.sql.files.maxPartitionBytes", str(Path(table).stat().st_size // 8))
    frame = session.read.parquet(table)
    told: dict[str, Any] = {}
    over = threading.Event()
    watching = threading.Thread(target=watch_blocks, args=(told, over), daemon=True)
    watching.start()
    if worker:
        given = (session, int(worker[0]), release, told)
        threading.Thread(target=kill_during_a_stage, args=given, daemon=True).start()
    roles = {"quasi": "person,age,town", "sensitive": "ill", "drop": "name"}
    sf.publish(frame, guarantee, to=release, mechanism=mechanism, seed=5, **roles)
    told["blocks_left"] = kept_blocks()
    over.set()
    watching.join()
    sys.stdout.write(json.dumps(told) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
