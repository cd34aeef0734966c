"""Categories in an order that trees can cut: like classes next to each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.learn.features import Features
from sfumato.operators.base import FloatArray

_SHRUNK = 20.0  # records of the overall shares that every category has besides its own


def ranked(
    codes: IntArray, size: int, counts: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """The place of every code along the direction in which the shares of classes differ most.

    `counts` has what every record counts towards every class. For two classes this is the order by
    the share of one, in which some cut is the best of all groupings (Breiman).

    >>> counts = np.eye(2)[[0, 0, 1, 1, 0, 1]]
    >>> ranked(np.array([0, 0, 1, 1, 2, 2]), 3, counts).argsort().tolist() in ([0, 2, 1], [1, 2, 0])
    True
    """
    weights = np.ones(len(codes)) if weights is None else weights
    held = np.bincount(codes, weights, minlength=size)[:, None]
    sums = np.zeros((size, counts.shape[1]))
    np.add.at(sums, codes, counts * weights[:, None])
    mean = sums.sum(axis=0) / max(float(weights.sum()), 1.0)
    shares = (sums + _SHRUNK * mean) / (held + _SHRUNK) - mean
    _, vectors = np.linalg.eigh((shares * held).T @ shares)
    along = shares @ vectors[:, -1]
    place = np.empty(size)
    place[np.argsort(along, kind="stable")] = np.arange(size)
    return place


def feature_ranks(
    features: Features, table: pa.Table, counts: FloatArray
) -> list[FloatArray | None]:
    """By feature: its ranks, or None for a number."""
    return [
        None if each.is_number else ranked(each.codes(table), each.code.size, counts)
        for each in features.each
    ]
