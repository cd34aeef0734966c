"""Questions answered on Spark: the sums over the records there, everything else here.

DuckDB runs on the executors, beside the records (`workers`), so every function means what it means
here. The same sums in Spark's own SQL cost three to four times as much (`benchmarks.spark_query`).
What comes back is small, and goes through the same DuckDB as any other answer.
"""

from sfumato.queries.spark.session import SparkSums

__all__ = ["SparkSums"]
