"""Spark itself: starting it, its settings for our jobs, its errors in our words."""

from __future__ import annotations

import glob
import os
import pickle
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato import errors
from sfumato.errors import DataError, SfumatoError, UsageError
from sfumato.table.spark import SparkSource

_ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"


def spark_session() -> Any:
    """The running Spark session, or a new one: on this machine unless Spark's settings say more."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            "The Spark engine needs pyspark. Install it with: pip install 'sfumato[spark]'."
        ) from None
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    if not _java_found() and "SPARK_REMOTE" not in os.environ:
        raise UsageError(
            "The Spark engine needs Java 17 or newer, and there is none: install it, or set "
            "JAVA_HOME to where it is."
        )
    # executors would look for 'python3' otherwise, which need not know sfumato
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("sfumato").getOrCreate()
    if session.conf.get("spark.log.level", None) is None and hasattr(session, "_sc"):
        session.sparkContext.setLogLevel("OFF")  # what fails, our own message says
    return session


def _java_found() -> bool:
    home = os.environ.get("JAVA_HOME")
    return (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None


@contextmanager
def job_settings(session: Any) -> Iterator[None]:
    """Spark as our jobs want it, and afterwards as it was."""
    before = session.conf.get(_ROWS_AT_ONCE, None)
    context = getattr(session, "_sc", None)
    python = None if context is None else context.pythonExec
    session.conf.set(_ROWS_AT_ONCE, str(1 << 16))
    if context is not None and context.master.startswith("local") and not _python_chosen(context):
        context.pythonExec = sys.executable
    try:
        with warnings.catch_warnings():
            # Spark mentions pandas, which nothing here uses
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
            yield
    finally:
        if context is not None:
            context.pythonExec = python
        if before is None:
            session.conf.unset(_ROWS_AT_ONCE)
        else:
            session.conf.set(_ROWS_AT_ONCE, before)


def _python_chosen(context: Any) -> bool:
    return "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")


def open_files(paths: Sequence[str], label: str) -> SparkSource:
    """Parquet files by path, glob or address, as a table on Spark."""
    for path in paths:
        if Path(path).suffix.lower() in (".csv", ".tsv", ".txt", ".arrow", ".feather", ".ipc"):
            raise UsageError(
                f"The Spark engine reads Parquet; {path!r} is something else. Convert it first, "
                "publish it with --engine local, or give sf.publish a DataFrame that you have read."
            )
    session = spark_session()
    with spark_errors(label):
        # one after the other, so that partitions follow the files: a record's place in the table
        # is the one that it has on one machine
        frames = [session.read.parquet(path) for path in _files(paths)]
        return SparkSource(reduce(lambda one, other: one.union(other), frames), label)


def _files(paths: Sequence[str]) -> list[str]:
    """Paths on this machine by name, in the order in which the local engine reads them."""
    files = []
    for path in paths:
        pattern = glob.has_magic(path) and not Path(path).exists()
        files += (sorted(glob.glob(path)) if pattern else []) or [path]  # noqa: PTH207
    return files


@contextmanager
def kept_on_disk(frame: Any) -> Iterator[Any]:
    """The frame, on the executors' disks meanwhile."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist(blocking=True)


def partition() -> int:
    """The number of the partition that this task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def gathered(frame: Any, told: Callable[[Iterator[pa.RecordBatch]], Any]) -> Iterator[Any]:
    """What a function tells of each partition, one after the other."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(told(batches))])], names=["told"])

    with made_on_disk(frame.mapInArrow(run, "told binary")) as made:
        for row in made.toLocalIterator():
            yield pickle.loads(row.told)


@contextmanager
def made_on_disk(frame: Any) -> Iterator[Any]:
    """The frame, made at once: partitions that are fetched one by one would also be made so."""
    with kept_on_disk(frame) as kept:
        kept.count()
        yield kept


@contextmanager
def spark_errors(label: str) -> Iterator[None]:
    """Whatever Spark throws becomes one clear sentence; our own errors come back as they were."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translated(str(error), label) from None


def translated(text: str, label: str) -> SfumatoError:
    """The error behind what Spark says of a failed job.

    >>> translated("… sfumato.errors.DataError: Column 'a' changed.", "people")
    DataError("Column 'a' changed.")
    """
    ours = re.search(r"sfumato\.errors\.(DataError|UsageError): (.+)", text)
    if ours:
        kind: type[SfumatoError] = getattr(errors, ours[1])
        return kind(ours[2].strip())
    if "No module named 'sfumato'" in text:
        return UsageError(
            "The Spark executors cannot import sfumato. Install the same version in the Python "
            "that PYSPARK_PYTHON names on every machine."
        )
    if "PYTHON_VERSION_MISMATCH" in text:
        return UsageError(
            "The Spark executors run another Python than this one. Set PYSPARK_PYTHON to the same "
            "version on every machine."
        )
    # the last line of a traceback in a task says more than what Java says around it
    raised = re.findall(r"^(\w[\w.]*(?:Error|Exception)(?::.*)?)$", text, re.MULTILINE)
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = (raised[-1:] or causes[-1:] or lines[:1] or ["no reason given"])[0].rstrip(".")
    return DataError(f"Spark failed on {label}: {reason[:500]}.")
