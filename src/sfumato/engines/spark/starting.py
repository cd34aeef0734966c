"""Starting Spark, and its settings for our jobs; nothing in here knows of a table."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError

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
