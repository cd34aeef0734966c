"""Answers from bucketed releases: quasi columns stand untouched, values are shared by buckets.

Three steps. DuckDB counts the records that satisfy the quasi conditions by quasi keys and bucket
and lays the buckets' shares beside them: what each *class* of records shows of every value. An
estimator (`shrunk`) turns that into counts by value with their covariance. Conditions and keys on
the sensitive column then pick from these, value by value, so that every answer is a linear form
with a standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.columns import list_some, value_text
from sfumato.errors import QueryError, SingularOperator
from sfumato.operators.base import FloatArray
from sfumato.queries.answer import Answer
from sfumato.queries.bucket_classes import Classes, Reading
from sfumato.queries.bucket_table import BucketTable, bucket_table_of
from sfumato.queries.consistent import project
from sfumato.queries.evaluate import Wishes, finish
from sfumato.queries.question import Question
from sfumato.queries.session import session_of
from sfumato.queries.shrunk import ESTIMATORS, Estimated, Estimator, Law, Moments
from sfumato.queries.virtual import VirtualTable

if TYPE_CHECKING:
    from sfumato.release import Release

DEFAULT = "shrunk"


def answer_bucketed(release: Release, question: Question, wishes: Wishes) -> Answer:
    """Answer from a release of the kind `bucketed`."""
    name = wishes.estimator or DEFAULT
    if name not in ESTIMATORS:
        raise QueryError(
            f"A bucketed release has no estimator {name!r}. Estimators there are: "
            f"{', '.join(ESTIMATORS)}."
        )
    session = session_of(release, wishes.threads, wishes.engine)
    tables: dict[str, pa.Table] = {}
    if not question.sensitive:
        sql = VirtualTable(question, session, tables).sql(wishes.quantile)
    else:
        if wishes.consistent:
            _check_consistent(question)
        buckets = bucket_table_of(release)
        if name == "inverse":
            _check_invertible(buckets)
        classes = Classes(question, session, buckets)
        tables["computed"] = _estimates(classes, buckets.law, ESTIMATORS[name], wishes)
        sql = "WITH estimates AS (SELECT * FROM computed)"
    table = finish(release, question, session, sql, tables, keys=wishes.keys)
    aggregates = [output.name for output in question.outputs if output.of == "aggregate"]
    return Answer(table, tuple(aggregates), wishes.confidence)


def _check_invertible(buckets: BucketTable) -> None:
    confused = buckets.law.operator.confused()
    if len(confused):
        values = buckets.domain.take(pa.array(confused)).to_pylist()
        raise SingularOperator(
            f"The buckets cannot tell some values of column {buckets.column!r} apart, because they "
            f"nearly always stand together: {list_some([value_text(v) for v in values], 50)}. No "
            "unbiased estimate exists; use the estimator 'shrunk'."
        )


def _check_consistent(question: Question) -> None:
    for aggregate in question.aggregates:
        if aggregate.function != "count" or aggregate.argument is not None:
            raise QueryError(
                f"A consistent answer is not possible for {aggregate.text}: only COUNT(*) can be "
                "made consistent. Ask for COUNT(*), or leave `consistent` out."
            )


def _estimates(classes: Classes, law: Law, estimator: Estimator, wishes: Wishes) -> pa.Table:
    """Keys and, for each aggregate, value, standard error and interval: one line per answer row."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = dict(classes.keys)
    for place, reading in enumerate(classes.readings):
        value, error = _aggregate(classes, reading, law, estimator, wishes.consistent)
        low, high = value - wishes.quantile * error, value + wishes.quantile * error
        if wishes.consistent:
            low = np.maximum(low, 0.0)
        missing = np.isnan(value)
        for suffix, array in (("", value), ("_stderr", error), ("_low", low), ("_high", high)):
            columns[f"a{place}{suffix}"] = pa.array(array, pa.float64(), mask=missing)
    return pa.table(columns)


def _aggregate(
    classes: Classes, reading: Reading, law: Law, estimator: Estimator, consistent: bool
) -> tuple[FloatArray, FloatArray]:
    """Value and standard error by answer row; classes of one row add up."""
    rows, function = classes.rows, reading.aggregate.function
    value, count, variance = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    present = np.zeros(rows, np.bool_)
    known: list[tuple[Moments, Estimated, Estimated]] = []
    for number in range(classes.number):
        moments = classes.moments(reading, number)
        found = estimator(law, moments)
        if consistent:
            nearest = project(
                found.mean, np.full(len(found.mean), moments.total), np.zeros(len(found.mean), int)
            )
            found = Estimated(nearest, found.covariance)
        counted = found
        if reading.total is not None and function == "avg":
            counted = estimator(law, Moments.count(moments.number, moments.shown_number))
        known.append((moments, found, counted))
        chosen, forms, there = classes.forms(reading, number)
        value[chosen] += forms @ found.mean
        count[chosen] += there @ counted.mean
        present[chosen] |= there.any(axis=1) & (moments.number > 0)
        if function != "avg":
            variance[chosen] += _quadratic(forms, found.covariance)
    if function == "count":
        return value, np.sqrt(np.maximum(variance, 0.0))
    if function == "avg":
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(count != 0, value / count, np.nan)
        for number, (moments, found, _) in enumerate(known):
            chosen, forms, there = classes.forms(reading, number)
            for row, form, where in zip(chosen, forms, there, strict=True):
                if not np.isfinite(value[row]):
                    continue
                # R = N/D: Var R ≈ Var(N − R·D)/D², which is a linear form for fixed R
                if reading.total is None:
                    around = form - value[row] * where
                    variance[row] += around @ found.covariance @ around
                else:
                    centred = estimator(law, moments.minus(float(value[row])))
                    variance[row] += where @ centred.covariance @ where
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = variance / count**2
    value = np.where(present, value, np.nan)  # nothing to sum: no value, as in SQL
    return value, np.sqrt(np.maximum(variance, 0.0))


def _quadratic(forms: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ri,ij,rj->r", forms, covariance, forms, optimize=True))
