"""Questions answered on Spark: the sums over the records there, everything else here.

`translate` writes the sums in Spark's SQL where that surely means what DuckDB's means; `workers`
lets DuckDB run beside the records where it does not. What comes back is small, and goes through the
same DuckDB as any other answer.
"""

from sfumato.queries.spark.session import SparkSums

__all__ = ["SparkSums"]
