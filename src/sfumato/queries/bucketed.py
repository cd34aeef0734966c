"""Bucketed releases as the evaluator sees them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import list_some
from sfumato.draws import IntArray
from sfumato.errors import SingularOperator, WeakPromiseWarning
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimator
from sfumato.queries.bucket_table import BucketTable, bucket_table_of
from sfumato.queries.question import ENDS
from sfumato.queries.sources import QuestionSource, ShownLines, integers
from sfumato.release import BucketedRelease

if TYPE_CHECKING:
    from sfumato.queries.question import Question


class BucketedSource(QuestionSource):
    """A record shows its bucket, and a bucket lists values."""

    title = "A bucketed release"
    estimators = ("shrunk", "inverse")
    deals_together = True
    release: BucketedRelease

    @property
    def holds_largest(self) -> bool:  # type: ignore[override]
        """Where people were mixed block by block it was seen to hold in 88 to 91 of 100 cases."""
        return self.release.tree is None

    def shown(self, columns: Sequence[str]) -> list[str]:
        return ["bucket"] if columns else []

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> ShownLines:
        buckets = integers(shown["bucket"])
        listed = self._listed(columns).shares.shape[0]
        return ShownLines((buckets,), (buckets >= 0) & (buckets < listed))

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        return self._listed(columns).estimator(name)

    def _listed(self, columns: Sequence[str]) -> BucketTable:
        """Of the columns that are asked for, the others added up: combinations of all columns are
        more than buckets can tell apart. People with one value count as spread alike over buckets,
        whatever they have in the other columns."""
        return bucket_table_of(self.release, columns)

    def uncompletable(self) -> str | None:
        return None

    def untestable(self) -> str | None:
        if self.release.fakes:
            return "its buckets list fakes, which may have been chosen to fit the people in them"
        return None

    def scores(self, column: str, asked: FloatArray) -> Any:
        from scipy.sparse import csr_array

        return bucket_table_of(self.release, [column]).shares @ csr_array(asked.T)

    def mixed_within(self, symbols: IntArray) -> IntArray | None:
        if self.release.tree is None:
            return None
        return np.searchsorted(self.release.first_buckets, symbols, side="right") - 1

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        if not question.sensitive:
            return answer
        table = self._listed(question.sensitive)
        return leave_open(answer, aggregates, table.columns, table.confused)


def leave_open(
    answer: pa.Table,
    aggregates: Sequence[str],
    columns: Sequence[str],
    confused: Callable[[], list[str]],
) -> pa.Table:
    """What values that always stand together would have by themselves is left open.

    `confused` names the values that the buckets of the columns cannot tell apart.
    """
    missing = {name: pc.is_nan(answer.column(name)) for name in aggregates}
    if not any(pc.any(flags).as_py() for flags in missing.values()):
        return answer
    message = (
        f"The buckets cannot tell some values of {' and '.join(map(repr, columns))} apart, because "
        f"they nearly always stand together: {list_some(confused(), 50)}. They have no unbiased "
        "estimate one by one: ask for those that stand together by IN, or use the estimator "
        "'shrunk'."
    )
    if all(pc.all(flags).as_py() for flags in missing.values()):
        raise SingularOperator(message)
    warnings.warn(message, WeakPromiseWarning, stacklevel=6)
    for name, unknown in missing.items():
        for column in (name + end for end in ENDS):
            index = answer.column_names.index(column)
            empty = pa.nulls(len(answer), answer.column(column).type)
            kept = pc.if_else(pc.fill_null(unknown, False), empty, answer.column(column))
            answer = answer.set_column(index, column, kept)
    return answer
