"""Negative associations: values that a quasi value all but rules out (F'-privacy paper, Section 6).

An adversary who reads the release like any analyst may learn that people with some quasi value z
hardly ever have x, and strike x from the list of their bucket. A fake that can be struck protects
nobody; and if no fake could be struck, what can be would be real. So the steward mines the same
associations from the same release, and draws fakes that are ruled out as often as real values
are (`BucketPlan.listed`). x is ruled out by z where, with 95 % confidence, people with z have
x at most `threshold` times as often as everybody: n̂_{z,x} + 1.645·error ≤ threshold·n_z·f_x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array

_CONFIDENCE = 1.645  # standard errors: 95 % on one side

Records = Callable[[], Iterable["pa.RecordBatch"]]


def barred_values(
    records: Records, shares: csr_array, sizes: IntArray, threshold: Fraction
) -> BoolArray:
    """Buckets by values: what some record of the bucket rules out; `shares` are those of values in
    buckets. Two passes over the records."""
    shown, operator = _shown(records, shares), BucketOperator.of(shares, sizes)
    weights = np.asarray(np.linalg.pinv(operator.matrix), np.float64)
    ruled_out = {
        column: {
            value: _ruled_out(number, beside, operator, weights, float(threshold))
            for value, (number, beside) in seen.items()
        }
        for column, seen in shown.items()
    }
    barred = np.zeros(shares.shape, np.bool_)
    for batch in records():
        buckets = np.asarray(batch.column("bucket").to_numpy(), np.int64)
        for column, by_value in ruled_out.items():
            encoded = _encoded(batch.column(column))
            masks = np.stack([by_value[value] for value in encoded.dictionary.to_pylist()])
            codes = encoded.indices.to_numpy()
            for code in np.flatnonzero(masks.any(axis=1)):
                barred[buckets[codes == code]] |= masks[code]
    return barred


def _shown(records: Records, shares: csr_array) -> dict[str, dict[object, tuple[int, FloatArray]]]:
    """By quasi column and value: how many records, and what their buckets show."""
    from scipy.sparse import csr_array

    shown: dict[str, dict[object, tuple[int, FloatArray]]] = {}
    for batch in records():
        buckets = np.asarray(batch.column("bucket").to_numpy(), np.int64)
        for column in batch.schema.names:
            if column == "bucket":
                continue
            encoded = _encoded(batch.column(column))
            names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
            met = csr_array((np.ones(len(codes)), (codes, buckets)), (len(names), shares.shape[0]))
            sums = (met @ shares).toarray()
            of_column = shown.setdefault(column, {})
            for name, number, more in zip(names, met.sum(axis=1), sums, strict=True):
                before, beside = of_column.get(name, (0, 0.0))
                of_column[name] = (before + int(number), beside + more)
    return shown


def _ruled_out(
    number: int,
    shown: FloatArray,
    operator: BucketOperator,
    weights: FloatArray,
    threshold: float,
) -> BoolArray:
    mean = weights.T @ shown
    counts, matrix = operator.counts, operator.matrix
    inside, people = np.clip(mean, 0.0, counts), max(float(counts.sum()), 1.0)
    # records at random slots of their value; how a slot shows is taken as alike for all values
    spread = float((inside * (1 - inside / np.maximum(counts, 1.0))).sum()) / people
    scatter = operator.together - matrix.T @ (counts[:, None] * matrix)
    error = np.sqrt(np.maximum(np.diag(weights.T @ (scatter * spread) @ weights), 0.0))
    usual = number * counts / people
    return np.asarray(mean + _CONFIDENCE * error <= threshold * usual, np.bool_)


def _encoded(array: pa.Array) -> pa.DictionaryArray:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.dictionary_encode(null_encoding="encode")
