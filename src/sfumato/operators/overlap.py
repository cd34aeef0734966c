"""How much of a range or a set satisfies a condition, if its values are equally likely.

The estimator of generalized releases (the paper's Section 5, "uniform distribution and
proportionality"; for sets errata H18): a record counts with the share of what it shows.
"""

from __future__ import annotations

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray


def share_of_whole_numbers(
    low: FloatArray, high: FloatArray, satisfied: BoolArray, start: int
) -> FloatArray:
    """Of ranges of whole numbers; `satisfied` says which of the numbers from `start` on do.

    >>> share_of_whole_numbers(np.array([3.0]), np.array([6.0]), np.arange(10) > 4, 0).tolist()
    [0.5]
    """
    until = np.concatenate([[0], np.cumsum(satisfied)])
    first, last = (low - start).astype(np.int64), (high - start).astype(np.int64) + 1
    return np.asarray((until[last] - until[first]) / (last - first))


def share_of_intervals(low: FloatArray, high: FloatArray, first: float, last: float) -> FloatArray:
    """The part of [low, high] inside [first, last]; a single number is inside or not.

    >>> share_of_intervals(np.array([0.0, 2.0]), np.array([4.0, 2.0]), 1.0, 2.0).tolist()
    [0.25, 1.0]
    """
    inside = np.maximum(np.minimum(high, last) - np.maximum(low, first), 0)
    width = high - low
    point = (first <= low) & (low <= last)
    return np.asarray(np.where(width > 0, inside / np.where(width > 0, width, 1), point))


def share_of_sets(members: IntArray, starts: IntArray, satisfied: BoolArray) -> FloatArray:
    """Of sets of codes; the members of set i are those from `starts[i]` to `starts[i + 1]`.

    >>> share_of_sets(np.array([0, 1, 1]), np.array([0, 2, 3]), np.array([False, True])).tolist()
    [0.5, 1.0]
    """
    until = np.concatenate([[0], np.cumsum(satisfied[members])])
    return np.asarray((until[starts[1:]] - until[starts[:-1]]) / np.diff(starts))
