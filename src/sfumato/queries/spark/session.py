"""A session whose sums over the records are computed by Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.engines.spark.starting import job_settings
from sfumato.errors import QueryError, UsageError
from sfumato.queries.session import Session
from sfumato.queries.spark.translate import Translator
from sfumato.queries.spark.types import Untranslatable, column_type
from sfumato.queries.spark.workers import SCHEMA, as_table, sums_of_files
from sfumato.queries.sums import RecordSums, group_by

if TYPE_CHECKING:
    from sfumato.release import Release

_SETTINGS = {  # of a Spark session of our own, whatever those of the caller's are
    "spark.sql.ansi.enabled": "true",  # a number that does not fit is an error, never another one
    "spark.sql.caseSensitive": "true",  # `age` and `Age` are two columns
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PySpark's log of failed statements: what they fail at, DuckDB is asked again."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


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
    """Asks Spark for every sum over the records; the rest of the session is the local one."""

    def __init__(self, release: Release, spark: Any, threads: int | None = None) -> None:
        super().__init__(release, threads)
        _check_running(spark)
        self._spark = spark.newSession()
        for name, value in _SETTINGS.items():
            self._spark.conf.set(name, value)
        self._numbers = itertools.count()

    def counted(self, sums: RecordSums, tables: dict[str, pa.Table]) -> str:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        _check_running(self._spark)
        expected = self.run(f"SELECT * FROM ({sums.sql}) LIMIT 0").schema
        with job_settings(self._spark), _quiet():
            try:
                found = self._by_spark(sums, expected)
            except (Untranslatable, PySparkException, Py4JError, pa.ArrowException):
                try:
                    found = self._by_workers(sums, expected)
                except (PySparkException, Py4JError) as error:
                    raise _failed(str(error)) from None
        name = f"sums_{len(tables)}"
        tables[name] = found
        return f"SELECT * FROM {name}"

    # -- Spark's own SQL -----------------------------------------------------------------------

    def _by_spark(self, sums: RecordSums, expected: pa.Schema) -> pa.Table:
        own = {name: f"`c{place}`" for place, name in enumerate(self.names.values())}
        translator = Translator(own, self.types, self._values)
        view = f"records_{next(self._numbers)}"
        text = translator.select(sums, view)
        self._records(translator.used).createTempView(view)
        try:
            return self._spark.sql(text).toArrow().cast(expected)
        finally:
            self._spark.catalog.dropTempView(view)

    def _records(self, used: set[str]) -> Any:
        """The used columns, as `c0, c1 …`, so that no name can mean anything."""
        from pyspark.sql.types import StructField, StructType

        chosen = [
            (place, name) for place, (name, own) in enumerate(self.names.items()) if own in used
        ]
        fields = [
            StructField(name, column_type(self.schema.field(name).type)) for _, name in chosen
        ]
        reader = self._spark.read.schema(StructType(fields)).option("__globPaths__", "false")
        frame = reader.option("recursiveFileLookup", "true").parquet(
            *(f"file://{path}" for path in self.paths)  # Hadoop does not want them quoted
        )
        return frame.toDF(*(f"c{place}" for place, _ in chosen))

    def _values(self, expressions: list[str]) -> list[Any]:
        """The values of expressions without columns."""
        found = self.run(f"SELECT {', '.join(f'{e} AS v{n}' for n, e in enumerate(expressions))}")
        return [column[0].as_py() for column in found.columns]

    # -- DuckDB beside the records -------------------------------------------------------------

    def _by_workers(self, sums: RecordSums, expected: pa.Schema) -> pa.Table:
        run = sums_of_files(self.paths, self.names, sums.sql)
        numbers = self._spark.range(0, len(self.paths), 1, len(self.paths))
        found = numbers.mapInArrow(run, SCHEMA).toArrow()
        problems = [text for text in found.column("problem").to_pylist() if text is not None]
        if problems:
            raise QueryError(problems[0])
        parts = pa.concat_tables([as_table(part.as_buffer()) for part in found.column("part")])
        names = [field.name for field in expected]
        keys, added = names[: len(sums.keys)], names[len(sums.keys) :]
        listed = [*keys, *(f"sum({name}) AS {name}" for name in added)]
        whole = self.run(
            f"SELECT {', '.join(listed)} FROM parts{group_by(len(keys))}", {"parts": parts}
        )
        return whole.cast(expected)
