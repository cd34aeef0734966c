"""Releases whose sensitive columns have buckets of their own, as the evaluator sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.columns import bucket_column
from sfumato.errors import QueryError
from sfumato.operators.apart import MOST_COMBINATIONS, ApartEstimator, ApartFit
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import FITS
from sfumato.operators.estimator import Estimator
from sfumato.operators.many_values import ESTIMATES
from sfumato.queries.bucket_table import BucketTable, bucket_table_of
from sfumato.queries.bucketed import leave_open
from sfumato.queries.sources import Shown, Source, integers
from sfumato.release import ApartRelease

if TYPE_CHECKING:
    from sfumato.queries.question import Question


class ApartSource(Source):
    """A record shows a bucket of every column, and each column's buckets list its values."""

    title = "A release of buckets apart"
    estimators = tuple(FITS)
    release: ApartRelease

    def shown(self, columns: Sequence[str]) -> list[str]:
        return [bucket_column(name) for name in columns]

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> Shown:
        found = [integers(shown[bucket_column(name)]) for name in columns]
        listed = [self._listed(name).shares.shape[0] for name in columns]
        kept = [(each >= 0) & (each < most) for each, most in zip(found, listed, strict=True)]
        return Shown(tuple(found), np.all(kept, axis=0))

    def _listed(self, column: str) -> BucketTable:
        return bucket_table_of(self.release.listing(column))

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        """Of one column that of its buckets; of several the product of their operators."""
        tables = [self._listed(column) for column in columns]
        if len(tables) == 1:
            return tables[0].estimator(name)
        combinations = math.prod(len(each.names) for each in tables)
        if combinations > MOST_COMBINATIONS:
            raise QueryError(
                f"The columns {', '.join(columns)} have {combinations:,} combinations of values, "
                f"and at most {MOST_COMBINATIONS:,} can be estimated from buckets that were dealt "
                "apart. Ask about fewer of them at once."
            )
        fit = self.session.remembered(
            ("apart", *columns), lambda: ApartFit([each.operator for each in tables])
        )
        return ApartEstimator(fit, [each.shares for each in tables], ESTIMATES[name])

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        if not question.sensitive:
            return answer
        tables = [self._listed(column) for column in question.sensitive]

        def confused() -> list[str]:
            return [each.names[code] for each in tables for code in each.operator.confused()]

        return leave_open(answer, aggregates, question.sensitive, confused)

    def uncompletable(self) -> str | None:
        return "its sensitive columns were dealt apart, and people are completed column by column"

    def scores(self, column: str, asked: FloatArray) -> Any:
        from scipy.sparse import csr_array

        return self._listed(column).shares @ csr_array(asked.T)

    def untestable(self) -> str | None:
        return None
