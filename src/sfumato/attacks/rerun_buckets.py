"""Buckets made again: what the match sets of `heterogeneous` tell of its buckets.

Every row has one person of each bucket, so the indicator of a bucket less that of another vanishes
under the matrix of rows and people: where nothing else does, its null space tells who shares a
bucket. Where the null space is larger, the reader is granted the buckets all the same. All rows
with one value took it from one bucket; which of the μ, is what the shift hides. The program would
not have kept a region whole had both halves of it allowed the promise: buckets under which the
value is too common in a half explain what was published better, and get more weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.attacks.reruns import Block, Read
from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.heterogeneous.blocks import halves
from sfumato.mechanisms.heterogeneous.diversity import Diversity
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.operators.base import FloatArray

_VECTORS = 3  # random ones: two buckets with the same number in all of them are not told apart
_ALIKE = 1e-6


def bucket_weights(block: Block, shown: IntArray, axes: Sequence[Axis], draws: Draws) -> Read:
    """How well each pair's value and bucket explain that the block was not cut."""
    number = len(block.row) // max(len(block.rows), 1)
    found = null_groups(block.matrix, number, draws.child("buckets"))
    buckets = block.granted if found is None else found
    sides = halves(block.records, axes, Diversity.places * number)
    weights = np.ones(len(block.row))
    if sides is None:  # too small to be cut: that it was not tells nothing
        return Read(weights, recovered=found is not None)
    values = np.unique(shown[block.rows], return_inverse=True)[1].reshape(-1)[block.row]
    place = values * number + buckets[block.record]
    for side in sides:
        inside = np.isin(block.records[block.record], side)
        # by value and bucket: people of the half who would have the value
        counts = np.bincount(place[inside], minlength=int(place.max()) + 1)
        weights = np.maximum(weights, counts[place] / max(len(side) // number, 1))
    return Read(weights, recovered=found is not None)


def null_groups(matrix: Any, number: int, draws: Draws) -> IntArray | None:
    """The group of every column, if the null space is that of `number` groups of which each row
    has one; None where it is larger.

    >>> from scipy.sparse import csr_array
    >>> rows = csr_array(np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1]]))
    >>> null_groups(rows, 2, Draws.from_seed(1)).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    levels: list[FloatArray] = []
    groups = np.zeros(matrix.shape[1], np.int64)
    for turn in range(_VECTORS):
        levels.append(np.round(_projected(matrix, draws.child(f"vector {turn}")) / _ALIKE))
        every = np.stack(levels, axis=1)
        groups = _near(every)
        if int(groups.max()) + 1 > number:
            return None
    return groups if int(groups.max()) + 1 == number else None


def _near(levels: FloatArray) -> IntArray:
    """Columns whose numbers are alike, up to what rounding leaves."""
    order = np.lexsort(levels.T)
    apart = np.abs(np.diff(levels[order], axis=0)).max(axis=1) > 10
    groups = np.empty(len(order), np.int64)
    groups[order] = np.concatenate([[0], np.cumsum(apart)])
    return groups


def _projected(matrix: Any, draws: Draws) -> FloatArray:
    """A random vector, projected on the null space."""
    from scipy.sparse.linalg import lsqr

    words = draws.words("vector", Positions(0, matrix.shape[1]))
    vector = words / float(1 << 64) - 0.5
    seen = lsqr(matrix, matrix @ vector, atol=1e-12, btol=1e-12, iter_lim=4 * matrix.shape[1])[0]
    return np.asarray(vector - seen, np.float64)
