"""A session whose sums over the records are computed on Spark's executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.engines.spark.starting import job_settings
from sfumato.errors import QueryError, UsageError
from sfumato.queries.session import Session
from sfumato.queries.spark.workers import SCHEMA, as_table, sums_of_files
from sfumato.queries.statements import RecordSums, added_up

if TYPE_CHECKING:
    from sfumato.release import Release


def _check_running(spark: Any) -> None:
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    if context is not None and context._jsc is None:
        raise UsageError(
            "The Spark session was stopped. Start another and open the release with it again."
        )


def _failed(text: str) -> QueryError:
    """What Spark says of a failed job, in one sentence.

    >>> _failed("An error occurred while calling o2.sql.\\n: java.io.X: no space.\\n\\tat …")
    QueryError('Spark could not answer: java.io.X: no space. Check the Spark session, ...')
    """
    if "No module named 'sfumato'" in text:
        return QueryError(
            "The Spark executors cannot import sfumato. Install the same version in the Python "
            "that PYSPARK_PYTHON names on every machine."
        )
    lines = [line.strip(": ") for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    reason = (told or ["no reason given"])[0].rstrip(".")[:500]
    return QueryError(
        f"Spark could not answer: {reason}. Check the Spark session, or leave the engine out."
    )


class SparkSums(Session):
    """Lets executors compute every sum over the records; the rest of the session is the local one.

    DuckDB does it there, beside the records, so that every question means what it means here.
    """

    def __init__(self, release: Release, spark: Any, threads: int | None = None) -> None:
        super().__init__(release, threads)
        _check_running(spark)
        self._spark = spark

    def sums(self, wanted: RecordSums) -> pa.Table:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        _check_running(self._spark)
        # refuses here what DuckDB would refuse there
        expected = self.run(wanted.no_lines).schema
        # a task costs a tenth of a second by itself: no more of them than run at once
        tasks = min(len(self.paths), self._parallel())
        numbers = self._spark.range(0, len(self.paths), 1, tasks)
        run = sums_of_files(self.paths, self.names, wanted.sql)
        try:
            with job_settings(self._spark):
                found = numbers.mapInArrow(run, SCHEMA).toArrow()
        except (PySparkException, Py4JError) as error:
            raise _failed(str(error)) from None
        problems = [text for text in found.column("problem").to_pylist() if text is not None]
        if problems:
            raise QueryError(problems[0])
        parts = pa.concat_tables([as_table(part.as_buffer()) for part in found.column("part")])
        names = [field.name for field in expected]
        whole = self.run(added_up(names, len(wanted.keys), "parts"), {"parts": parts})
        return whole.cast(expected)

    def _parallel(self) -> int:
        """How many tasks the cluster runs at once; Spark Connect does not tell."""
        context = getattr(self._spark, "_sc", None)
        return len(self.paths) if context is None else int(context.defaultParallelism)
